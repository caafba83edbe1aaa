// SPDX-License-Identifier: Apache-2.0
// A run in one layout saves, and a run in another layout resumes, for each pair of layouts of
// GPT-2, BLOOM and Llama: weights and moments bitwise, and the losses of the uninterrupted run.
#include <fmt/format.h>

#include "ckpt/history/steps.hpp"
#include "parallel/training.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::test;

namespace {

constexpr int steps_before = 2;
constexpr int steps_after = 3;

std::string layout_name(const spec::ParallelConfig& cut) {
    return fmt::format("tp {} sequence parallel {} pp {} chunks {} dp {} zero {}", cut.tp,
                       cut.sequence_parallel, cut.pp, cut.n_chunks, cut.dp, cut.zero_stage);
}

Training training_of(const spec::ModelConfig& model, const spec::ParallelConfig& cut, int n_steps) {
    train::TrainerConfig config{.model = model, .parallel = cut, .micro_batch = 2};
    config.parallel.vocab_divisible_by = 3;
    return {.trainer = config, .global_batch = 8, .n_steps = n_steps};
}

void check_same_state(const Outcome& got, const Outcome& wanted) {
    CHECK(got.weights == wanted.weights);
    CHECK(got.exp_avg == wanted.exp_avg);
    CHECK(got.exp_avg_sq == wanted.exp_avg_sq);
}

// Resumes the step of `directory` in layout `cut`. `saved` is the state of the run at that step,
// `whole` the state at the end of the uninterrupted run, which has the layout `cut` if `same` is
// set.
void check_resume(const spec::ModelConfig& model, const spec::ParallelConfig& cut,
                  const std::string& directory, const Outcome& saved, const Outcome& whole,
                  bool same) {
    Training rest = training_of(model, cut, 0);
    rest.first_sample = steps_before * rest.global_batch;
    rest.prepare = [&](train::Trainer& trainer) {
        trainer.load(ckpt::open(directory), true);
        trainer.gather_loaded();
    };
    check_same_state(train_on_ranks(rest), saved);
    rest.n_steps = steps_after;
    const Outcome resumed = train_on_ranks(rest);
    if (same) check_same_state(resumed, whole);
    for (size_t step = 0; step < steps_after; ++step) {
        const double wanted = whole.losses[step + steps_before];
        CHECK(resumed.losses[step] ==
              (same ? Approx(wanted).epsilon(0) : Approx(wanted).epsilon(1e-5)));
    }
}

void check_pairs(const std::vector<spec::ParallelConfig>& cuts) {
    for (const auto& model : {odd_model(8), bloom_model(8, 6, 4), llama_model(8, 6, 2)}) {
        for (const spec::ParallelConfig& from : cuts) {
            const TempDir scratch(memory_root());
            Training run = training_of(model, from, steps_before);
            const Outcome saved = train_on_ranks(run);
            run.n_steps += steps_after;
            run.after_step = [&](train::Trainer& trainer, int step) {
                if (step + 1 == steps_before)
                    save_step(trainer, run.trainer, scratch / "run", steps_before);
            };
            const Outcome whole = train_on_ranks(run);
            for (const spec::ParallelConfig& to : cuts) {
                INFO(static_cast<int>(model.position)
                     << ": " << layout_name(from) << " to " << layout_name(to));
                check_resume(model, to, scratch / "run", saved, whole, &from == &to);
            }
        }
    }
}

}  // namespace

TEST_CASE("a run resumes in another layout from the same state, with the same losses") {
    check_pairs({{}, {.dp = 2, .zero_stage = 1}, {.tp = 2, .pp = 2, .sequence_parallel = true}});
}

TEST_CASE("each of these layouts resumes from each other", "[.matrix]") {
    check_pairs({{},
                 {.tp = 2},
                 {.tp = 2, .sequence_parallel = true},
                 {.dp = 2},
                 {.dp = 4, .zero_stage = 1},
                 {.pp = 2},
                 {.pp = 4},
                 {.pp = 2, .n_chunks = 2},
                 {.tp = 2, .pp = 2, .zero_stage = 1},
                 {.tp = 2, .pp = 2, .dp = 2, .sequence_parallel = true, .zero_stage = 1}});
}
