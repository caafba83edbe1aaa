// SPDX-License-Identifier: Apache-2.0
// The verdicts on steps, with results that the test makes up, and with a planted fault.
#include "train/loop/step_guard.hpp"

#include <limits>
#include <set>
#include <sstream>

#include "comm/self/group.hpp"
#include "cpu/cpu_device.hpp"
#include "support/catch.hpp"
#include "train/config/run_data.hpp"

using namespace lm;
using train::StepGuard;
using Verdict = StepGuard::Verdict;

namespace {

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

train::RunConfig config_of(const std::string& more) {
    cli::Options options("lm-test", "a test");
    config::TrainFlags flags;
    config::add_train_options(options, flags);
    std::istringstream words(
        "--num-layers 2 --hidden-size 16 --num-attention-heads 2 --seq-length 16 --vocab-size 64 "
        "--mock-data --micro-batch-size 1 --global-batch-size 2 --train-iters 9 --lr 1e-3 "
        "--device cpu --threads 1 --eval-iters 0 --save unused " +
        more);
    std::vector<std::string> arguments;
    for (std::string word; words >> word;) arguments.push_back(word);
    options.parse(arguments);
    return train::resolve(flags, "lm-train");
}

// A run of one rank whose guard judges the results that the test gives.
struct Run {
    train::RunConfig config;
    data::DataSets data;
    std::unique_ptr<comm::Group> world = comm::self("world");
    std::unique_ptr<device::Device> device = cpu::make_device(1);
    std::unique_ptr<train::Trainer> trainer;
    train::TrainingLog log;
    StepGuard guard;
    i64 iteration = 0;
    train::StepResult made;  // the result of the last make_step()

    explicit Run(const std::string& more)
        : config(config_of(more)),
          data(train::open_data(config)),
          trainer(train::Trainer::allocate(config.trainer, *device)),
          log(config),
          guard(config, data, *world, *trainer, log) {
        trainer->initialize();
    }

    Verdict judge(train::StepResult result) {
        guard.begin(++iteration);
        return guard.judge(step(), result);
    }
    // Makes the next step up to its verdict, with `fault` in it.
    Verdict make_step(const std::optional<train::StepFault>& fault = {}) {
        trainer->probe().plant(fault);
        guard.begin(++iteration);
        data::Loader loader(*data.train, config.batch_options(), step().first_sample, 1, 0);
        train::LoaderBatches batches(loader);
        made = trainer->compute_gradients(batches, 2);
        return guard.judge(step(), made);
    }
    StepGuard::Step step() const { return {iteration, 2 * (iteration - 1), {2, 16}}; }
};

train::StepResult good(double loss = 4, double norm = 1) {
    return {.loss = loss, .gradient_norm = norm, .finite = true};
}

// 40 steps with losses and norms that differ by less than 1 %.
void settle(Run& run) {
    for (int i = 0; i < 40; ++i) {
        REQUIRE(run.judge(good(4 + 0.01 * (i % 3), 1 + 0.01 * (i % 4))) == Verdict::update);
    }
}

}  // namespace

TEST_CASE("a finite step within the recent range is an update") {
    Run run("");
    settle(run);
    CHECK(run.guard.memory().overflows_in_a_row == 0);
}

TEST_CASE("a loss or norm that is not finite gets the reaction of --on-nan") {
    const auto& [flag, verdict] = GENERATE(table<std::string, Verdict>({
        {"continue", Verdict::drop},
        {"skip", Verdict::skip},
        {"rollback", Verdict::roll_back},
    }));
    Run run("--on-nan " + flag);
    CHECK(run.judge({.loss = not_a_number, .gradient_norm = 1}) == verdict);
    CHECK(run.judge({.loss = 4, .gradient_norm = infinity}) == verdict);
    CHECK(run.judge(good()) == Verdict::update);
}

TEST_CASE("--on-nan stop ends the run, and a fault that is not repeated is transient") {
    Run run("--on-nan stop");
    CHECK_THROWS_MATCHES(run.judge({.loss = not_a_number, .gradient_norm = not_a_number}),
                         JointError, Predicate<JointError>([](const JointError& error) {
                             return error.code() == Exit::self_stopped &&
                                    std::string(error.what()).find("transient") !=
                                        std::string::npos;
                         }));
}

TEST_CASE("a planted value is found with its layer and samples") {
    Run run("--on-nan skip");
    CHECK(run.make_step(train::StepFault{.kind = train::StepFault::Kind::activation,
                                         .value = not_a_number,
                                         .iteration = 1,
                                         .layer = 1}) == Verdict::skip);
    CHECK_FALSE(run.made.finite);
    CHECK_THAT(run.guard.reason(), ContainsSubstring("attention of layer 1 on rank 0"));
    CHECK_THAT(run.guard.reason(), ContainsSubstring("micro-batch 0 of samples 0"));
}

