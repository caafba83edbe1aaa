// SPDX-License-Identifier: Apache-2.0
// Every layout of up to 8 ranks gives the same training as one rank alone, for GPT-2, BLOOM and
// Llama. The quick test trains every pair of settings, the test with the tag [.matrix]
// (proof.layouts of ctest) every combination.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "parallel/training.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::test;

namespace {

using Granularity = spec::Recompute::Granularity;

std::string name_of(const train::TrainerConfig& config) {
    const spec::ParallelConfig& p = config.parallel;
    return fmt::format(
        "tp {} pp {} chunks {} dp {} zero {} sequence parallel {} recompute {} micro-batch {} "
        "overlap {}",
        p.tp, p.pp, p.n_chunks, p.dp, p.zero_stage, p.sequence_parallel,
        static_cast<int>(p.recompute.granularity), config.micro_batch,
        config.data_parallel.overlap_grad_reduce);
}

// A model and the number of steps that it is trained for.
struct Subject {
    std::string name;
    spec::ModelConfig model;
    int n_steps = 4;
};

Subject gpt2() {
    return {"gpt2", odd_model(9), 10};
}

// The number of heads is not a power of two, so that ALiBi's slopes are from two series.
Subject bloom(i64 n_heads, i64 head_dim) {
    return {fmt::format("bloom of {} heads", n_heads), bloom_model(8, n_heads, head_dim)};
}

Subject llama(i64 n_heads, i64 n_groups) {
    return {fmt::format("llama of {} heads in {} groups", n_heads, n_groups),
            llama_model(8, n_heads, n_groups)};
}

// All settings, as indices into lists of values.
using Choice = std::vector<int>;

std::vector<Choice> choices(const spec::ModelConfig& model) {
    std::vector<Choice> all;
    for (const int tp : {1, 2, 4}) {
        if (tp > model.n_groups) continue;  // refused
        for (const int pp : {1, 2, 4}) {
            for (const int chunks : {1, 2}) {
                for (const int dp : {1, 2, 4, 8}) {
                    if (tp * pp * dp > 8 || (pp == 1 && chunks > 1)) continue;
                    for (const int zero : {0, 1}) {
                        for (const int sequence : {0, 1}) {
                            if (tp == 1 && sequence == 1) continue;
                            for (const int recompute : {0, 1, 2}) {
                                all.push_back({tp, pp, chunks, dp, zero, sequence, recompute});
                            }
                        }
                    }
                }
            }
        }
    }
    return all;
}

train::TrainerConfig config_of(const spec::ModelConfig& model, const Choice& choice) {
    train::TrainerConfig config{.model = model};
    spec::ParallelConfig& parallel = config.parallel;
    parallel.tp = choice[0];
    parallel.pp = choice[1];
    parallel.n_chunks = choice[2];
    parallel.dp = choice[3];
    parallel.zero_stage = choice[4];
    parallel.sequence_parallel = choice[5] == 1;
    parallel.recompute.granularity = static_cast<Granularity>(choice[6]);
    parallel.recompute.n_layers = 2;
    parallel.vocab_divisible_by = 3;
    // 16 samples: 1 to 16 micro-batches on each rank.
    config.micro_batch = parallel.dp == 8 ? 1 : 2;
    const bool overlap = (choice[1] + choice[3] + choice[6]) % 2 == 0;
    config.data_parallel = {
        .bucket_elements = 3000, .overlap_grad_reduce = overlap, .overlap_param_gather = overlap};
    return config;
}

Training training_of(const train::TrainerConfig& config, int n_steps = 10) {
    return {.trainer = config, .global_batch = 16, .n_steps = n_steps};
}

struct Reference {
    Outcome outcome;
    double update = 0;  // norm of the change of the weights over all steps
};

// One rank alone.
Reference reference(const Subject& subject) {
    train::TrainerConfig config{.model = subject.model, .micro_batch = 4};
    config.parallel.vocab_divisible_by = 3;
    Reference made{.outcome = train_on_ranks(training_of(config, subject.n_steps))};
    made.update =
        weight_distance(made.outcome.weights, train_on_ranks(training_of(config, 0)).weights);
    CHECK(made.update > 0.01 * subject.n_steps);  // enough to be compared
    return made;
}

void check_against(const Reference& reference, const Subject& subject, const Choice& choice) {
    const train::TrainerConfig config = config_of(subject.model, choice);
    INFO(subject.name << ": " << name_of(config));
    const Outcome got = train_on_ranks(training_of(config, subject.n_steps));
    const Outcome& one = reference.outcome;
    REQUIRE(got.losses.size() == one.losses.size());
    for (size_t step = 0; step < one.losses.size(); ++step) {
        INFO("step " << step);
        CHECK(got.losses[step] == Approx(one.losses[step]).epsilon(1e-5));
        CHECK(got.norms[step] == Approx(one.norms[step]).epsilon(1e-4));
    }
    CHECK(got.validation == Approx(one.validation).epsilon(1e-5));
    CHECK(weight_distance(got.weights, one.weights) < 1e-3 * reference.update);
}

void check_all(const Subject& subject, const std::vector<Choice>& all) {
    const Reference one = reference(subject);
    for (const Choice& choice : all) check_against(one, subject, choice);
}

// Returns a small set of choices that contains every possible pair of values of two settings.
std::vector<Choice> pairwise(const spec::ModelConfig& model) {
    using Pair = std::tuple<size_t, int, size_t, int>;
    const auto pairs_of = [](const Choice& choice) {
        std::set<Pair> pairs;
        for (size_t a = 0; a < choice.size(); ++a) {
            for (size_t b = a + 1; b < choice.size(); ++b)
                pairs.insert({a, choice[a], b, choice[b]});
        }
        return pairs;
    };
    const std::vector<Choice> all = choices(model);
    std::set<Pair> missing;
    for (const Choice& choice : all) missing.merge(pairs_of(choice));
    std::vector<Choice> chosen;
    while (!missing.empty()) {
        const auto gain = [&](const Choice& choice) {
            i64 n = 0;
            for (const Pair& pair : pairs_of(choice)) n += missing.contains(pair) ? 1 : 0;
            return n;
        };
        const Choice best = *std::ranges::max_element(
            all, [&](const Choice& a, const Choice& b) { return gain(a) < gain(b); });
        for (const Pair& pair : pairs_of(best)) missing.erase(pair);
        chosen.push_back(best);
    }
    return chosen;
}

}  // namespace

