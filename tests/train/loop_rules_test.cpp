// SPDX-License-Identifier: Apache-2.0
#include "train/loop/loop_rules.hpp"

#include "support/catch.hpp"

using namespace lm;
using namespace lm::train;

namespace {

LoopState after(i64 iteration) {
    LoopState now;
    now.done = {iteration, 8 * iteration, 80 * iteration};
    now.run_iterations = iteration;
    return now;
}

LoopRules rules() {
    LoopRules r;
    r.log_interval = 10;
    r.eval_interval = 100;
    r.saved = {{.interval = 50, .until = 0}};
    return r;
}

struct Done {
    bool log, save, evaluate;
    bool operator==(const Done&) const = default;
};

Done decide(const LoopRules& r, const LoopState& now) {
    return {should_log(r, now), should_save(r, now), should_evaluate(r, now)};
}

}  // namespace

TEST_CASE("an iteration outside of all intervals triggers nothing") {
    CHECK(decide(rules(), after(7)) == Done{false, false, false});
    CHECK(decide(rules(), after(10)) == Done{true, false, false});
    CHECK(decide(rules(), after(50)) == Done{true, true, false});
    CHECK(decide(rules(), after(100)) == Done{true, true, true});
    CHECK(should_stop(rules(), after(100)) == Stop::no);
    LoopRules quiet = rules();
    quiet.evaluates = quiet.saves = false;
    CHECK(decide(quiet, after(100)) == Done{true, false, false});
}

TEST_CASE("the end logs, saves and evaluates") {
    LoopState now = after(37);
    now.finished = true;
    CHECK(decide(rules(), now) == Done{true, true, true});
    CHECK(should_stop(rules(), now) == Stop::finished);
}

TEST_CASE("the test sets are evaluated at the end of the training only") {
    LoopRules r = rules();
    r.tests = true;
    LoopState now = after(100);
    CHECK_FALSE(should_test(r, now));
    now.stop_signal = true;
    CHECK_FALSE(should_test(r, now));
    now.finished = true;
    CHECK(should_test(r, now));
    now.kill_switch = true;
    CHECK_FALSE(should_test(r, now));
    now.kill_switch = false;
    r.tests = false;
    CHECK_FALSE(should_test(r, now));
}

TEST_CASE("three rounds of checkpoints in one run") {
    LoopRules r = rules();
    r.saved = spec::parse_save_schedule("10@100,18@1000,1500");
    std::vector<i64> at;
    for (i64 k = 1; k <= 4500; ++k) {
        if (should_save(r, after(k))) at.push_back(k);
    }
    CHECK(static_cast<i64>(at.size()) == spec::count_saves(r.saved, 4500));
    CHECK(std::vector<i64>(at.begin(), at.begin() + 12) ==
          std::vector<i64>{10, 20, 30, 40, 50, 60, 70, 80, 90, 100, 108, 126});
    CHECK(std::vector<i64>(at.end() - 5, at.end()) ==
          std::vector<i64>{990, 1000, 1500, 3000, 4500});
    r.saved = spec::parse_save_schedule("10@100");
    CHECK(should_save(r, after(100)));
    CHECK_FALSE(should_save(r, after(110)));
}

TEST_CASE("each way to stop has its exit code, and saves first") {
    struct Case {
        Stop stop;
        Exit code;
        LoopRules rules;
        LoopState now;
    };
    std::vector<Case> cases;
    const auto add = [&](Stop stop, Exit code) -> Case& {
        return cases.emplace_back(Case{stop, code, rules(), after(37)});
    };
    add(Stop::exit_interval, Exit::run_again).rules.exit_interval = 37;
    add(Stop::exit_iteration, Exit::done).rules.exit_iteration = 37;
    add(Stop::exit_samples, Exit::done).rules.exit_samples = 8 * 37;
    Case& late = add(Stop::duration, Exit::run_again);
    late.rules.exit_duration_s = 60;
    late.now.elapsed_s = 60.1;
    add(Stop::signal, Exit::run_again).now.stop_signal = true;
    add(Stop::kill_switch, Exit::do_not_run_again).now.kill_switch = true;
    add(Stop::finished, Exit::done).now.finished = true;
    for (const Case& c : cases) {
        CHECK(should_stop(c.rules, c.now) == c.stop);
        CHECK(exit_code(c.stop) == c.code);
        CHECK(should_save(c.rules, c.now));
        LoopRules without = c.rules;
        without.saves = false;
        CHECK_FALSE(should_save(without, c.now));
    }
}

TEST_CASE("--exit-interval counts this run, --exit-iteration the whole training") {
    LoopRules r = rules();
    r.exit_interval = 900;
    LoopState now = after(1000);
    now.run_iterations = 899;
    CHECK(should_stop(r, now) == Stop::no);
    now.run_iterations = 900;
    CHECK(should_stop(r, now) == Stop::exit_interval);
    r.exit_interval.reset();
    r.exit_iteration = 900;
    now.run_iterations = 0;  // resumed at exit_iteration
    CHECK(should_stop(r, now) == Stop::exit_iteration);
}