TEST_CASE("--error-injection-rate plants faults in random iterations of the last stage") {
    config::StoppingFlags flags{.injection_rate = 10};
    const spec::ParallelConfig parallel{.tp = 2, .pp = 2, .dp = 3};
    const auto planted = [&](i64 iteration, i64 rank) {
        return train::injected_fault(flags, 1234, iteration, parallel, rank);
    };
    const auto ranks_at = [&](i64 iteration) {
        std::vector<i64> ranks;
        for (i64 rank = 0; rank < 12; ++rank) {
            if (planted(iteration, rank)) ranks.push_back(rank);
        }
        return ranks;
    };
    std::set<i64> seen;
    for (i64 iteration = 1; iteration <= 1000; ++iteration) {
        const std::vector<i64> ranks = ranks_at(iteration);
        REQUIRE(ranks.size() <= 1);
        if (ranks.empty()) continue;
        CHECK(planted(iteration, ranks[0])->once);
        seen.insert(ranks[0]);
    }
    CHECK(seen == std::set<i64>{6, 8, 10});  // tensor rank 0 of each replica, in the last stage
    const auto count = [&] {
        i64 n = 0;
        for (i64 iteration = 1; iteration <= 1000; ++iteration) n += !ranks_at(iteration).empty();
        return n;
    };
    CHECK(count() == Approx(100).margin(30));
    flags.injection_type = "correct_result";
    for (i64 iteration = 1; iteration <= 100; ++iteration) {
        const size_t n = ranks_at(iteration).size();
        CHECK((n == 0 || n == 6));
    }
    flags.injection_rate = 0;
    CHECK(count() == 0);
}

TEST_CASE("an overflow that the loss scale handles keeps the weights") {
    Run run("--fp16 --on-nan stop --loss-scale 1e12");
    const double scale = run.trainer->loss_scaler().scale();
    for (int i = 1; i < train::max_overflows_in_a_row; ++i) {
        REQUIRE(run.make_step() == Verdict::drop);
        REQUIRE(run.made.overflow);
        REQUIRE(run.trainer->loss_scaler().scale() == scale);
    }
    SECTION("and a finite step ends the series") {
        CHECK(run.judge(good()) == Verdict::update);
        CHECK(run.guard.memory().overflows_in_a_row == 0);
        CHECK(run.make_step() == Verdict::drop);
    }
    SECTION("but a long series ends the run") {
        CHECK_THROWS_AS(run.make_step(), JointError);
    }
}

TEST_CASE("a dynamic loss scale has the values of Megatron's rule after repetitions") {
    Run run("--fp16 --on-nan stop --initial-loss-scale 1099511627776");
    optim::LossScaler expected = run.trainer->loss_scaler();
    for (int i = 0; i < 30; ++i) {
        expected.update(run.make_step() == Verdict::drop);
        REQUIRE(run.trainer->loss_scaler().state() == expected.state());
    }
    CHECK(run.made.finite);
    CHECK(expected.scale() < 1e12);
}

// 0 * Inf is NaN, so an overflow in a backward pass may look like a fault, and a fault like an
// overflow.
TEST_CASE("a fp16 gradient that no loss scale makes finite does not count as an overflow") {
    const std::string scale =
        GENERATE(std::string("--initial-loss-scale 1024"), std::string("--loss-scale 1024"));
    const double value = GENERATE(not_a_number, infinity);
    Run run("--fp16 --on-nan skip " + scale);
    train::StepFault fault{
        .kind = train::StepFault::Kind::gradient, .value = value, .iteration = 2, .layer = 1};
    REQUIRE(run.make_step() == Verdict::update);
    const optim::LossScaleState before = run.trainer->loss_scaler().state();
    SECTION("persistent") {
        CHECK(run.make_step(fault) == Verdict::skip);
        CHECK_THAT(run.guard.reason(), ContainsSubstring("gradient of layers.1."));
        CHECK_THAT(run.guard.reason(), ContainsSubstring("micro-batch 1 of samples 3"));
        CHECK_THAT(run.guard.reason(), ContainsSubstring("loss scale of 1:"));
    }
    SECTION("transient") {
        fault.once = true;
        CHECK(run.make_step(fault) == Verdict::skip);
        CHECK_THAT(run.guard.reason(), ContainsSubstring("transient"));
        CHECK_THAT(run.guard.reason(),
                   ContainsSubstring(std::isnan(value) ? " nan, head" : " inf, head"));
    }
    CHECK_FALSE(run.made.overflow);
    CHECK(run.trainer->loss_scaler().state() == before);
    CHECK(run.guard.memory().overflows_in_a_row == 0);
    CHECK(run.make_step() == Verdict::update);
}