TEST_CASE("every pair of settings trains the same model") {
    for (const Subject& subject : {gpt2(), bloom(5, 4), llama(6, 2)})
        check_all(subject, pairwise(subject.model));
}

TEST_CASE("every combination of settings trains the same model", "[.matrix]") {
    for (const Subject& subject :
         {gpt2(), bloom(12, 2), bloom(112, 1), llama(5, 5), llama(6, 2), llama(6, 3), llama(5, 1)})
        check_all(subject, choices(subject.model));
}

TEST_CASE("interleaved stages with any number of micro-batches, stages with given layers") {
    const spec::ModelConfig model = odd_model(9);
    for (const i64 n_micro_batches : {1, 3, 5}) {
        train::TrainerConfig config = config_of(model, {1, 1, 1, 1, 0, 0, 0});
        const auto train = [&] {
            Training training = training_of(config, 4);
            training.global_batch = 2 * n_micro_batches;
            return train_on_ranks(training);
        };
        const Outcome one = train();
        for (const auto& [pp, chunks, first, last] :
             {std::array<i64, 4>{2, 2, 0, 0}, {4, 2, 0, 0}, {4, 1, 1, 2}, {2, 2, 6, 0}}) {
            config.parallel.pp = pp;
            config.parallel.n_chunks = chunks;
            config.parallel.first_stage_layers = first;
            config.parallel.last_stage_layers = last;
            INFO(n_micro_batches << " micro-batches, " << name_of(config));
            const Outcome got = train();
            for (size_t step = 0; step < one.losses.size(); ++step) {
                CHECK(got.losses[step] == Approx(one.losses[step]).epsilon(1e-5));
                CHECK(got.norms[step] == Approx(one.norms[step]).epsilon(1e-4));
            }
        }
        config.parallel = {};
    }
}

TEST_CASE("the same layout gives the same bits, with any number of threads") {
    for (const Choice& choice : {Choice{2, 2, 2, 2, 1, 1, 1}, Choice{1, 2, 1, 3, 0, 0, 0}}) {
        Training training = training_of(config_of(odd_model(9), choice));
        training.global_batch = 12;
        training.trainer.micro_batch = 1;
        training.n_steps = 4;
        INFO(name_of(training.trainer));
        const Outcome first = train_on_ranks(training);
        for (const int threads : {1, 3}) {
            training.trainer.n_threads = threads;
            const Outcome again = train_on_ranks(training);
            CHECK(again.losses == first.losses);
            CHECK(again.norms == first.norms);
            CHECK(again.validation == first.validation);
            CHECK(again.weights == first.weights);
            CHECK(again.exp_avg == first.exp_avg);
        }
    }
}

// A reduction in place leaves undefined values between tensors.
TEST_CASE("gaps between tensors in the gradient buffer do not count in the norm") {
    Training training = training_of(config_of(odd_model(9), {2, 1, 1, 2, 1, 0, 0}));
    training.n_steps = 3;
    const Outcome clean = train_on_ranks(training);
    training.after_step = [](train::Trainer& trainer, int) {
        const std::span<float> gradients = trainer.gradients().span<float>();
        i64 at = 0;
        for (const spec::LocalTensor& tensor : trainer.params().layout().tensors) {
            std::fill(gradients.begin() + at, gradients.begin() + tensor.offset, 1e3F);
            at = tensor.end();
        }
        std::fill(gradients.begin() + at, gradients.end(), 1e3F);
    };
    const Outcome littered = train_on_ranks(training);
    CHECK(littered.norms == clean.norms);
    CHECK(littered.weights == clean.weights);
}
