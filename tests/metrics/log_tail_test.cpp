// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_tail.hpp"

#include <sys/stat.h>

#include <filesystem>
#include <fstream>

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;

namespace {

void append(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::app) << text;
}

// Returns the lines of one poll, joined by '|'.
std::string polled(metrics::LogTail& tail) {
    std::string lines;
    const i64 n = tail.poll([&](std::string_view line) { lines += std::string(line) + "|"; });
    CHECK(n == std::count(lines.begin(), lines.end(), '|'));
    return lines;
}

}  // namespace

TEST_CASE("a log is read as it grows") {
    const test::TempDir dir;
    const std::string path = dir / "log";
    metrics::LogTail tail(path);
    CHECK(polled(tail).empty());  // it does not exist yet
    append(path, "one\ntwo\nthr");
    CHECK(polled(tail) == "one|two|");
    CHECK(polled(tail).empty());
    append(path, "ee\rfour\r\n\n");
    CHECK(polled(tail) == "three|four|");
}

TEST_CASE("a truncated log is read from its start") {
    const test::TempDir dir;
    const std::string path = dir / "log";
    append(path, "a long first line\nand half");
    metrics::LogTail tail(path);
    CHECK(polled(tail) == "a long first line|");
    std::ofstream(path, std::ios::trunc) << "new\n";
    CHECK(polled(tail) == "new|");
}

TEST_CASE("a rotated log is read to its end, then the new file") {
    const test::TempDir dir;
    const std::string path = dir / "log";
    append(path, "one\n");
    metrics::LogTail tail(path);
    CHECK(polled(tail) == "one|");
    std::filesystem::rename(path, path + ".1");
    append(path + ".1", "two\nno end");
    CHECK(polled(tail) == "two|");  // there is no new file yet
    append(path, "three\n");
    CHECK(polled(tail) == "no end|three|");
    append(path, "four\n");
    CHECK(polled(tail) == "four|");
}

TEST_CASE("a line longer than the limit is passed on in parts") {
    const test::TempDir dir;
    const std::string path = dir / "log";
    append(path, std::string(200000, 'x') + "\nend\n");
    metrics::LogTail tail(path);
    size_t bytes = 0;
    tail.poll([&](std::string_view line) { bytes += line.size(); });
    CHECK(bytes == 200003);
}

TEST_CASE("devices, FIFOs and directories are not followed") {
    const test::TempDir dir;
    const std::string fifo = dir / "fifo";
    REQUIRE(::mkfifo(fifo.c_str(), 0600) == 0);
    for (const std::string& path : {std::string("/dev/zero"), fifo, dir / ""}) {
        metrics::LogTail tail(path);
        CHECK(test::caught([&] { tail.poll([](std::string_view) {}); }).says(path + ": "));
    }
}