TEST_CASE("a spike gets the reaction of --on-spike") {
    const auto& [flag, verdict] = GENERATE(table<std::string, Verdict>({
        {"continue", Verdict::update},
        {"skip", Verdict::skip},
        {"stop", Verdict::stop},
        {"rollback", Verdict::roll_back},
    }));
    Run run("--on-spike " + flag);
    settle(run);
    CHECK(run.judge(good(9, 1)) == verdict);
    CHECK_THAT(run.guard.reason(), ContainsSubstring("spike: loss 9"));
    CHECK(run.judge(good(4, 80)) == verdict);
    CHECK(run.judge(good()) == Verdict::update);
}

TEST_CASE("--rerun-suspect replaces the result by that of the repetition") {
    Run run("--on-spike continue --rerun-suspect");
    settle(run);
    run.guard.begin(++run.iteration);
    train::StepResult result = good(9, 1);
    CHECK(run.guard.judge(run.step(), result) == Verdict::update);
    CHECK_THAT(run.guard.reason(), HasInOrder("transient: ", "loss 4."));
    CHECK(result.loss == Approx(4.16).margin(0.3));  // ln 64
}

TEST_CASE("steps in a row that are not finite end the run with every policy") {
    const std::string flag = GENERATE("skip", "continue", "rollback");
    Run run("--on-nan " + flag);
    const train::StepResult bad{.loss = not_a_number, .gradient_norm = 1};
    for (int i = 1; i < train::max_non_finite_in_a_row; ++i) run.judge(bad);
    SECTION("unless a finite step is between them") {
        CHECK(run.judge(good()) == Verdict::update);
        CHECK_NOTHROW(run.judge(bad));
    }
    SECTION("and the error names the policy") {
        CHECK_THROWS_MATCHES(
            run.judge(bad), JointError, Predicate<JointError>([&](const JointError& error) {
                return error.code() == Exit::self_stopped &&
                       std::string(error.what()).find(" 50 ") != std::string::npos &&
                       std::string(error.what()).find("--on-nan " + flag) != std::string::npos;
            }));
    }
}

TEST_CASE("a refused step that is skipped leaves the memory of its verdict") {
    const bool spike = GENERATE(true, false);
    Run run("--on-spike skip --on-nan skip"), resumed("--on-spike skip --on-nan skip");
    settle(run);
    settle(resumed);
    for (int i = 0; i < 3; ++i) {
        CHECK(run.judge(spike ? good(9, 1) : train::StepResult{.loss = not_a_number}) ==
              Verdict::skip);
    }
    resumed.guard.skip_refused(run.guard.refused(1, 3, false));
    CHECK(to_json(run.guard.memory()) == to_json(resumed.guard.memory()));
}

TEST_CASE("results of a repeated step are compared with a tolerance when bits do not repeat") {
    using train::same_result;
    CHECK(same_result(not_a_number, -not_a_number, true));
    CHECK(same_result(infinity, infinity, false));
    CHECK_FALSE(same_result(4, infinity, false));
    CHECK_FALSE(same_result(4, not_a_number, false));
    CHECK_FALSE(same_result(4, 4.0000001, true));
    CHECK(same_result(4, 4.0000001, false));
    CHECK_FALSE(same_result(4, 4.1, false));
}

TEST_CASE("the replica that computes wrong results") {
    using enum train::ReplicaPair;
    using train::wrong_replica;
    CHECK_FALSE(wrong_replica({equal, equal, equal}));
    // Replica 1 has a NaN for its own samples, or for those of replica 0.
    CHECK(wrong_replica({second_not_finite, equal}) == 1);
    CHECK(wrong_replica({second_not_finite, first_not_finite}) == 1);
    CHECK(wrong_replica({equal, first_not_finite, different}) == 1);
    // Both replicas have a NaN where the other has none.
    CHECK_FALSE(wrong_replica({second_not_finite, second_not_finite}));
    // With two replicas and finite results, either may be wrong; with three, the one in both pairs.
    CHECK_FALSE(wrong_replica({different, different}));
    CHECK(wrong_replica({different, equal, different}) == 0);
    CHECK(wrong_replica({different, different, equal, equal}) == 1);
    CHECK_FALSE(wrong_replica({different, equal, equal}));
    CHECK_FALSE(wrong_replica({different, different, different}));
}
