// SPDX-License-Identifier: Apache-2.0
#include "preprocess/part_journal.hpp"

#include "base/error.hpp"
#include "base/hash.hpp"
#include "io/json.hpp"

namespace lm::preprocess {

std::string PartRecord::to_line() const {
    io::OrderedJson j;
    j["piece"] = next.piece;
    j["offset"] = next.offset;
    j["lines"] = lines;
    j["finished"] = finished;
    j["totals"] = totals.to_json();
    j["keys"] = io::OrderedJson::array();
    for (const data::PartState& key : keys) j["keys"].push_back(key.to_json());
    const std::string text = j.dump();
    return text + "\t" + digest(text) + "\n";
}

std::optional<PartRecord> PartRecord::parse(std::string_view line, const std::string& path) {
    const size_t tab = line.find('\t');
    if (tab == line.npos || line.substr(tab + 1) != digest(line.substr(0, tab)))
        return std::nullopt;
    const io::Json j = io::parse_json(line.substr(0, tab), path);
    PartRecord record;
    record.next = {io::json_get<i64>(j, "piece", path), io::json_get<i64>(j, "offset", path)};
    record.lines = io::json_get<i64>(j, "lines", path);
    record.finished = io::json_get<bool>(j, "finished", path);
    record.totals = BuildTotals::parse(io::json_get<io::Json>(j, "totals", path), path);
    for (const io::Json& key : io::json_get<std::vector<io::Json>>(j, "keys", path))
        record.keys.push_back(data::PartState::parse(key, path));
    return record;
}

PartJournal PartJournal::open(const std::string& path) {
    io::AppendFile file = io::AppendFile::open(path);
    if (!file.lock())
        usage_error(path, "another process works on this part: wait until the process has ended");
    return PartJournal(std::move(file));
}

std::vector<PartRecord> PartJournal::read(size_t n_keys) {
    std::string text;
    file_.for_each_block(file_.size(), [&](std::span<const std::byte> block) {
        text.append(reinterpret_cast<const char*>(block.data()), block.size());
    });
    std::vector<PartRecord> records;
    ends_.clear();
    i64 end = 0;
    for (std::string_view rest = text; !rest.empty();) {
        const std::string_view line = data::next_line(rest);
        end += static_cast<i64>(line.size()) + 1;
        auto record = PartRecord::parse(line, file_.path());
        // If end > size, the last line has no newline, because a kill truncated it.
        if (!record || record->keys.size() != n_keys || end > file_.size()) break;
        records.push_back(std::move(*record));
        ends_.push_back(end);
    }
    return records;
}

void PartJournal::keep(size_t n) {
    file_.truncate(n > 0 ? ends_.at(n - 1) : 0);
}

void PartJournal::append(const PartRecord& record) {
    const std::string line = record.to_line();
    file_.write(std::as_bytes(std::span(line)));
    file_.flush();
}

}  // namespace lm::preprocess
