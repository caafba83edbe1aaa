// SPDX-License-Identifier: Apache-2.0
#include "base/log.hpp"

#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace lm;

TEST_CASE("the log sink gets all messages; without a sink they are dropped") {
    std::vector<std::string> seen;
    set_log_sink([&](Severity severity, std::string_view text) {
        seen.push_back((severity == Severity::warning ? "W " : "N ") + std::string(text));
    });
    note("x: {} y", 1);
    warn("z");
    set_log_sink(nullptr);
    warn("unheard");
    CHECK(seen == std::vector<std::string>{"N x: 1 y", "W z"});
}

TEST_CASE("a warning of the second sink goes to the first one") {
    std::vector<std::string> seen;
    set_log_sink([&](Severity, std::string_view text) { seen.emplace_back(text); });
    set_log_copy([](Severity, std::string_view text) { warn("cannot write {}", text); });
    note("x");
    note("y");
    set_log_copy(nullptr);
    set_log_sink(nullptr);
    CHECK(seen == std::vector<std::string>{"x", "cannot write x", "y", "cannot write y"});
}
