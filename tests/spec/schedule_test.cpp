// SPDX-License-Identifier: Apache-2.0
// Schedules of published training runs: iterations, consumed samples and learning rates as in their
// logs.
#include "spec/schedule.hpp"

#include <fmt/format.h>

#include "base/error.hpp"
#include "support/catch.hpp"

using lm::i64;
using lm::spec::BatchRamp;
using lm::spec::Counters;
using lm::spec::DecayStyle;
using lm::spec::PastBatches;
using lm::spec::Schedule;
using lm::spec::ScheduleRequest;

namespace {

ScheduleRequest request(i64 batch, i64 samples) {
    ScheduleRequest r;
    r.seq_length = 2048;
    r.ramp.global_batch = batch;
    r.train_samples = samples;
    r.lr = 6e-5;
    r.min_lr = 6e-6;
    r.decay_style = DecayStyle::cosine;
    return r;
}

ScheduleRequest ramped(i64 start, i64 increment, i64 ramp, i64 batch, i64 samples) {
    auto r = request(batch, samples);
    r.ramp = {start, increment, ramp, batch};
    return r;
}

ScheduleRequest bloom176() {
    auto r = ramped(192, 16, 9'765'625, 2048, 220'000'000);
    r.warmup_samples = 183'105;
    r.decay_samples = 200'000'000;
    return r;
}

ScheduleRequest tr1_13b() {
    auto r = ramped(16, 16, 5'000'000, 1024, 300'000'000);
    r.lr = 1e-4;
    r.min_lr = 1e-5;
    r.warmup_samples = 216'320;
    r.decay_samples = 126'953'125;
    return r;
}

std::string logged(double rate) {
    return fmt::format("{:.3E}", rate);
}

}  // namespace

// The rates of Megatron-DeepSpeed's AnnealingLR for num_tokens = tokens.
TEST_CASE("a warm-up in tokens") {
    auto r = request(4, 1000);
    r.lr = 1e-3;
    r.min_lr = 1e-4;
    r.decay_style = DecayStyle::linear;
    r.seq_length = 16;
    r.warmup_tokens = 640;
    r.decay_tokens = 6400;
    const Schedule schedule(r);
    CHECK(schedule.rate(0, 0) == 0);
    CHECK(schedule.rate(20, 320) == 5e-4);
    CHECK(schedule.rate(20, 160) == 2.5e-4);  // a curriculum halves the tokens of a sample
    CHECK(schedule.rate(40, 640) == 1e-3);
    CHECK(logged(schedule.rate(220, 3520)) == "5.500E-04");
    CHECK(schedule.rate(500, 8000) == 1e-4);
    r.warmup_tokens = 6400;
    CHECK_THROWS_WITH(Schedule(r), HasInOrder("--lr-decay-tokens: ", " 6400 tokens", " 6400"));
    r.warmup_iters = 10;
    CHECK_THROWS_WITH(Schedule(r), HasInOrder("--lr-warmup-tokens: ", "--lr-warmup-iters"));
    r.warmup_iters = std::nullopt;
    r.warmup_tokens = 640;
    r.decay_tokens = std::nullopt;
    r.decay_style = DecayStyle::constant;
    CHECK(Schedule(r).rate(20, 320) == 5e-4);
    CHECK(Schedule(r).rate(100, 1600) == 1e-3);
}

TEST_CASE("iterations and the end of the ramp of published trainings") {
    struct Case {
        i64 start, increment, ramp, batch, samples, iterations, ramp_iterations, ramp_consumed;
    };
    const std::vector<Case> cases = {
        {16, 16, 5'000'000, 1024, 300'000'000, 311541, 23456, 5'000'528},
        {16, 16, 5'000'000, 1024, 150'000'000, 165057, 23456, 5'000'528},
        {16, 16, 6'000'000, 2048, 300'000'000, 159576, 16022, 6'000'864},
        {32, 32, 6'000'000, 2048, 300'000'000, 157628, 14074, 6'000'032},
        {192, 16, 9'765'625, 2048, 220'000'000, 115311, 12658, 9'765'808},
        {16, 16, 9'765'625, 2048, 220'000'000, 128728, 26076, 9'766'880},
    };
    for (const Case& c : cases) {
        const Schedule schedule(ramped(c.start, c.increment, c.ramp, c.batch, c.samples));
        CHECK(schedule.total_iterations() == c.iterations);
        CHECK(schedule.after(c.ramp_iterations).samples == c.ramp_consumed);
        CHECK(schedule.ramp().stages().back().first_iteration == c.ramp_iterations + 1);
        CHECK(schedule.ramp().stages().back().consumed_before == c.ramp_consumed);
    }
}

