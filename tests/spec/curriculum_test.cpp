// SPDX-License-Identifier: Apache-2.0
// Curriculum learning: sequence lengths by iteration, and their effect on tokens, on the end of a
// training and on its learning rate.
#include "spec/curriculum.hpp"

#include "base/error.hpp"
#include "spec/schedule.hpp"
#include "support/catch.hpp"

using lm::i64;
using lm::spec::Counters;
using lm::spec::Curriculum;
using lm::spec::DecayStyle;
using lm::spec::Schedule;
using lm::spec::ScheduleRequest;

namespace {

Curriculum linear(i64 min, i64 max, i64 total, i64 step) {
    Curriculum c;
    c.min = min;
    c.max = max;
    c.total_steps = total;
    c.difficulty_step = step;
    return c;
}

ScheduleRequest tr8b() {
    ScheduleRequest r;
    r.seq_length = 2048;
    r.ramp.global_batch = 2048;
    r.train_samples = 600'000'000;
    r.lr = 6e-5;
    r.min_lr = 6e-6;
    r.decay_style = DecayStyle::cosine;
    r.train_tokens = 300'000'000'000;
    r.warmup_samples = 3'750'000;
    r.decay_tokens = 260'000'000'000;
    r.curriculum = linear(64, 2048, 36'000, 8);
    return r;
}

}  // namespace

TEST_CASE("curriculum lengths of each kind") {
    const auto c = linear(64, 2048, 36'000, 8);
    for (const auto& [step, length] : std::vector<std::pair<i64, i64>>{{1, 64},
                                                                       {100, 64},
                                                                       {144, 64},
                                                                       {145, 64},
                                                                       {146, 72},
                                                                       {1000, 112},
                                                                       {10'000, 608},
                                                                       {18'000, 1056},
                                                                       {35'000, 1992},
                                                                       {35'855, 2040},
                                                                       {35'999, 2040},
                                                                       {36'000, 2048},
                                                                       {36'001, 2048},
                                                                       {1'000'000, 2048}}) {
        CHECK(c.seq_length(step) == length);
    }
    const auto small = linear(8, 128, 30, 4);
    for (const auto& [step, length] :
         std::vector<std::pair<i64, i64>>{{1, 12}, {2, 16}, {8, 40}, {15, 68}, {30, 128}}) {
        CHECK(small.seq_length(step) == length);
    }
    auto root = c;
    root.kind = Curriculum::Kind::fixed_root;
    root.root_degree = 2;
    for (const auto& [step, length] :
         std::vector<std::pair<i64, i64>>{{1, 72}, {100, 168}, {9000, 1056}, {36'000, 2048}}) {
        CHECK(root.seq_length(step) == length);
    }
    Curriculum discrete;
    discrete.kind = Curriculum::Kind::fixed_discrete;
    discrete.lengths = {64, 128, 256};
    discrete.max_steps = {10, 20};
    discrete.check(256);
    CHECK(discrete.seq_length(1) == 64);
    CHECK(discrete.seq_length(10) == 64);
    CHECK(discrete.seq_length(11) == 128);
    CHECK(discrete.seq_length(20) == 128);
    CHECK(discrete.seq_length(21) == 256);
    CHECK_FALSE(discrete.finished(20));
    CHECK(discrete.finished(21));
    CHECK_THROWS_AS(discrete.check(255), lm::Error);
    CHECK_THROWS_AS(linear(64, 4096, 100, 8).check(2048), lm::Error);
}

TEST_CASE("an invalid curriculum names its flags, or the keys of a DeepSpeed configuration") {
    Curriculum c = linear(4, 48, 10, 8);
    CHECK_THROWS_WITH(c.check(48), HasInOrder("--curriculum-min-difficulty: 4 ",
                                              "--curriculum-difficulty-step 8 ",
                                              "--curriculum-max-difficulty 48"));
    c.from_deepspeed = true;
    CHECK_THROWS_WITH(c.check(48), HasInOrder("curriculum_learning: min_difficulty: 4 ",
                                              "difficulty_step 8 ", "max_difficulty 48"));
    c = linear(8, 48, 0, 8);
    CHECK_THROWS_WITH(c.check(48), HasInOrder("--curriculum-total-steps: ", "1, got 0"));
    c.from_deepspeed = true;
    CHECK_THROWS_WITH(c.check(48),
                      HasInOrder("curriculum_learning: total_curriculum_step: ", "1, got 0"));
    Curriculum discrete;
    discrete.kind = Curriculum::Kind::fixed_discrete;
    discrete.lengths = {8, 16};
    CHECK_THROWS_WITH(
        discrete.check(48),
        HasInOrder("--curriculum-difficulties: ", "--curriculum-max-steps ", "2 and 0 values"));
    discrete.max_steps = {10};
    CHECK_THROWS_WITH(discrete.check(12),
                      HasInOrder("--curriculum-difficulties: 16 ", "--seq-length 12"));
}

TEST_CASE("the 104B curriculum run ends by its tokens") {
    const Schedule schedule(tr8b());
    CHECK(schedule.after(36'000).tokens == 77'563'953'152);
    CHECK(schedule.total_iterations() == 89'033);
    CHECK(schedule.end().samples == 182'339'584);
    CHECK(schedule.end().tokens >= 300'000'000'000);
}

TEST_CASE("the sequence lengths of the iterations that are left") {
    const Schedule schedule(tr8b());
    const std::vector<i64> all = schedule.seq_lengths(0);
    CHECK(all.size() == (2048 - 64) / 8 + 1);
    CHECK((all.front() == 64 && all[1] == 72 && all.back() == 2048));
    CHECK(schedule.seq_lengths(35'000).front() == 1992);
    CHECK(schedule.seq_lengths(40'000) == std::vector<i64>{2048});
    ScheduleRequest plain = tr8b();
    plain.curriculum.reset();
    CHECK(Schedule(plain).seq_lengths(7) == std::vector<i64>{2048});
}

TEST_CASE("decay by tokens starts where the warm-up ended") {
    const Schedule schedule(tr8b());
    const Counters end_of_warmup = schedule.after(1832);  // 3 750 000 / 2048 = 1831.05
    CHECK(schedule.learning_rate().warmup_tokens == static_cast<double>(end_of_warmup.tokens));
    CHECK(schedule.rate(schedule.after(1831).samples, schedule.after(1831).tokens) < 6e-5);
    double before = 6e-5;
    for (i64 k = 1832; k < 1900; ++k) {
        const Counters done = schedule.after(k);
        const double rate = schedule.rate(done.samples, done.tokens);
        CHECK(rate <= before);
        CHECK(rate > 5.99e-5);
        before = rate;
    }
    CHECK(schedule.rate(100'000'000, 260'000'000'001) == 6e-6);
}
