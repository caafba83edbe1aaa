// SPDX-License-Identifier: Apache-2.0
#include "part_run.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "cli/signals.hpp"
#include "io/file.hpp"

namespace lm::preprocess {
namespace {

constexpr i64 chunk_bytes = i64{1} << 20;
constexpr i64 record_bytes = i64{8} << 20;  // of text between two lines of the journal

}  // namespace

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
    record.totals = Totals::parse(io::json_get<io::Json>(j, "totals", path), path);
    for (const io::Json& key : io::json_get<std::vector<io::Json>>(j, "keys", path))
        record.keys.push_back(data::PartState::parse(key, path));
    return record;
}

PartRun::PartRun(const std::string& journal, const std::vector<std::string>& stems,
                 data::TokenType type, io::ReadAgain read_again)
    : journal_(io::AppendFile::open(journal)) {
    if (!journal_.lock()) usage_error(journal, "another process works on this part");
    for (const std::string& stem : stems) parts_.emplace_back(stem, type, read_again);
    for (data::DatasetPart& part : parts_) record_.keys.push_back(part.state());
}

void PartRun::resume(const std::function<void()>& check_others) {
    const auto check = [&] {
        if (cli::stop_requested() != cli::StopRequest::none) throw Stopped();
        check_others();
    };
    std::string text;
    journal_.for_each_block(journal_.size(), [&](std::span<const std::byte> block) {
        text.append(reinterpret_cast<const char*>(block.data()), block.size());
    });
    std::vector<PartRecord> records;
    std::vector<i64> ends;  // of each record's line
    i64 at = 0;
    for (std::string_view rest = text; !rest.empty();) {
        const std::string_view line = data::take_line(rest);
        at += static_cast<i64>(line.size()) + 1;
        auto record = PartRecord::parse(line, journal_.path());
        if (!record || record->keys.size() != parts_.size() || at > journal_.size()) break;
        records.push_back(std::move(*record));
        ends.push_back(at);
    }
    size_t n = records.size();
    for (size_t k = 0; k < parts_.size(); ++k) {
        std::vector<data::PartState> states;
        for (const PartRecord& record : records) states.push_back(record.keys[k]);
        n = std::min(n, parts_[k].count_intact(states, check));
    }
    if (n > 0) record_ = records[n - 1];
    journal_.truncate(n > 0 ? ends[n - 1] : 0);
    for (size_t k = 0; k < parts_.size(); ++k)
        parts_[k].resume(n > 0 ? record_.keys[k] : data::PartState(), check);
}

void PartRun::write_record() {
    for (size_t k = 0; k < parts_.size(); ++k) record_.keys[k] = parts_[k].state();
    const std::string line = record_.to_line();
    journal_.write(std::as_bytes(std::span(line)));
    journal_.flush();
    unrecorded_bytes_ = 0;
}

void PartRun::check_lines(const Work& work, const ChunkResult& result) {
    const data::LineChunk& chunk = result.chunk;
    if (chunk.first) record_.lines = 0;
    bad_lines_->take(chunk, (*work.inputs)[static_cast<size_t>(chunk.file)].path, record_.lines,
                     result.bad);
    record_.lines += result.n_lines;
}

// The journal knows no place within a chunk: what is done before is put down first.
void PartRun::take_ahead(const Work& work, const KeyTokens& ids, size_t key) {
    if (!within_chunk_) write_record();
    within_chunk_ = true;
    parts_[key].add_tokens(ids.ids.bytes(), ids.largest);
    Totals ahead;
    ahead.tokens = ids.ids.size();
    record_.totals += ahead;
    work.reporter->add(ahead, 0);
}

void PartRun::take(const Work& work, const ChunkResult& result) {
    check_lines(work, result);
    within_chunk_ = false;
    Totals chunk;
    chunk.documents = result.n_documents;
    chunk.text_bytes = result.text_bytes;
    chunk.input_bytes = static_cast<i64>(result.chunk.text().size());
    chunk.blank = result.n_blank;
    chunk.bad = result.bad.count;
    chunk.replaced = result.n_replaced;
    for (size_t k = 0; k < parts_.size(); ++k) {
        const KeyTokens& key = result.keys[k];
        parts_[k].add(key.ids.bytes(), key.lengths, key.sequences_per_document, key.largest);
        chunk.tokens += key.ids.size();
    }
    record_.next = result.chunk.next;
    if (result.chunk.next.offset < 0) record_.lines = 0;
    record_.totals += chunk;
    work.reporter->add(chunk, result.compressed_bytes - disk_bytes_);
    disk_bytes_ = result.compressed_bytes;
    unrecorded_bytes_ += chunk.input_bytes;
    if (unrecorded_bytes_ >= record_bytes) write_record();
}

void PartRun::run(const Work& work) {
    if (record_.finished) return;
    bad_lines_.emplace(work.rules->on_bad_line);
    data::ChunkReader reader(*work.inputs, work.pieces, chunk_bytes, record_.next, work.n_workers);
    reader.limit_decoding(work.decoding_memory);
    const auto check = [&] {
        if (cli::stop_requested() != cli::StopRequest::none) {
            if (!within_chunk_) write_record();
            throw Stopped();
        }
        work.check();
    };
    try {
        run_pipeline(reader, *work.rules, *work.tokenizer, work.n_workers, *work.budget,
                     {.take_ahead =
                          [&](const KeyTokens& ids, size_t key) {
                              check();
                              take_ahead(work, ids, key);
                          },
                      .take =
                          [&](const ChunkResult& result) {
                              check();
                              take(work, result);
                          },
                      .check = check});
    } catch (const data::BadLineError& bad_line) {
        reader.fail(bad_line, check);
    }
    check();
    record_.finished = true;
    for (data::DatasetPart& part : parts_) part.sync();
    write_record();
    journal_.sync();
}

}  // namespace lm::preprocess
