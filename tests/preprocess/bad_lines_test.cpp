// SPDX-License-Identifier: Apache-2.0
#include "preprocess/bad_lines.hpp"

#include <vector>

#include "base/log.hpp"
#include "io/atomic.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::preprocess;
using lm::data::LineError;
using Fault = lm::data::LineError::Fault;

namespace {

// Collects the warnings of its scope.
class Warnings {
  public:
    Warnings() {
        set_log_sink([this](Severity, std::string_view text) { lines.emplace_back(text); });
    }
    ~Warnings() { set_log_sink({}); }
    std::vector<std::string> lines;
};

data::LineChunk chunk_of_piece(i64 piece) {
    data::LineChunk chunk;
    chunk.piece = piece;
    return chunk;
}

BadLines one_bad_line(i64 line, Fault fault) {
    BadLines bad;
    bad.add(line, {7, "the reason", fault});
    return bad;
}

std::string error_of(OnBadLine rule, Fault fault) {
    BadLineWarnings warnings;
    BadLineReporter reporter(rule, warnings);
    return test::caught(
               [&] { reporter.report(chunk_of_piece(0), "a.jsonl", 0, one_bad_line(2, fault)); })
        .message;
}

}  // namespace

TEST_CASE("the error of a bad line gives file, line, byte, reason and remedy") {
    CHECK_THAT(error_of(OnBadLine::fail, Fault::line),
               HasInOrder("a.jsonl:3:7: the reason: --on-bad-line skip "));
    CHECK_THAT(error_of(OnBadLine::fail, Fault::character),
               HasInOrder("replace", "U+FFFD", "skip"));
    CHECK_THAT(error_of(OnBadLine::replace, Fault::line), HasInOrder("replace", "skip"));
    CHECK(error_of(OnBadLine::fail, Fault::key).find("--json-keys") != std::string::npos);
    CHECK(error_of(OnBadLine::fail, Fault::encoding) == "a.jsonl:3:7: the reason");
}

TEST_CASE("skip warns of bad lines, and ends the run for a line with partly written ids") {
    CHECK(error_of(OnBadLine::skip, Fault::line).empty());
    CHECK_THAT(error_of(OnBadLine::skip, Fault::length),
               HasInOrder("a.jsonl:3:7: the reason: ", "split"));
}

TEST_CASE("a run warns of ten skipped lines and then of the number of the rest") {
    const Warnings log;
    BadLineWarnings warnings;
    BadLineReporter first(OnBadLine::skip, warnings), second(OnBadLine::skip, warnings);
    for (i64 i = 0; i < 8; ++i) {
        first.report(chunk_of_piece(0), "a", 10 * i, one_bad_line(1, Fault::line));
        second.report(chunk_of_piece(0), "b", 10 * i, one_bad_line(1, Fault::line));
    }
    CHECK(log.lines.size() == 10);
    CHECK(log.lines[2] == "a:12:7: the reason: skipped");
    BadLineWarnings::warn_rest(16);
    CHECK(log.lines.size() == 11);
    CHECK_THAT(log.lines.back(), HasInOrder("6 ", "skipped", "10 "));
    BadLineWarnings::warn_rest(10);
    CHECK(log.lines.size() == 11);
}

TEST_CASE("a chunk keeps its first 16 bad lines and every one that must not be skipped") {
    BadLines bad;
    for (i64 i = 0; i < 100; ++i) bad.add(i, {1, "reason", Fault::line});
    bad.add(100, {1, "reason", Fault::length});
    CHECK(bad.count == 101);
    CHECK(bad.first.size() == 17);
    CHECK(bad.first.back().line == 100);
    bad.clear();
    CHECK(bad.count == 0);
    CHECK(bad.first.empty());
}

TEST_CASE("lines of a piece in the middle of a file are counted from the start of the file") {
    const test::TempDir dir(test::memory_root());
    io::write_file(dir / "a.jsonl", "1\n2\n3\n4\n5\n", io::Overwrite::no);
    BadLineWarnings warnings;
    BadLineReporter reporter(OnBadLine::fail, warnings);
    data::LineChunk chunk = chunk_of_piece(1);
    chunk.after_others = true;
    chunk.offset = 6;  // after three lines, one of them in this piece
    const auto error = test::caught(
        [&] { reporter.report(chunk, dir / "a.jsonl", 1, one_bad_line(0, Fault::line)); });
    CHECK(error.says("a.jsonl:4:7: "));
}
