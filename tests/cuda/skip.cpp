// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // of listeners
#include "skip.hpp"

#include <fmt/format.h>

#include <catch2/catch.hpp>

namespace lm::test {
namespace {

int n_left_out = 0;
int n_run = 0;
std::string last_reason;

class Counter final : public Catch::TestEventListenerBase {
  public:
    using TestEventListenerBase::TestEventListenerBase;
    void testCaseEnded(const Catch::TestCaseStats& stats) override {
        if (stats.totals.assertions.total() > 0) ++n_run;
    }
};
CATCH_REGISTER_LISTENER(Counter)

}  // namespace

void leave_out(const std::string& why) {
    ++n_left_out;
    last_reason = why;
    fmt::print("left out: {}: {}\n", Catch::getResultCapture().getCurrentTestName(), why);
}

std::string why_nothing_ran() {
    return n_run == 0 && n_left_out > 0 ? last_reason : "";
}

}  // namespace lm::test
