// SPDX-License-Identifier: Apache-2.0
// How a model is cut over ranks, and in which precision it trains.
#include "base/error.hpp"
#include "config/model_flags.hpp"

namespace lm::config {
namespace {

void require_divides(i64 tp, i64 value, std::string_view what) {
    if (value % tp != 0) {
        usage_error("--tensor-model-parallel-size", "{} does not divide {} {}", tp, what, value);
    }
}

}  // namespace

void add_parallel_options(cli::Options& options, ParallelFlags& flags) {
    options.group("Parallel");
    options.value("--tensor-model-parallel-size", &flags.tensor, "N",
                  "ranks that share every layer");
    options.value("--pipeline-model-parallel-size", &flags.pipeline, "N",
                  "pipeline stages, each with its share of the layers");
}

spec::ParallelConfig resolve_parallel(const ParallelFlags& flags, const ModelFlags& model_flags,
                                      const spec::ModelConfig& model) {
    const i64 tp = flags.tensor;
    if (tp < 1) usage_error("--tensor-model-parallel-size", "{} is not at least 1", tp);
    if (flags.pipeline < 1) {
        usage_error("--pipeline-model-parallel-size", "{} is not at least 1", flags.pipeline);
    }
    require_divides(tp, model.n_heads, "--num-attention-heads");
    require_divides(tp, model.n_groups, "--num-query-groups");
    require_divides(tp, model.ffn_hidden, "--ffn-hidden-size");
    if (flags.pipeline > model.n_layers) {
        usage_error("--pipeline-model-parallel-size", "{} stages are more than --num-layers {}",
                    flags.pipeline, model.n_layers);
    }
    spec::ParallelConfig parallel;
    parallel.tp = tp;
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
