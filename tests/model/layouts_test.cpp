// SPDX-License-Identifier: Apache-2.0
// Every layout computes the loss and the gradients of one rank, with dropout, for sizes that no
// number of ranks divides.
#include <fmt/format.h>

#include <cmath>

#include "layout_run.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::test;
using spec::Recompute;

namespace {

using enum spec::Recompute::Granularity;
using enum spec::Recompute::Method;

constexpr Recompute no_recompute{};
constexpr Recompute recomputes[] = {{selective, uniform, 1}, {full, uniform, 1}, {full, uniform, 2},
                                    {full, uniform, 9},      {full, block, 1},   {full, block, 3}};

spec::ParallelConfig layout(i64 tp, i64 pp, i64 n_chunks = 1, bool sequence_parallel = false,
                            const Recompute& recompute = no_recompute) {
    return {.tp = tp,
            .pp = pp,
            .vocab_divisible_by = 3,
            .sequence_parallel = sequence_parallel,
            .n_chunks = n_chunks,
            .recompute = recompute};
}

double norm(const std::vector<float>& x) {
    double sum = 0;
    for (const double value : x) sum += value * value;
    return std::sqrt(sum);
}

double distance(const std::vector<float>& a, const std::vector<float>& b) {
    REQUIRE(a.size() == b.size());
    std::vector<float> difference;
    for (size_t i = 0; i < a.size(); ++i) difference.push_back(a[i] - b[i]);
    return norm(difference);
}

void compare(const Outcome& got, const Outcome& expected) {
    CHECK(got.faults == std::vector<std::string>{});
    CHECK(std::abs(got.loss - expected.loss) <= 1e-5 * std::abs(expected.loss));
    REQUIRE(got.gradients.size() == expected.gradients.size());
    double whole = 0;
    for (const auto& [name, gradient] : expected.gradients) {
        whole = std::hypot(whole, norm(gradient));
    }
    CHECK(whole > 0.1);
    for (const auto& [name, gradient] : expected.gradients) {
        INFO(name);
        // The gradient of a key bias is rounding noise.
        CHECK(distance(got.gradients.at(name), gradient) <=
              1e-5 * std::max(norm(gradient), 1e-2 * whole));
    }
}

std::string describe(const spec::ParallelConfig& p) {
    return fmt::format("tp {} pp {} chunks {} sp {} recompute {}/{}/{}", p.tp, p.pp, p.n_chunks,
                       p.sequence_parallel, static_cast<int>(p.recompute.granularity),
                       static_cast<int>(p.recompute.method), p.recompute.n_layers);
}

}  // namespace

TEST_CASE("tensor ranks and pipeline parts compute what one rank computes") {
    const auto kernels = GENERATE(cpu::Kernels::reference, cpu::Kernels::fast);
    const Outcome one =
        run_layout({.config = odd_model(5), .parallel = layout(1, 1), .kernels = kernels});
    CHECK(one.faults == std::vector<std::string>{});
    for (const i64 tp : {1, 2, 4}) {
        for (const auto& [pp, n_chunks] :
             std::initializer_list<std::pair<i64, i64>>{{1, 1}, {2, 1}, {5, 1}, {2, 2}}) {
            for (const bool sequence_parallel : {false, true}) {
                const spec::ParallelConfig parallel = layout(tp, pp, n_chunks, sequence_parallel);
                INFO(describe(parallel));
                compare(
                    run_layout({.config = odd_model(5), .parallel = parallel, .kernels = kernels}),
                    one);
            }
        }
    }
}

TEST_CASE("the embedding and the head compute the same result in parts without layers") {
    spec::ModelConfig bloom = bloom_model(2, 12, 2);
    bloom.position = spec::PositionEmbedding::absolute;
    for (const spec::ModelConfig& config :
         {odd_model(2), bloom, llama_model(2, 6, 2), neox_model(2, 5)}) {
        const Outcome one = run_layout({.config = config, .parallel = layout(1, 1)});
        for (const auto& [pp, n_chunks] :
             std::initializer_list<std::pair<i64, i64>>{{4, 1}, {2, 2}}) {
            for (const bool sequence_parallel : {false, true}) {
                spec::ParallelConfig parallel = layout(2, pp, n_chunks, sequence_parallel);
                parallel.balance = spec::PipelineBalance::layers_and_embedding;
                INFO(describe(parallel));
                REQUIRE(spec::model_part(config, parallel, 0).n_layers() == 0);
                compare(run_layout({.config = config, .parallel = parallel}), one);
            }
        }
    }
}

