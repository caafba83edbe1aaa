// SPDX-License-Identifier: Apache-2.0
#include "metrics/log_cause.hpp"

#include <fstream>
#include <sstream>

#include "support/catch.hpp"

using namespace lm;

namespace {

// Returns a log line of iteration `n` of 9.
std::string iteration_line(const std::string& n) {
    return " iteration " + n +
           "/ 9 | consumed samples: 8 | elapsed time per iteration (ms): 10.0 | learning rate: "
           "1.000E-05 | global batch size: 8 | lm loss: 2.0 | number of nan iterations:   0 |";
}

// Returns the verdict in the form of the corpus: "killed rank=2 host=n1 signal=9".
std::string verdict(const metrics::LogCause& log) {
    if (!log.root()) return "none";
    const metrics::Cause& cause = *log.root();
    std::string text(cause.rule->kind);
    if (cause.rank) text += " rank=" + std::to_string(*cause.rank);
    if (!cause.host.empty()) text += " host=" + cause.host;
    if (cause.signal) text += " signal=" + std::to_string(*cause.signal);
    return text;
}

}  // namespace

TEST_CASE("a failure that no rule knows is a hint, and three iterations discard it") {
    metrics::LogCause log;
    for (const char* n : {"1", "2", "3"}) log.add(iteration_line(n));
    log.add("lm-train: warning: the error of a wall clock");
    CHECK(!log.hint());
    log.add("accelerator driver: fatal condition 17");
    REQUIRE(log.hint());
    CHECK(!log.root());
    CHECK(log.hint()->line == "accelerator driver: fatal condition 17");
    CHECK(log.hint()->rule->kind == metrics::unknown_cause);
    for (const char* n : {"4", "5", "6"}) log.add(iteration_line(n));
    CHECK(!log.hint());
}

TEST_CASE("a loss that is not finite is a hint, unless the training recovers") {
    metrics::LogCause log;
    const auto iteration = [&log](const char* n, const char* loss) {
        log.add(std::string(" iteration ") + n +
                "/ 100 | consumed samples: 64 | elapsed time per iteration (ms): 12.5 |"
                " global batch size: 8 | lm loss: " +
                loss + " |");
    };
    for (const char* n : {"1", "2", "3", "4"}) iteration(n, "nan");
    REQUIRE(log.hint());
    CHECK(log.hint()->rule->kind == "nan");
    CHECK(log.hint()->line_number == 4);
    for (const char* n : {"5", "6", "7"}) iteration(n, "2.5E+00");
    CHECK(!log.hint());
}

TEST_CASE("the arguments that Megatron-LM lists at its start state no failure") {
    metrics::LogCause log;
    log.add("  error_injection_type ............................ transient_error");
    log.add("  data_path ....................................... ['/data/Segmentation fault']");
    CHECK(!log.root());
    CHECK(!log.hint());
}

TEST_CASE("the cause of each log of the corpora is found") {
    // The logs of log_causes.txt were written together with the table of causes. The first lines
    // of the other files state the origin of their logs.
    const std::string name = GENERATE("log_causes.txt", "log_causes_found.txt",
                                      "log_causes_published.txt", "log_causes_blind.txt");
    std::ifstream file(LM_TEST_DIR "/metrics/" + name);
    std::string line, expected;
    std::getline(file, line);  // the comment
    metrics::LogCause log;
    int n_logs = 0, first = 0, number = 1;
    const auto check = [&] {
        if (expected.empty()) return;
        ++n_logs;
        INFO(name << ":" << first << ": " << (log.root() ? log.root()->line : ""));
        CHECK(verdict(log) == expected);
    };
    while (std::getline(file, line)) {
        ++number;
        if (line.starts_with("=== ")) {
            check();
            expected = line.substr(4);
            first = number;
            log = {};
        } else {
            log.add(line.starts_with('@') ? iteration_line(line.substr(1)) : line);
        }
    }
    check();
    const bool small = name == "log_causes_found.txt" || name == "log_causes_blind.txt";
    CHECK(n_logs >= (small ? 25 : 60));
}