TEST_CASE("a duration that is over before the first iteration allows this iteration") {
    LoopRules r = rules();
    r.exit_duration_s = 1;
    LoopState now = after(0);
    now.elapsed_s = 100;
    CHECK(should_stop(r, now) == Stop::no);
    now.run_iterations = 1;
    CHECK(should_stop(r, now) == Stop::duration);
}

TEST_CASE("a time limit leaves time for the next step and the save") {
    LoopRules r = rules();
    r.exit_duration_s = 100;
    LoopState now = after(37);
    now.elapsed_s = 79;
    now.step_s = 5;
    now.save_s = 15;
    CHECK(should_stop(r, now) == Stop::no);
    now.elapsed_s = 80;
    CHECK(should_stop(r, now) == Stop::duration);
    // An evaluation that is due needs time, too. If the time left is too short, the next run
    // evaluates.
    now = after(100);
    now.elapsed_s = 60;
    now.step_s = 5;
    now.save_s = 15;
    now.evaluation_s = 10;
    CHECK(should_stop(r, now) == Stop::no);
    now.elapsed_s = 74;
    CHECK(should_stop(r, now) == Stop::duration);
    CHECK(should_evaluate(r, now));
    now.elapsed_s = 75;
    CHECK_FALSE(should_evaluate(r, now));
}

TEST_CASE("the end of the batch job is a time limit") {
    LoopRules r = rules();
    r.before_job_end_s = 60;
    LoopState now = after(37);
    now.job_end_unix_s = 1e9 + 60;
    now.unix_s = 1e9 - 21;
    now.save_s = 15;
    now.step_s = 5;
    CHECK(should_stop(r, now) == Stop::no);
    now.unix_s += 1;
    CHECK(should_stop(r, now) == Stop::job_limit);
    CHECK(exit_code(Stop::job_limit) == Exit::run_again);
    now.run_iterations = 0;
    CHECK(should_stop(r, now) == Stop::no);
}

TEST_CASE("an evaluation ends at the kill switch, a signal and a time limit") {
    LoopRules r = rules();
    r.exit_duration_s = 100;
    LoopState now = after(100);
    now.elapsed_s = 80;
    now.save_s = 15;
    CHECK(should_end_evaluation(r, now) == Stop::no);
    now.elapsed_s = 85;
    CHECK(should_end_evaluation(r, now) == Stop::duration);
    // The evaluation after the last iteration ends too, if a resumed run can repeat it.
    now.finished = true;
    CHECK(should_end_evaluation(r, now) == Stop::duration);
    r.saves = false;
    CHECK(should_end_evaluation(r, now) == Stop::no);
    now.stop_signal = true;
    CHECK(should_end_evaluation(r, now) == Stop::signal);
    now.kill_switch = true;
    CHECK(should_end_evaluation(r, now) == Stop::kill_switch);
}

TEST_CASE("a run that stops because its time is over does not evaluate") {
    LoopState now = after(100);
    now.stop_signal = true;
    CHECK(decide(rules(), now) == Done{true, true, false});
    now.stop_signal = false;
    LoopRules r = rules();
    r.exit_interval = 100;
    CHECK(decide(r, now) == Done{true, true, true});
}

TEST_CASE("of several reasons to stop, the most final one counts") {
    LoopRules r = rules();
    r.exit_interval = r.exit_iteration = 10;
    LoopState now = after(10);
    now.stop_signal = now.kill_switch = now.finished = true;
    CHECK(should_stop(r, now) == Stop::kill_switch);
    now.kill_switch = false;
    CHECK(should_stop(r, now) == Stop::finished);
    now.finished = false;
    CHECK(should_stop(r, now) == Stop::exit_iteration);
    r.exit_iteration.reset();
    CHECK(should_stop(r, now) == Stop::signal);
}

TEST_CASE("the save switch saves without stopping") {
    LoopState now = after(7);
    now.save_switch = true;
    CHECK(should_save(rules(), now));
    CHECK(should_stop(rules(), now) == Stop::no);
}

TEST_CASE("skip ranges are ranges of iterations") {
    LoopRules r;
    r.skip = config::parse_skip_ranges({"4-7", "2-2", "8-9", "20-30", "25-27"});
    REQUIRE(r.skip.size() == 3);
    for (i64 k = 1; k <= 40; ++k) {
        const bool inside = k == 2 || (k >= 4 && k <= 9) || (k >= 20 && k <= 30);
        CHECK((skipped_range(r, k) != nullptr) == inside);
    }
    CHECK(skipped_range(r, 5)->last == 9);
}
