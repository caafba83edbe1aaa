// SPDX-License-Identifier: Apache-2.0
#define CATCH_CONFIG_EXTERNAL_INTERFACES  // for listeners
#include "skip.hpp"

#include <fmt/format.h>

#include "support/catch.hpp"

namespace lm::test {
namespace {

int n_skipped = 0;
int n_run = 0;
std::string last_reason;

class Counter final : public Listener {
  public:
    using Listener::Listener;
    void testCaseEnded(const Catch::TestCaseStats& stats) override {
        if (stats.totals.assertions.total() > 0) ++n_run;
    }
};
CATCH_REGISTER_LISTENER(Counter)

}  // namespace

void skip(const std::string& why) {
    ++n_skipped;
    last_reason = why;
    fmt::print("case skipped: {}: {}\n", Catch::getResultCapture().getCurrentTestName(), why);
}

std::string why_all_skipped() {
    return n_run == 0 && n_skipped > 0 ? last_reason : "";
}

}  // namespace lm::test
