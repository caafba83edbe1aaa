// SPDX-License-Identifier: Apache-2.0
// Faults of one rank stop all ranks: copies that drift apart, losses that are not finite, an error
// during a step.
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "base/machine.hpp"
#include "base/rng.hpp"
#include "parallel/training.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::test;

namespace {

Training small(const spec::ParallelConfig& parallel) {
    train::TrainerConfig config{.model = odd_model(9), .parallel = parallel, .micro_batch = 2};
    config.parallel.vocab_divisible_by = 3;
    return {.trainer = config, .global_batch = 4 * parallel.dp, .n_steps = 3};
}

std::string error_of(const Training& training, Exit code) {
    try {
        (void)train_on_ranks(training);
    } catch (const Error& error) {
        CHECK(error.code() == code);
        return error.what();
    }
    return "";
}

// Changes one weight by one bit on one rank after the first step, in the middle of `tensor`.
Training flipped(Training training, i64 rank, const std::string& tensor) {
    training.after_step = [rank, tensor](train::Trainer& trainer, int step) {
        if (step == 0 && trainer.grid().world->rank() == rank) {
            for (const spec::LocalTensor& local : trainer.params().layout().tensors) {
                if (trainer.params().spec_of(local).name != tensor) continue;
                float& weight = trainer.weights().as<float>()[local.offset + local.numel() / 2];
                weight = std::bit_cast<float>(std::bit_cast<u32>(weight) ^ 1U);
            }
        }
        trainer.check_replicas();
    };
    return training;
}

}  // namespace

TEST_CASE("equal copies pass the check") {
    Training training = small({.tp = 2, .pp = 2, .dp = 2, .zero_stage = 1});
    training.after_step = [](train::Trainer& trainer, int) { trainer.check_replicas(); };
    CHECK(error_of(training, Exit::done).empty());
}

TEST_CASE("a copy that differs by one bit is found, with tensor and ranks") {
    const std::string norm = "layers.2.mlp.norm.weight";
    CHECK_THAT(error_of(flipped(small({.dp = 3, .zero_stage = 1}), 1, norm), Exit::self_stopped),
               ContainsSubstring(norm + " (weight)") && ContainsSubstring("3 data ranks") &&
                   ContainsSubstring("rank 1 of 3"));
    CHECK_THAT(error_of(flipped(small({.tp = 4}), 2, norm), Exit::self_stopped),
               ContainsSubstring(norm + " (weight)") && ContainsSubstring("4 tensor ranks") &&
                   ContainsSubstring("rank 2 of 4"));
    CHECK_THAT(error_of(flipped(small({.tp = 2, .pp = 2}), 2, "embedding.word.weight"),
                        Exit::self_stopped),
               ContainsSubstring("embedding.word.weight (weight)") &&
                   ContainsSubstring("ranks 0, 2 of 4"));
}

// Flips a random bit of a random copy on a random rank, `n` times. Each of three ranks has a copy,
// so the majority shows the flipped one.
static void flip_copies(int n) {
    constexpr std::array<std::pair<ckpt::SliceKind, const char*>, 4> kinds = {
        {{ckpt::SliceKind::weight, "weight"},
         {ckpt::SliceKind::master, "master"},
         {spec::exp_avg, "exp_avg"},
         {spec::exp_avg_sq, "exp_avg_sq"}}};
    for (int i = 0; i < n; ++i) {
        const auto number = [i](const char* what, u64 end) {
            return static_cast<size_t>(mix(static_cast<u64>(i), stream_key(7, what)) % end);
        };
        const auto kind = kinds[static_cast<size_t>(i) % 4].first;
        const auto name = kinds[static_cast<size_t>(i) % 4].second;
        const size_t rank = number("rank", 3);
        std::string tensor;
        Training training = small({.dp = 3});
        training.n_steps = 1;
        training.trainer.precision = {.weights = DType::bf16};
        const auto flip = [&](train::Trainer& trainer, int) {
            if (trainer.grid().world->rank() == static_cast<int>(rank)) {
                std::vector<ckpt::Piece> pieces = trainer.checkpoint_pieces();
                std::erase_if(pieces, [&](const ckpt::Piece& piece) { return piece.kind != kind; });
                const ckpt::Piece& piece = pieces[number("piece", pieces.size())];
                const i64 bytes = (piece.flat_end - piece.flat_begin) * size_of(piece.dtype);
                auto* const data = static_cast<unsigned char*>(const_cast<void*>(piece.data));
                data[number("byte", static_cast<u64>(bytes))] ^=
                    static_cast<unsigned char>(1U << number("bit", 8));
                tensor = trainer.params().table()[static_cast<size_t>(piece.tensor)].name;
            }
            trainer.check_replicas();
        };
        training.after_step = flip;
        const std::string error = error_of(training, Exit::self_stopped);
        CHECK_THAT(error, ContainsSubstring(fmt::format("tensor {} ({})", tensor, name)) &&
                              ContainsSubstring(
                                  fmt::format("suspect rank {} of 3 ({})", rank, host_name())));
    }
}

TEST_CASE("a flipped bit of any copy is found, with tensor, kind, rank and host") {
    flip_copies(8);
}

TEST_CASE("100 flipped bits are found", "[.flips]") {
    flip_copies(100);
}

// Gradients are clipped on the first tensor rank only, so the copies of replicated tensors drift
// apart.
TEST_CASE("clipping that is skipped on tensor ranks above 0 is caught") {
    for (const bool caught : {false, true}) {
        Training training = small({.tp = 2, .dp = 2});
        training.trainer.adamw.clip_grad = 0.05;  // below every norm: all steps are clipped
        training.before_update = [caught](train::Trainer& trainer, train::StepResult& step) {
            if (caught && trainer.grid().at.tp > 0) step.gradient_norm = 0;  // not clipped
        };
        training.after_step = [](train::Trainer& trainer, int) { trainer.check_replicas(); };
        const std::string error = error_of(training, Exit::self_stopped);
        CHECK(error.empty() == !caught);
        if (caught) CHECK_THAT(error, ContainsSubstring("tensor ranks differ"));
    }
}

TEST_CASE("a gradient that is not finite on one rank stops the update on all") {
    Training training = small({.tp = 2, .pp = 2, .dp = 2, .zero_stage = 1});
    training.n_steps = 2;
    training.prepare = [](train::Trainer& trainer) {
        // A weight of a layer that only one rank holds.
        if (trainer.grid().world->rank() != 5) return;
        trainer.weights().as<float>()[3] = std::numeric_limits<float>::infinity();
    };
    training.after_step = [](train::Trainer& trainer, int) {
        if (trainer.optimizer_step() != 0) throw std::runtime_error("a step was made");
        throw Error(Exit::self_stopped, "as it should be");
    };
    CHECK(error_of(training, Exit::self_stopped) == "as it should be");
}

TEST_CASE("an error of one rank during a step ends all ranks with its message") {
    Training training = small({.tp = 1, .pp = 4, .dp = 2, .zero_stage = 1});
    training.trainer.data_parallel = {
        .bucket_elements = 500, .overlap_grad_reduce = true, .overlap_param_gather = true};
    training.after_step = [](train::Trainer& trainer, int step) {
        if (step == 1 && trainer.grid().world->rank() == 3)
            throw Error(Exit::failure, "disk: full");
    };
    CHECK(error_of(training, Exit::failure) == "disk: full");
}