TEST_CASE("stages of the ramps") {
    const auto has = [](const Schedule& schedule, i64 iteration, i64 consumed, i64 batch) {
        for (const auto& stage : schedule.ramp().stages()) {
            if (stage.batch != batch) continue;
            CHECK(stage.first_iteration == iteration);
            CHECK(stage.consumed_before == consumed);
            return;
        }
        FAIL("no stage of batch " << batch);
    };
    const Schedule tr1(tr1_13b());
    has(tr1, 1, 0, 16);
    has(tr1, 4962, 79376, 32);
    has(tr1, 7442, 158736, 48);
    has(tr1, 9096, 238128, 64);
    has(tr1, 10336, 317488, 80);
    has(tr1, 11328, 396848, 96);
    has(tr1, 23298, 4841536, 992);
    has(tr1, 23378, 4920896, 1008);
    has(tr1, 23457, 5000528, 1024);
    const Schedule slow(ramped(16, 16, 9'765'625, 2048, 220'000'000));
    has(slow, 17949, slow.after(17948).samples, 384);
    has(slow, 18149, slow.after(18148).samples, 400);
    const Schedule tr8(ramped(16, 16, 6'000'000, 2048, 300'000'000));
    has(tr8, 2954, 47248, 32);
    has(tr8, 4431, 94512, 48);
    has(tr8, 5415, 141744, 64);
    has(tr8, 6154, 189040, 80);
    has(tr8, 6744, 236240, 96);
    const Schedule tr11(bloom176());
    has(tr11, 440, 84288, 208);
    has(tr11, 845, 168528, 224);
    has(tr11, 1221, 252752, 240);
    has(tr11, 1571, 336752, 256);
    has(tr11, 12659, 9765808, 2048);
}

