// SPDX-License-Identifier: Apache-2.0
// Progress on a pseudo-terminal and on a pipe, with a clock that the test sets.
#include <pty.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "child.hpp"
#include "cli/progress_line.hpp"
#include "support/catch.hpp"

using lm::i64;
using lm::cli::ProgressLine;

namespace {

double now_s = 0;
double test_clock() {
    return now_s;
}

// Simulates work of `seconds` seconds that reports its progress 100 times a second.
int work(i64 total, bool quiet, double seconds, bool finish = true) {
    now_s = 100;
    ProgressLine progress("reading", "MB", total, quiet, test_clock);
    const int n_updates = static_cast<int>(seconds * 100);
    for (int i = 1; i <= n_updates; ++i) {
        now_s = 100 + i / 100.0;
        progress.update(i64{i} * 10'000);  // 1 MB/s
    }
    if (finish) progress.finish();
    return 0;
}

// Returns the output of a child whose standard error is a terminal of `columns`.
std::string on_terminal(unsigned short columns, const std::function<int()>& body) {
    int master = -1;
    struct winsize size = {24, columns, 0, 0};
    std::fflush(stdout);
    const pid_t child = forkpty(&master, nullptr, nullptr, &size);
    REQUIRE(child >= 0);
    if (child == 0) {
        setenv("TERM", "xterm", 1);
        _exit(body());
    }
    const std::string text = read_all(master);
    int status = 0;
    waitpid(child, &status, 0);
    CHECK(WEXITSTATUS(status) == 0);
    close(master);
    return text;
}

size_t count(const std::string& text, const std::string& part) {
    size_t n = 0;
    for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
}

}  // namespace

TEST_CASE("on a terminal one line is redrawn at most six times per second and cleared") {
    const std::string text = on_terminal(80, [] { return work(20'000'000, false, 10); });
    const size_t redraws = count(text, "reading:");
    CHECK(redraws >= 50);
    CHECK(redraws <= 60);
    CHECK(count(text, "\n") == 0);
    CHECK_THAT(text, ContainsSubstring("reading:  49 % 9.9/20.0 MB, 1.0 MB/s, 10.1 s left"));
    CHECK(text.ends_with("\r\x1b[K"));
}

TEST_CASE("a terminal line is cut to the width by whole fields, without colors") {
    const auto line = [](unsigned short columns) {
        const std::string text = on_terminal(columns, [] { return work(20'000'000, false, 2); });
        CHECK(count(text, "\x1b[") == count(text, "\x1b[K"));
        const size_t begin = text.rfind("reading");
        return text.substr(begin, text.find('\r', begin) - begin);
    };
    CHECK(line(80) == "reading:   9 % 1.9/20.0 MB, 1.0 MB/s, 18.1 s left");
    CHECK(line(50) == "reading:   9 % 1.9/20.0 MB, 1.0 MB/s, 18.1 s left");
    CHECK(line(49) == "reading:   9 %, 1.0 MB/s, 18.1 s left");
    CHECK(line(37) == "reading:   9 %, 1.0 MB/s");
    CHECK(line(24) == "reading:   9 %");
    CHECK(line(10) == "reading");
}

TEST_CASE("a slow start spoils neither the rate nor the time left") {
    const std::string text = on_terminal(80, [] {
        now_s = 0;
        ProgressLine progress("reading", "MB", 2'000'000'000, false, test_clock);
        for (int i = 1; i <= 11; ++i) {  // 1 MB in the first 0.2 s, then 200 MB/s
            now_s = 0.2 * i;
            progress.update(1'000'000 + i64{i - 1} * 40'000'000);
        }
        return 0;
    });
    const std::string first = text.substr(0, text.find("reading", 20));
    CHECK_THAT(first, !ContainsSubstring("left"));
    CHECK_THAT(text, ContainsSubstring("20 % 401.0/2000.0 MB, 18"));  // 182 MB/s is the mean
    CHECK_THAT(text, ContainsSubstring("8.7 s left") || ContainsSubstring("8.6 s left"));
}

TEST_CASE("resumed work counts for the percentage, not for the rate") {
    const std::string text = on_terminal(100, [] {
        now_s = 100;
        ProgressLine progress("training", "tokens", 1000, false, test_clock, 500);
        now_s = 102;
        progress.update(600);
        return 0;
    });
    CHECK(count(text, "training:  60 % 600/1000 tokens, 50.0 tokens/s, 8.0 s left") == 1);
}

TEST_CASE("amounts in MiB") {
    const std::string text = on_terminal(80, [] {
        now_s = 0;
        ProgressLine progress("copy", "MiB", 20 << 20, false, test_clock);
        now_s = 2;
        progress.update(4 << 20);
        return 0;
    });
    CHECK_THAT(text, ContainsSubstring("copy:  20 % 4.0/20.0 MiB, 2.0 MiB/s, 8.0 s left"));
}

TEST_CASE("the largest common values of lm-preprocess fit in 80 columns") {
    const std::string text = on_terminal(80, [] {
        now_s = 0;
        ProgressLine progress("tokenizing", "MB", 2'000'000'000'000, false, test_clock);
        now_s = 100;
        progress.update(200'000'000'000, "320.1k docs/s, 272.1M tokens/s");
        return 0;
    });
    CHECK_THAT(
        text,
        ContainsSubstring(
            "tokenizing:  10 %, 2000 MB/s, 15 min 00 s left, 320.1k docs/s, 272.1M tokens/s\r"));
}

TEST_CASE("messages and the progress line do not overwrite each other") {
    const std::string text = on_terminal(80, [] {
        now_s = 0;
        ProgressLine progress("saving", "tensors", -1, false, test_clock);
        now_s = 1;
        progress.update(5);
        lm::cli::print_line("a message");
        return 0;
    });
    CHECK(text ==
          "\r\x1b[Ksaving: 5 tensors, 5.0 tensors/s"
          "\r\x1b[Ka message\r\nsaving: 5 tensors, 5.0 tensors/s\r\x1b[K");
}

TEST_CASE("without a terminal: one plain line per minute and a last one") {
    const Ended ended = in_child([] { return work(300'000'000, false, 150); });
    CHECK(ended.err ==
          "reading:  20 % 60.0/300.0 MB, 1.0 MB/s, 4 min 00 s left\n"
          "reading:  40 % 120.0/300.0 MB, 1.0 MB/s, 3 min 00 s left\n"
          "reading:  50 % 150.0/300.0 MB, 1.0 MB/s, 2 min 30 s left\n");
    CHECK(in_child([] { return work(300'000'000, false, 30); }).err.empty());
    CHECK(ended.out.empty());
}

TEST_CASE("quiet: no output") {
    CHECK(in_child([] { return work(300'000'000, true, 150); }).err.empty());
    CHECK(on_terminal(80, [] { return work(300'000'000, true, 150); }).empty());
}

TEST_CASE("a dumb terminal is like a pipe") {
    const std::string text = on_terminal(80, [] {
        setenv("TERM", "dumb", 1);
        return work(300'000'000, false, 61, false);
    });
    CHECK(text == "reading:  20 % 60.0/300.0 MB, 1.0 MB/s, 4 min 00 s left\r\n");
}
