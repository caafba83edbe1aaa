// SPDX-License-Identifier: Apache-2.0
#include "eval/score_results.hpp"

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"

namespace lm::eval {
namespace {

constexpr const char* unfinished_suffix = ".partial";

// Returns the complete lines of `text` before the first line that is not JSON. Sets `n_bytes` to
// the length of these lines in bytes.
std::vector<io::OrderedJson> whole_lines(const std::string& text, i64& n_bytes) {
    std::vector<io::OrderedJson> lines;
    n_bytes = 0;
    for (size_t begin = 0, end = 0; (end = text.find('\n', begin)) != text.npos; begin = end + 1) {
        auto line = io::ordered_json_or_null(std::string_view(text).substr(begin, end - begin));
        if (line.is_null()) break;
        lines.push_back(std::move(line));
        n_bytes = static_cast<i64>(end) + 1;
    }
    return lines;
}

}  // namespace

void ScoreResults::write(const std::string& text) {
    file_.write(std::as_bytes(std::span(text)));
    file_.flush();
}

ScoreResults ScoreResults::open(const std::string& path, const io::OrderedJson& run,
                                Unfinished unfinished, bool force) {
    if (io::exists(path) && !force) {
        usage_error(path, "exists already: use --force to replace it");
    }
    const std::string partial = path + unfinished_suffix;
    ScoreResults results(path, io::AppendFile::open(partial), force);
    if (!results.file_.lock())
        usage_error(partial, "another process writes this file: wait until it has ended");
    i64 n_bytes = 0;
    std::vector<io::OrderedJson> lines;
    if (unfinished == Unfinished::resume)
        lines = whole_lines(io::read_file(partial, INT64_MAX), n_bytes);
    if (!lines.empty() && lines.front() != run) {
        usage_error(partial,
                    "is from a run with other data, checkpoints or options: delete the file, or "
                    "give another --output");
    }
    results.file_.truncate(n_bytes);
    if (lines.empty()) {
        results.write(io::json_line(run));
        return results;
    }
    lines.erase(lines.begin());
    if (!lines.empty())
        note("{}: continues an unfinished run: number of results so far: {}", path, lines.size());
    results.earlier_ = std::move(lines);
    return results;
}

void ScoreResults::add(const io::OrderedJson& line) {
    write(io::json_line(line));
}

void ScoreResults::finish() {
    file_.sync();
    const std::string partial = path_ + unfinished_suffix;
    const std::string text = io::read_file(partial, INT64_MAX);
    io::write_file(path_, std::string_view(text).substr(text.find('\n') + 1),
                   force_ ? io::Overwrite::yes : io::Overwrite::no);
    io::remove_tree(partial);
}

}  // namespace lm::eval
