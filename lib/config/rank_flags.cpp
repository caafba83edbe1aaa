// SPDX-License-Identifier: Apache-2.0
// How a model is cut over ranks, and in which precision it trains.
#include "base/error.hpp"
#include "config/model_flags.hpp"

namespace lm::config {
namespace {

// "4 or 8": the divisors of `n` next to `wanted`.
std::string nearest_divisors(i64 n, i64 wanted) {
    i64 below = 1;
    for (i64 d = 1; d <= n; ++d) {
        if (n % d != 0) continue;
        if (d > wanted) return fmt::format("{} or {}", below, d);
        below = d;
    }
    return fmt::format("{}", below);
}

}  // namespace

void add_parallel_options(cli::Options& options, ParallelFlags& flags) {
    options.group("Parallel");
    options.value("--tensor-model-parallel-size", &flags.tensor, "N",
                  "ranks that share every layer");
    options.value("--pipeline-model-parallel-size", &flags.pipeline, "N",
                  "pipeline stages, each with its share of the layers");
}

std::vector<std::string> cut_problems(const ParallelFlags& flags, const spec::ModelConfig& model) {
    constexpr std::string_view tensor = "--tensor-model-parallel-size";
    constexpr std::string_view pipeline = "--pipeline-model-parallel-size";
    std::vector<std::string> problems;
    if (flags.tensor < 1) problems.push_back(fmt::format("{}: must be at least 1", tensor));
    if (flags.pipeline < 1) problems.push_back(fmt::format("{}: must be at least 1", pipeline));
    const auto cut = [&](i64 value, std::string_view what) {
        if (flags.tensor < 1 || value % flags.tensor == 0) return;
        problems.push_back(fmt::format("{}: {} does not divide {} {}: {} would", tensor,
                                       flags.tensor, what, value,
                                       nearest_divisors(value, flags.tensor)));
    };
    cut(model.n_heads, "--num-attention-heads");
    if (model.n_groups != model.n_heads) cut(model.n_groups, "--num-query-groups");
    cut(model.ffn_hidden, "--ffn-hidden-size");
    if (flags.pipeline > model.n_layers) {
        problems.push_back(fmt::format("{}: {} stages are more than --num-layers {}: at most {}",
                                       pipeline, flags.pipeline, model.n_layers, model.n_layers));
    }
    return problems;
}

spec::ParallelConfig resolve_parallel(const ParallelFlags& flags, const ModelFlags& model_flags,
                                      const spec::ModelConfig& model) {
    if (const auto problems = cut_problems(flags, model); !problems.empty()) {
        throw Error(Exit::usage, problems.front());
    }
    spec::ParallelConfig parallel;
    parallel.tp = flags.tensor;
    parallel.pp = flags.pipeline;
    parallel.vocab_divisible_by = model_flags.vocab_divisible_by;
    parallel.pad_vocab_to = model_flags.pad_vocab_to.value_or(0);
    (void)padded_vocab(model, parallel);  // checks the padding
    return parallel;
}

void require_one_rank(const spec::ParallelConfig& parallel) {
    const auto require_one = [](std::string_view flag, i64 value) {
        if (value != 1) usage_error(flag, "lm-train runs on one rank so far: use 1");
    };
    require_one("--tensor-model-parallel-size", parallel.tp);
    require_one("--pipeline-model-parallel-size", parallel.pp);
}

void add_precision_options(cli::Options& options, PrecisionFlags& flags) {
    options.group("Precision");
    options.flag("--fp16", &flags.fp16, "fp16 weights with fp32 masters; default fp32 throughout");
    options.flag("--bf16", &flags.bf16, "bf16 weights with fp32 masters");
}

spec::Precision resolve_precision(const PrecisionFlags& flags) {
    if (flags.fp16 && flags.bf16) usage_error("--bf16", "contradicts --fp16: give one of the two");
    if (flags.fp16) return {DType::fp16};
    if (flags.bf16) return {DType::bf16};
    return {DType::fp32};
}

void require_fp32(const spec::Precision& precision) {
    if (precision.weights != DType::fp32) {
        usage_error(precision.weights == DType::bf16 ? "--bf16" : "--fp16",
                    "lm-train computes in fp32 so far: leave it out");
    }
}

}  // namespace lm::config