TEST_CASE("consumed samples as the logs printed them") {
    const Schedule tr1(tr1_13b());
    CHECK(tr1.after(168000).samples == 153'013'584);
    CHECK(tr1.after(8641).samples >= 216'320);  // the warm-up, planned for 2000 iterations
    CHECK(tr1.after(8640).samples < 216'320);
    CHECK(tr1.after(2000).samples == 32'000);

    const Schedule tr8(ramped(16, 16, 6'000'000, 2048, 300'000'000));
    for (const auto& [iteration, samples] : std::vector<std::pair<i64, i64>>{{3792, 74'096},
                                                                             {3848, 75'888},
                                                                             {6900, 251'312},
                                                                             {7000, 260'912},
                                                                             {7010, 261'872},
                                                                             {12000, 1'519'744},
                                                                             {13251, 2'333'840},
                                                                             {14000, 3'014'320},
                                                                             {16800, 7'594'208}}) {
        CHECK(tr8.after(iteration).samples == samples);
    }
    const Schedule tr11(bloom176());
    for (const auto& [iteration, samples] :
         std::vector<std::pair<i64, i64>>{{12695, 9'841'584},
                                          {31214, 47'768'496},
                                          {31250, 47'842'224},
                                          {42780, 71'455'664},
                                          {45000, 76'002'224},
                                          {85376, 158'692'272},
                                          {94768, 177'927'088}}) {
        CHECK(tr11.after(iteration).samples == samples);
    }
    CHECK(tr11.after(12695).tokens == 20'155'564'032);
    const Schedule slow(ramped(16, 16, 9'765'625, 2048, 220'000'000));
    CHECK(slow.after(3707) == Counters{3707, 59'312, 121'470'976});
}

TEST_CASE("learning rates of the 176B run") {
    const Schedule schedule(bloom176());
    const auto rate = [&](i64 samples) { return schedule.rate(samples, 0); };
    CHECK(rate(0) == 0.0);
    CHECK(rate(192) == Approx(6.291472e-08).epsilon(1e-6));
    CHECK(rate(183'105) == 6e-5);
    CHECK(rate(10'000'000) == Approx(5.967904e-05).epsilon(1e-7));
    CHECK(rate(100'091'552) == Approx(3.3e-05).epsilon(1e-7));
    CHECK(rate(200'000'000) == Approx(6e-6).epsilon(1e-12));
    CHECK(rate(200'000'001) == 6e-6);
    for (const auto& [samples, text] :
         std::vector<std::pair<i64, const char*>>{{9'841'584, "5.969E-05"},
                                                  {47'768'496, "5.279E-05"},
                                                  {47'784'880, "5.278E-05"},
                                                  {71'455'664, "4.475E-05"},
                                                  {76'002'224, "4.298E-05"},
                                                  {158'692'272, "1.150E-05"},
                                                  {177'925'040, "7.610E-06"}}) {
        CHECK(logged(rate(samples)) == text);
    }
}

TEST_CASE("learning rates of the 13B run and of the AWS log") {
    const Schedule tr1(tr1_13b());
    CHECK(tr1.rate(16, 0) == Approx(7.396450e-09).epsilon(1e-6));
    CHECK(tr1.rate(108'160, 0) == 5e-5);
    CHECK(tr1.rate(216'320, 0) == 1e-4);
    CHECK(tr1.rate(63'584'722, 0) == Approx(5.5e-5).epsilon(1e-7));
    CHECK(tr1.rate(126'953'125, 0) == Approx(1e-5).epsilon(1e-12));
    CHECK(logged(tr1.rate(153'013'584, 0)) == "1.000E-05");

    auto aws = request(288, 146'484'375);
    aws.warmup_samples = 183'105;
    aws.decay_samples = 126'953'125;
    const Schedule schedule(aws);
    CHECK(schedule.total_iterations() == 508'626);
    CHECK(logged(schedule.rate(50, 0)) == "1.638E-08");
    CHECK(logged(schedule.rate(52, 0)) == "1.704E-08");
    CHECK(logged(schedule.rate(54, 0)) == "1.769E-08");
    CHECK(Schedule(request(2, 146'484'375)).total_iterations() == 73'242'187);
}

TEST_CASE("learning rates of the 104B runs") {
    auto request = ramped(16, 16, 6'000'000, 2048, 300'000'000);
    request.warmup_samples = 216'320;
    request.decay_samples = 126'953'125;
    const Schedule tr8(request);
    // Iteration 3848: 2.105E-05 by consumed samples. The log has 2.102E-05, because seven batches
    // of 16 had been skipped for loss scale overflows and did not advance the learning rate.
    CHECK(logged(tr8.rate(75'888, 0)) == "2.105E-05");
    CHECK(logged(tr8.rate(75'888 - 7 * 16, 0)) == "2.102E-05");
    // Iterations 12000 and 12001; the decay was changed between them.
    CHECK(logged(tr8.rate(1'519'744, 0)) == "5.999E-05");
    request.decay_samples = 12'695'312;
    request.min_lr = 6e-7;
    CHECK(logged(Schedule(request).rate(1'519'744, 0)) == "5.842E-05");
    // 100 iterations with the full batch, in which the moments were warmed up again.
    CHECK(tr8.after(16'900).samples == 7'799'008);
}

TEST_CASE("iterations are converted to whole batches") {
    ScheduleRequest r = request(288, 0);
    r.train_samples.reset();
    r.train_iters = 50;
    r.decay_iters = 45;
    r.warmup_iters = 2;
    const Schedule schedule(r);
    CHECK(schedule.end() == Counters{50, 14'400, 14'400 * 2048});
    CHECK(schedule.learning_rate().warmup_samples == 576);
    CHECK(schedule.learning_rate().decay_samples == 45 * 288);
    CHECK(schedule.rate(576, 0) == 6e-5);
    CHECK(schedule.finished({50, 14'400, 0}));
    CHECK_FALSE(schedule.finished({49, 14'112, 0}));
}

TEST_CASE("a partial last batch is not run; the token limit is reached or exceeded") {
    const Schedule samples(request(100, 1050));
    CHECK(samples.end() == Counters{10, 1000, 1000 * 2048});
    CHECK(samples.learning_rate().decay_samples == 1050);

    ScheduleRequest r = request(100, 0);
    r.train_samples.reset();
    r.train_tokens = 1'000'000;
    const Schedule tokens(r);
    CHECK(tokens.end() == Counters{5, 500, 500 * 2048});
    CHECK(tokens.finished(tokens.end()));
    r.train_tokens = 500 * 2048 + 1;
    CHECK(Schedule(r).total_iterations() == 6);
    r.ramp.global_batch = 2048;
    r.train_tokens = 300'000'000'000;
    CHECK(Schedule(r).total_iterations() == 71'526);  // 71525.57 batches of 2048 x 2048
}

TEST_CASE("iterations with a ramp are converted by their batch sizes") {
    auto r = ramped(10, 10, 100, 40, 0);
    r.train_samples.reset();
    r.train_iters = 20;
    r.warmup_iters = 5;
    const Schedule schedule(r);
    Counters done;
    i64 warmup = 0;
    while (!schedule.finished(done)) {
        if (done.iteration == 5) warmup = done.samples;
        done = schedule.next(done);
    }
    CHECK(done == schedule.end());
    CHECK(schedule.learning_rate().warmup_samples == static_cast<double>(warmup));
    CHECK(schedule.learning_rate().decay_samples == static_cast<double>(done.samples));
}

namespace {

// A WSD schedule whose windows are numbers of iterations: a warm-up of 4, then an annealing of
// `anneal` iterations that ends with iteration `end`.
struct Windows {
    const char* name;
    ScheduleRequest request;
    i64 end = 0;
    std::vector<PastBatches> past = {};
};

ScheduleRequest in_iterations(BatchRamp ramp, i64 train_iters, i64 anneal) {
    ScheduleRequest r = request(ramp.global_batch, 0);
    r.ramp = std::move(ramp);
    r.train_samples.reset();
    r.train_iters = train_iters;
    r.lr = 1e-3;
    r.min_lr = 1e-4;
    r.decay_style = DecayStyle::wsd;
    r.anneal_style = lm::spec::AnnealStyle::linear;
    r.anneal_iters = anneal;
    r.warmup_iters = 4;
    return r;
}

std::vector<Windows> windows() {
    const BatchRamp constant{.global_batch = 16};
    const BatchRamp ramp{4, 4, 240, 16};
    const BatchRamp steps{8, 0, 199, 32, {{0, 8}, {120, 20}, {200, 32}}};
    std::vector<Windows> all{{"constant", in_iterations(constant, 60, 10), 60},
                             {"ramp", in_iterations(ramp, 60, 10), 60},
                             {"an annealing within the ramp", in_iterations(ramp, 30, 15), 30},
                             {"an annealing of all iterations", in_iterations(ramp, 40, 40), 40},
                             {"steps", in_iterations(steps, 50, 12), 50},
                             {"decay before the end", in_iterations(ramp, 60, 10), 45},
                             {"decay after the end", in_iterations(ramp, 40, 10), 45},
                             {"samples", in_iterations(ramp, 0, 10), 60},
                             {"tokens", in_iterations(ramp, 0, 10), 60}};
    all[5].request.decay_iters = all[6].request.decay_iters = 45;
    for (const size_t k : {size_t{7}, size_t{8}}) all[k].request.train_iters.reset();
    all[7].request.train_samples = 612 + 15;  // 60 iterations, and no whole batch more
    all[8].request.train_tokens = 612 * 2048 - 5;
    // Resumed with another batch, twice. The warm-up ended long before.
    const std::vector<PastBatches> once{{ramp, {20, 80, 80 * 2048}}};
    const std::vector<PastBatches> twice{{ramp, {20, 80, 80 * 2048}},
                                         {constant, {30, 240, 240 * 2048}}};
    all.push_back({"resumed", in_iterations(constant, 60, 10), 60, once});
    all.push_back(
        {"resumed within the annealing", in_iterations({.global_batch = 8}, 40, 15), 40, twice});
    all.push_back({"resumed after an import",
                   in_iterations(constant, 60, 10),
                   60,
                   {{constant, {20, 77, 77 * 2048}}}});
    return all;
}

// Returns the samples that are consumed after each of `n` iterations, from 0 on.
std::vector<i64> consumed_by(const Windows& w, i64 n) {
    std::vector<i64> samples{0};
    for (i64 k = 0; k < n; ++k) {
        const BatchRamp* ramp = &w.request.ramp;
        for (auto part = w.past.rbegin(); part != w.past.rend(); ++part) {
            if (k < part->until.iteration) ramp = &part->ramp;
            if (k == part->until.iteration) samples.back() = part->until.samples;
        }
        samples.push_back(samples.back() + ramp->batch_at(samples.back()));
    }
    return samples;
}

}  // namespace

TEST_CASE("windows of iterations begin and end with their iterations") {
    for (const Windows& w : windows()) {
        INFO(w.name);
        const Schedule schedule(w.request, w.past);
        const std::vector<i64> consumed = consumed_by(w, w.end);
        const auto rate = [&](i64 k) { return schedule.rate(consumed[static_cast<size_t>(k)], 0); };
        const i64 begin = w.end - *w.request.anneal_iters;
        CHECK(schedule.learning_rate().warmup_samples == static_cast<double>(consumed[4]));
        if (begin > 4) {
            CHECK(rate(3) < 1e-3);
            CHECK(rate(4) == 1e-3);
            CHECK(rate(begin) == 1e-3);
            CHECK(rate(begin + 1) < 1e-3);
        }
        for (i64 k = std::max<i64>(begin, 4) + 1; k < w.end; ++k) {
            CHECK(rate(k) > rate(k + 1));
            // With --train-samples, the decay ends within a batch that is not run.
            const auto left =
                static_cast<double>(w.request.train_samples.value_or(consumed.back()) -
                                    consumed[static_cast<size_t>(k)]);
            const auto window =
                static_cast<double>(consumed.back() - consumed[static_cast<size_t>(begin)]);
            CHECK(rate(k) == Approx(1e-4 + 9e-4 * left / window).epsilon(1e-12));
        }
        if (!w.request.train_samples) CHECK(rate(w.end) == Approx(1e-4).epsilon(1e-12));
        if (w.request.train_iters)
            CHECK(schedule.end().samples == consumed_by(w, *w.request.train_iters).back());
    }
}

TEST_CASE("rates of WSD in iterations with a ramp") {
    const Schedule schedule(windows()[1].request);
    std::vector<std::string> rates;
    for (const i64 k : {9, 10, 50, 51, 52, 53, 57, 58, 59, 60})
        rates.push_back(logged(schedule.rate(schedule.after(k).samples, 0)));
    CHECK(rates == std::vector<std::string>{"1.000E-03", "1.000E-03", "1.000E-03", "9.100E-04",
                                            "8.200E-04", "7.300E-04", "3.700E-04", "2.800E-04",
                                            "1.900E-04", "1.000E-04"});
}

TEST_CASE("an annealing of more iterations than the decay is refused") {
    ScheduleRequest r = in_iterations({4, 4, 240, 16}, 60, 61);
    CHECK_THROWS_WITH(Schedule(r), HasInOrder("--lr-wsd-decay-iters: ", "61", "60"));
    r.anneal_iters = 0;
    CHECK_THROWS_WITH(Schedule(r), HasInOrder("--lr-wsd-decay-iters: ", "0", "60"));
    r.anneal_iters = 20;
    r.decay_iters = 19;
    CHECK_THROWS_WITH(Schedule(r), HasInOrder("--lr-wsd-decay-iters: ", "20", "19"));
}

TEST_CASE("next() reaches the same counters as after()") {
    const Schedule schedule(bloom176());
    Counters done;
    while (!schedule.finished(done)) {
        done = schedule.next(done);
        if (done.iteration % 10'007 == 0) CHECK(done == schedule.after(done.iteration));
    }
    CHECK(done == schedule.end());
}

TEST_CASE("the other decay styles") {
    auto r = request(10, 1000);
    r.lr = 1.0;
    r.min_lr = 0.1;
    r.warmup_samples = 100;
    r.decay_style = DecayStyle::constant;
    CHECK(Schedule(r).rate(50, 0) == 0.5);
    CHECK(Schedule(r).rate(5000, 0) == 1.0);
    r.decay_style = DecayStyle::linear;
    CHECK(Schedule(r).rate(550, 0) == Approx(0.55));
    CHECK(Schedule(r).rate(1000, 0) == Approx(0.1));
    CHECK(Schedule(r).rate(1001, 0) == 0.1);
    r.decay_style = DecayStyle::inverse_square_root;
    CHECK(Schedule(r).rate(400, 0) == Approx(0.5));
    CHECK(Schedule(r).rate(100, 0) == 1.0);
    r.decay_style = DecayStyle::wsd;
    CHECK_THROWS_WITH(Schedule(r), ContainsSubstring("--lr-wsd-decay-samples"));
    r.anneal_samples = 200;
    CHECK(Schedule(r).rate(800, 0) == 1.0);
    CHECK(Schedule(r).rate(900, 0) == Approx(0.1 + 0.9 * (2.0 * std::sqrt(0.5) - 1.0)));
    r.anneal_style = lm::spec::AnnealStyle::minus_sqrt;
    CHECK(Schedule(r).rate(850, 0) == Approx(0.55));
    r.anneal_style = lm::spec::AnnealStyle::linear;
    CHECK(Schedule(r).rate(850, 0) == Approx(0.1 + 0.9 * 0.75));
    r.anneal_style = lm::spec::AnnealStyle::cosine;
    CHECK(Schedule(r).rate(900, 0) == Approx(0.55));
    r.warmup_init = 0.5;
    CHECK(Schedule(r).rate(0, 0) == 0.5);
    r.warmup_samples.reset();
    CHECK(Schedule(r).rate(0, 0) == 1.0);
    r.warmup_fraction = 0.25;
    CHECK(Schedule(r).learning_rate().warmup_samples == 250);
}

TEST_CASE("an error names the flag that is invalid or excluded by another") {
    auto r = request(10, 1000);
    r.train_iters = 5;
    CHECK_THROWS_WITH(Schedule(r), HasInOrder("--train-iters: ", "--train-samples"));
    r = request(10, 1000);
    r.warmup_samples = 1;
    r.warmup_fraction = 0.1;
    CHECK_THROWS_WITH(Schedule(r), ContainsSubstring("--lr-warmup-fraction"));
    r = request(10, 1000);
    r.warmup_samples = 1000;
    CHECK_THROWS_WITH(Schedule(r), ContainsSubstring("decays until"));
    r = request(10, 1000);
    r.lr.reset();
    CHECK_THROWS_WITH(Schedule(r), ContainsSubstring("--lr:"));
    r = request(10, 9);
    CHECK_THROWS_WITH(Schedule(r), ContainsSubstring("first batch"));
    r = request(10, 0);
    CHECK_THROWS_WITH(Schedule(r), ContainsSubstring("--train-samples"));
    r = request(10, 1000);
    r.min_lr = 1;
    CHECK_THROWS_WITH(Schedule(r), HasInOrder("--lr: ", "--min-lr"));
    // A constant rate accepts --lr-decay-tokens, too.
    lm::spec::LearningRate by_tokens;
    by_tokens.max = 1;
    by_tokens.decay_tokens = 10;
    by_tokens.style = lm::spec::DecayStyle::constant;
    CHECK_NOTHROW(by_tokens.check());
    by_tokens.style = lm::spec::DecayStyle::wsd;
    CHECK_THROWS_WITH(
        by_tokens.check(),
        HasInOrder("--lr-decay-tokens: ", "--lr-decay-style linear, cosine or constant", "WSD"));
}

TEST_CASE("decoupled rates and a growing weight decay") {
    ScheduleRequest r = request(100, 10'000);
    r.warmup_samples = 1000;
    CHECK(!Schedule(r).rates(500, 0).decoupled_lr);
    CHECK(!Schedule(r).rates(500, 0).weight_decay);

    r.decoupled_lr = 2e-4;
    const Schedule half(r);
    CHECK(half.rates(500, 0).lr == Approx(3e-5));
    CHECK(*half.rates(500, 0).decoupled_lr == Approx(1e-4));
    CHECK(*half.rates(10'000, 0).decoupled_lr == Approx(6e-6));  // --min-lr
    r.decoupled_min_lr = 5e-5;
    CHECK(*Schedule(r).rates(10'000, 0).decoupled_lr == Approx(5e-5));
    r.decoupled_min_lr = 3e-4;
    CHECK_THROWS_AS(Schedule(r), lm::Error);
    r.decoupled_lr.reset();
    CHECK_THROWS_AS(Schedule(r), lm::Error);
    r.decoupled_min_lr.reset();

    using lm::spec::WeightDecayStyle;
    r.start_weight_decay = 0.01;
    r.end_weight_decay = 0.1;
    CHECK_THROWS_AS(Schedule(r), lm::Error);  // the style is constant
    r.weight_decay_style = WeightDecayStyle::linear;
    CHECK(*Schedule(r).rates(0, 0).weight_decay == 0.01);
    CHECK(*Schedule(r).rates(2500, 0).weight_decay == Approx(0.0325));
    CHECK(*Schedule(r).rates(20'000, 0).weight_decay == 0.1);
    r.weight_decay_style = WeightDecayStyle::cosine;
    CHECK(*Schedule(r).rates(2500, 0).weight_decay == Approx(0.01 + 0.09 * 0.1464466094067262));
    r.end_weight_decay = 0.001;
    CHECK_THROWS_AS(Schedule(r), lm::Error);
}
