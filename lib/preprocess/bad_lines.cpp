// SPDX-License-Identifier: Apache-2.0
#include "preprocess/bad_lines.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/inputs.hpp"
#include "io/stream.hpp"

namespace lm::preprocess {
namespace {

constexpr size_t max_kept = 16;

// Counts the line ends in bytes [0, end) of a plain file.
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

// Returns the remedy for the message about line number `line` (from 1), which stops the run.
std::string remedy(i64 line, const data::LineError& error, OnBadLine rule) {
    using Fault = data::LineError::Fault;
    const char* skip = "--on-bad-line skip drops such lines";
    if (error.fault == Fault::encoding) return "";  // the reason contains the remedy
    if (error.fault == Fault::length)
        return ": split the text into several texts, or remove the line";
    if (error.fault == Fault::token)
        return ": remove the byte from the text, remove the line, or use another tokenizer";
    if (error.fault == Fault::key)
        return fmt::format(": --json-keys names the member that holds the text, {}", skip);
    // If the first byte of a file does not begin an object, the file is not JSON Lines, and
    // skipping lines would not help.
    if (line == 1 && error.byte == 1) return "";
    if (rule == OnBadLine::replace)
        return ": --on-bad-line replace repairs characters only, --on-bad-line skip drops the line";
    if (error.fault == Fault::character)
        return ": --on-bad-line replace writes U+FFFD instead, --on-bad-line skip drops the line";
    return fmt::format(": {}", skip);
}

}  // namespace

data::InvalidText invalid_text_of(OnBadLine rule) {
    return rule == OnBadLine::replace ? data::InvalidText::replace : data::InvalidText::refuse;
}

void BadLines::add(i64 line, const data::LineError& error) {
    ++count;
    if (first.size() < max_kept || !error.is_skippable()) first.push_back({line, error});
}

void BadLines::clear() {
    count = 0;
    first.clear();
}

void BadLineWarnings::warn_skipped(const std::string& where, const std::string& reason) {
    if (n_warned_++ < max_warnings) warn("{}: {}: skipped", where, reason);
}

void BadLineWarnings::warn_rest(i64 n_bad) {
    if (n_bad <= max_warnings) return;
    warn("{} more skipped lines: only the first {} have a warning of their own",
         n_bad - max_warnings, max_warnings);
}

i64 BadLineReporter::lines_before_piece(const data::LineChunk& chunk, const std::string& input,
                                        i64 lines_before) {
    if (piece_ == chunk.piece) return before_piece_;
    piece_ = chunk.piece;
    before_piece_ = chunk.after_others ? count_lines(input, chunk.offset) - lines_before : 0;
    return before_piece_;
}

void BadLineReporter::report(const data::LineChunk& chunk, const std::string& input,
                             i64 lines_before, const BadLines& bad) {
    for (const auto& [line, error] : bad.first) {
        const bool ends_run = rule_ != OnBadLine::skip || !error.is_skippable();
        if (!ends_run && warnings_.exhausted()) continue;
        const i64 before = lines_before_piece(chunk, input, lines_before) + lines_before;
        const i64 number = before + line + 1;
        const std::string where =
            fmt::format("{}:{}:{}", io::input_name(input), number, error.byte);
        if (ends_run)
            throw data::BadLineError(chunk, where, error.reason + remedy(number, error, rule_));
        warnings_.warn_skipped(where, error.reason);
    }
}

}  // namespace lm::preprocess
