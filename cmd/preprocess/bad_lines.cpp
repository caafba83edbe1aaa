// SPDX-License-Identifier: Apache-2.0
#include "bad_lines.hpp"

#include <algorithm>
#include <atomic>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/inputs.hpp"
#include "io/stream.hpp"

namespace lm::preprocess {
namespace {

constexpr size_t most_kept = 16;
std::atomic<int> n_warned{0};

// Line ends in [0, end) of a plain file.
i64 count_lines(const std::string& path, i64 end) {
    const auto stream = io::open_plain_stream(path, 0);
    std::vector<std::byte> block(size_t{1} << 20);
    i64 n = 0;
    while (end > 0) {
        const auto want = static_cast<size_t>(std::min<i64>(end, static_cast<i64>(block.size())));
        const i64 got = stream->read(std::span(block).first(want));
        if (got == 0) break;
        n += std::count(block.begin(), block.begin() + got, std::byte{'\n'});
        end -= got;
    }
    return n;
}

// What can be done about a line that ends the work.
std::string remedy(const data::LineError& error, OnBadLine rule) {
    using Fault = data::LineError::Fault;
    const char* skip = "--on-bad-line skip drops such lines";
    if (error.fault == Fault::encoding) return "";  // the reason says it: all lines are like that
    if (error.fault == Fault::length) return ": cut it into several, or leave it out";
    if (error.fault == Fault::key)
        return fmt::format(": --json-keys names the member that holds the text, {}", skip);
    if (rule == OnBadLine::replace)
        return ": --on-bad-line replace mends characters only, skip drops the line";
    if (error.fault == Fault::character)
        return ": --on-bad-line replace puts U+FFFD there, skip drops the line";
    return fmt::format(": {}", skip);
}

}  // namespace

OnBadLine parse_on_bad_line(const std::string& name) {
    return name == "skip"      ? OnBadLine::skip
           : name == "replace" ? OnBadLine::replace
                               : OnBadLine::fail;
}

void BadLines::add(i64 line, const data::LineError& error) {
    ++count;
    if (first.size() < most_kept || !error.is_skippable()) first.push_back({line, error});
}

void BadLines::clear() {
    count = 0;
    first.clear();
}

i64 BadLineReport::lines_before_piece(const data::LineChunk& chunk, const std::string& input,
                                      i64 lines_before) {
    if (piece_ == chunk.piece) return before_piece_;
    piece_ = chunk.piece;
    before_piece_ = chunk.behind_others ? count_lines(input, chunk.offset) - lines_before : 0;
    return before_piece_;
}

void BadLineReport::take(const data::LineChunk& chunk, const std::string& input, i64 lines_before,
                         const BadLines& bad) {
    for (const auto& [line, error] : bad.first) {
        const bool ends_work = rule_ != OnBadLine::skip || !error.is_skippable();
        if (!ends_work && n_warned++ >= most_warnings) continue;
        const i64 before = lines_before_piece(chunk, input, lines_before) + lines_before;
        const std::string where =
            fmt::format("{}:{}:{}", io::input_name(input), before + line + 1, error.byte);
        if (ends_work) throw data::BadLineError(chunk, where, error.reason + remedy(error, rule_));
        warn("{}: {}: skipped", where, error.reason);
    }
}

void BadLineReport::say_rest(i64 n_bad) {
    if (n_bad <= most_warnings) return;
    warn("{} more lines were skipped: only the first {} are shown", n_bad - most_warnings,
         most_warnings);
}

}  // namespace lm::preprocess