TEST_CASE("every layout of the other architectures computes the result of one rank") {
    spec::ModelConfig wide_104b = odd_model(5);  // positions are added after the embedding norm
    wide_104b.embedding_norm = true;
    spec::ModelConfig mixture = odd_model(5);
    mixture.position = spec::PositionEmbedding::rope;
    mixture.activation = spec::Activation::geglu;
    spec::ModelConfig no_positions = odd_model(5);
    no_positions.position = spec::PositionEmbedding::none;
    spec::ModelConfig variants = llama_model(3, 6, 3);
    variants.rotary_interleaved = true;
    variants.rope_scaling = spec::usual_scaling(spec::RotaryRule::llama3);
    variants.window = 2;
    variants.norm_1p = true;
    variants.qk_norm = true;
    spec::ModelConfig rotary = patterned_model(5, 6, 3);  // two bases, yarn, queries scaled
    rotary.rotary_local_base = 50;
    rotary.rope_scaling = spec::usual_scaling(spec::RotaryRule::yarn);
    rotary.rope_scaling.factor = 4;
    rotary.rope_scaling.original_length = 2;
    rotary.query_beta = 0.5;
    spec::ModelConfig parallel_llama = llama_model(3, 6, 3);
    parallel_llama.parallel_residual = true;
    parallel_llama.hidden_dropout = 0;
    spec::ModelConfig olmo = llama_model(3, 6, 3);
    olmo.norms = spec::NormPlacement::reordered;
    olmo.qk_norm = true;
    olmo.joint_qk_norm = true;
    spec::ModelConfig peri = odd_model(4);
    peri.norms = spec::NormPlacement::peri;
    spec::ModelConfig reordered = odd_model(4);
    reordered.norms = spec::NormPlacement::reordered;
    spec::ModelConfig shared = neox_model(4, 5);
    shared.shared_norm = true;
    shared.norm_bias = false;
    spec::ModelConfig parallel_peri = neox_model(4, 5);
    parallel_peri.norms = spec::NormPlacement::peri;
    spec::ModelConfig parallel_reordered = parallel_peri;
    parallel_reordered.norms = spec::NormPlacement::reordered;
    spec::ModelConfig granite = odd_model(4);
    granite.embedding_scale = 3;
    granite.attention_scale = 0.3;
    granite.residual_scale = 0.6;
    granite.logit_scale = 0.25;
    granite.norms = spec::NormPlacement::peri;
    granite.activation = spec::Activation::geglu_tanh;
    const std::vector<std::pair<std::string, spec::ModelConfig>> models = {
        {"multipliers", granite},
        {"one norm for both", shared},
        {"parallel peri norms", parallel_peri},
        {"parallel reordered norms", parallel_reordered},
        {"olmo", olmo},
        {"peri norms", peri},
        {"reordered norms", reordered},
        {"bloom 12 heads", bloom_model(3, 12, 2)},
        {"bloom 112 heads", bloom_model(3, 112, 1)},
        {"llama", llama_model(3, 6, 6)},
        {"llama 2 groups", llama_model(3, 6, 2)},
        {"llama 3 groups", llama_model(3, 6, 3)},
        {"104b", wide_104b},
        {"mixture", mixture},
        {"no positions", no_positions},
        {"nemotron", nemotron_model(3, 5, 5)},
        {"nemotron 3 groups", nemotron_model(3, 6, 3)},
        {"variants", variants},
        {"neox", neox_model(5, 5)},
        {"parallel llama", parallel_llama},
        {"rotary", rotary},
        {"layers that differ", patterned_model(5, 6, 3)}};
    const std::vector<spec::ParallelConfig> layouts = {
        layout(2, 1),          layout(4, 1),          layout(1, 3), layout(2, 1, 1, true),
        layout(4, 1, 1, true), layout(2, 3, 1, true), layout(3, 2)};
    for (const auto& [name, config] : models) {
        const Outcome one = run_layout({.config = config, .parallel = layout(1, 1)});
        CHECK(one.faults == std::vector<std::string>{});
        for (const spec::ParallelConfig& parallel : layouts) {
            if (parallel.tp > config.n_groups) continue;
            INFO(name << ": " << describe(parallel));
            compare(run_layout({.config = config, .parallel = parallel}), one);
        }
        for (const Recompute& recompute : recomputes) {
            LayoutRun run{.config = config, .parallel = layout(2, 1)};
            const Outcome kept = run_layout(run);
            run.parallel.recompute = recompute;
            INFO(name << ": " << describe(run.parallel));
            CHECK(run_layout(run) == kept);
        }
    }
}

