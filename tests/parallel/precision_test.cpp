// SPDX-License-Identifier: Apache-2.0
// Training in 16 bits on several ranks: the losses of one rank within rounding, bitwise resume,
// and overflows on which all ranks agree.
#include <fmt/format.h>

#include <functional>
#include <utility>

#include "base/dtype.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/steps.hpp"
#include "parallel/training.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::test;

namespace {

struct PrecisionSubject {
    std::string name;
    spec::ModelConfig model;
};

std::vector<PrecisionSubject> subjects() {
    return {
        {"gpt2", odd_model(4)}, {"bloom", bloom_model(4, 6, 4)}, {"llama", llama_model(4, 6, 2)}};
}

Training half(const PrecisionSubject& subject, DType weights,
              const spec::ParallelConfig& parallel) {
    train::TrainerConfig config{.model = subject.model, .parallel = parallel, .micro_batch = 2};
    config.parallel.vocab_divisible_by = 3;
    config.precision = {weights};
    config.loss_scale = {.initial = 1024, .window = 3};
    return {.trainer = config, .global_batch = 8, .n_steps = 6};
}

// Layouts that divide the model or the data in one way, and one that divides in all ways.
const spec::ParallelConfig cuts[] = {
    {.tp = 2},
    {.tp = 2, .sequence_parallel = true},
    {.dp = 2},
    {.dp = 2, .zero_stage = 1},
    {.pp = 2},
    {.pp = 2, .n_chunks = 2},
    {.tp = 2, .pp = 2, .dp = 2, .sequence_parallel = true, .zero_stage = 1}};

// Calls body for every model in every 16-bit type.
void for_all(const std::function<void(const PrecisionSubject&, DType)>& body) {
    for (const PrecisionSubject& subject : subjects()) {
        for (const DType weights : {DType::bf16, DType::fp16}) {
            INFO(subject.name << " " << name_of(weights));
            body(subject, weights);
        }
    }
}

std::string name_of(const spec::ParallelConfig& cut) {
    return fmt::format("tp {} sequence parallel {} pp {} chunks {} dp {} zero {}", cut.tp,
                       cut.sequence_parallel, cut.pp, cut.n_chunks, cut.dp, cut.zero_stage);
}

}  // namespace

TEST_CASE("16-bit losses of several ranks equal those of one rank within rounding") {
    for_all([](const PrecisionSubject& subject, DType weights) {
        const Outcome one = train_on_ranks(half(subject, weights, {}));
        const double rounding = weights == DType::bf16 ? 0x1p-7 : 0x1p-10;
        for (const spec::ParallelConfig& cut : cuts) {
            INFO(name_of(cut));
            Training training = half(subject, weights, cut);
            training.after_step = [](train::Trainer& trainer, int) { trainer.check_replicas(); };
            const Outcome got = train_on_ranks(training);
            for (size_t step = 0; step < one.losses.size(); ++step) {
                INFO("step " << step);
                // Means over 48 tokens of values that were rounded once more at each cut.
                CHECK(got.losses[step] == Approx(one.losses[step]).epsilon(rounding / 4));
                CHECK(got.updated[step]);
            }
            CHECK(got.scales == one.scales);
        }
    });
}

TEST_CASE("several ranks in 16 bits resume from a checkpoint bitwise") {
    for_all([](const PrecisionSubject& subject, DType weights) {
        for (const spec::ParallelConfig& cut : cuts) {
            INFO(name_of(cut));
            const TempDir scratch(memory_root());
            optim::LossScaleState scaler;
            Training whole = half(subject, weights, cut);
            whole.after_step = [&](train::Trainer& trainer, int step) {
                if (step != 3) return;
                save_step(trainer, whole.trainer, scratch / "run", 4);
                if (trainer.grid().world->rank() == 0) scaler = trainer.loss_scaler().state();
            };
            const Outcome undisturbed = train_on_ranks(whole);
            Training rest = half(subject, weights, cut);
            rest.first_sample = 4 * rest.global_batch;
            rest.n_steps = 2;
            rest.prepare = [&](train::Trainer& trainer) {
                trainer.load(ckpt::open(scratch / "run"), true);
                trainer.gather_loaded();
                trainer.restore(scaler);
            };
            const Outcome resumed = train_on_ranks(rest);
            for (size_t step = 0; step < 2; ++step) {
                CHECK(resumed.losses[step] == undisturbed.losses[step + 4]);
                CHECK(resumed.norms[step] == undisturbed.norms[step + 4]);
                CHECK(resumed.scales[step] == undisturbed.scales[step + 4]);
            }
            CHECK(resumed.weights == undisturbed.weights);
            CHECK(resumed.exp_avg == undisturbed.exp_avg);
        }
    });
}

// train_on_ranks() throws when ranks disagree on a step.
TEST_CASE("fp16: an overflow on one rank skips the step on all") {
    for (const PrecisionSubject& subject : subjects()) {
        for (const spec::ParallelConfig& cut : cuts) {
            INFO(subject.name << " " << name_of(cut));
            Training training = half(subject, DType::fp16, cut);
            training.trainer.loss_scale = {.initial = 1024, .window = 100, .hysteresis = 1};
            Fp16 kept{};
            training.after_step = [&kept](train::Trainer& trainer, int step) {
                // Infinity in a weight of the last rank, for one step.
                const bool last = trainer.grid().world->rank() + 1 == trainer.grid().world->size();
                Fp16& weight = *trainer.weights().as<Fp16>();
                if (last && step == 2) weight = kept;
                trainer.check_replicas();
                if (last && step == 1) kept = std::exchange(weight, Fp16{0x7c00});
            };
            const Outcome got = train_on_ranks(training);
            CHECK(got.updated == std::vector<bool>{true, true, false, true, true, true});
            CHECK(got.scales == std::vector<double>{1024, 1024, 512, 512, 512, 512});
        }
    }
}
