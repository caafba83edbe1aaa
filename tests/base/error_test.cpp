// SPDX-License-Identifier: Apache-2.0
#include "base/error.hpp"

#include <new>
#include <stdexcept>
#include <system_error>

#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using test::caught;

TEST_CASE("every exception is reported with an exit code") {
    const Error own = error_of(JointError(Exit::self_stopped, "iteration 3: the loss is NaN"));
    CHECK(own.code() == Exit::self_stopped);
    CHECK(own.what() == std::string("iteration 3: the loss is NaN"));

    const Error memory = error_of(std::bad_alloc());
    CHECK(memory.code() == Exit::failure);
    CHECK(memory.what() == std::string("out of memory"));

    const Error thread =
        error_of(std::system_error(std::make_error_code(std::errc::no_such_process)));
    CHECK(thread.code() == Exit::failure);
    CHECK_THAT(thread.what(), ContainsSubstring("check ulimit -a"));

    const Error bug = error_of(std::runtime_error("no such file"));
    CHECK(bug.code() == Exit::bug);
    CHECK_THAT(bug.what(), ContainsSubstring("internal error: no such file"));
}

TEST_CASE("errors carry an exit code and one line") {
    const auto usage = caught([] { usage_error("--x", "'{}' is wrong", 5); });
    CHECK(usage.code == Exit::usage);
    CHECK(usage.message == "--x: '5' is wrong");
    CHECK(caught([] { run_error("f", "gone"); }).code == Exit::failure);
    const auto ours = caught([] { LM_CHECK(1 > 2, "odd"); });
    CHECK(ours.code == Exit::bug);
    CHECK(ours.says("error_test.cpp:"));
    CHECK(ours.says("odd"));
}