TEST_CASE("recompute changes no bit") {
    for (const auto& parallel :
         {layout(1, 1), layout(2, 2), layout(4, 1, 1, true), layout(2, 2, 2, true), layout(1, 3)}) {
        const Outcome kept = run_layout({.config = odd_model(5), .parallel = parallel});
        for (const Recompute& recompute : recomputes) {
            spec::ParallelConfig again = parallel;
            again.recompute = recompute;
            INFO(describe(again));
            CHECK(run_layout({.config = odd_model(5), .parallel = again}) == kept);
        }
    }
}

TEST_CASE("recompute changes no bit with the other activation, and the reference loops") {
    spec::ModelConfig config = odd_model(5);
    config.activation = spec::Activation::gelu_erf;
    const auto kernels = GENERATE(cpu::Kernels::reference, cpu::Kernels::fast);
    LayoutRun run{.config = config, .parallel = layout(2, 1), .kernels = kernels};
    const Outcome kept = run_layout(run);
    for (const Recompute& recompute : recomputes) {
        run.parallel.recompute = recompute;
        INFO(describe(run.parallel));
        CHECK(run_layout(run) == kept);
    }
}

TEST_CASE("the same layout gives the same bits, for any number of threads") {
    for (const auto& parallel : {layout(4, 1), layout(2, 2, 1, true)}) {
        INFO(describe(parallel));
        LayoutRun run{.config = odd_model(5), .parallel = parallel};
        const Outcome first = run_layout(run);
        CHECK(run_layout(run) == first);
        run.n_threads = 3;
        CHECK(run_layout(run) == first);
    }
}

TEST_CASE("the micro-batch size does not change the result of a layout") {
    const Outcome one = run_layout(
        {.config = odd_model(5), .parallel = layout(1, 1), .micro_batch = 4, .n_micro_batches = 1});
    for (const i64 micro_batch : {1, 2, 4}) {
        compare(run_layout({.config = odd_model(5),
                            .parallel = layout(2, 1, 1, true),
                            .micro_batch = micro_batch,
                            .n_micro_batches = 4 / micro_batch}),
                one);
    }
}

TEST_CASE("evaluation does not change gradients and has no dropout") {
    const auto evaluate = [](const spec::ParallelConfig& parallel) {
        return run_layout({.config = odd_model(5), .parallel = parallel, .training = false});
    };
    const Outcome one = evaluate(layout(1, 1));
    for (const auto& parallel : {layout(4, 1), layout(2, 2), layout(2, 2, 1, true)}) {
        const Outcome outcome = evaluate(parallel);
        CHECK(outcome.loss == Approx(one.loss).epsilon(1e-6));
        for (const auto& [name, gradient] : outcome.gradients) {
            INFO(name);
            CHECK(std::ranges::all_of(gradient, [](float x) { return x >= 1e3F; }));
        }
    }
}

TEST_CASE("dropout changes the loss, in every layout alike") {
    spec::ModelConfig config = odd_model(5);
    const double with = run_layout({.config = config, .parallel = layout(2, 1)}).loss;
    config.attention_dropout = config.hidden_dropout = 0;
    const Outcome one = run_layout({.config = config, .parallel = layout(1, 1)});
    CHECK(std::abs(one.loss - with) > 1e-4 * with);
    compare(run_layout({.config = config, .parallel = layout(2, 2, 1, true)}), one);
}
