// SPDX-License-Identifier: Apache-2.0
#include "step_report.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/log.hpp"
#include "base/types.hpp"
#include "base/units.hpp"
#include "cost/formulas.hpp"
#include "cost/megatron_memory.hpp"
#include "cost/nccl.hpp"

namespace lm::estimate {
namespace {

// The memory of the fullest GPU.
struct Memory {
    i64 state = 0;
    i64 activations = 0;
    i64 other = 0;  // workspace, NCCL and the allowance
    i64 total() const { return state + activations + other; }
};

Memory memory_of(const StepQuery& query) {
    const cost::StepShape step{.micro_batch = query.micro_batch,
                               .seq_length = query.model.seq_length,
                               .n_micro_batches = query.n_micro_batches};
    if (query.is_megatron) {
        const auto memory =
            largest_megatron_memory(query.model, query.parallel, step, query.precision);
        return {memory.state, memory.activations, 0};
    }
    Memory largest;
    for (i64 stage = 0; stage < query.parallel.pp; ++stage) {
        const cost::MemoryPlan plan =
            plan_memory(query.model, query.parallel, step, query.precision,
                        {1, true, query.attention}, 0, stage);
        const i64 nccl = cost::nccl_bytes(query.model, query.parallel, stage, query.nccl);
        const Memory memory{plan.total() - plan.activations - plan.workspace, plan.activations,
                            plan.workspace + nccl + query.allowance_bytes};
        if (memory.total() > largest.total()) largest = memory;
    }
    return largest;
}

void warn_of_memory(const StepQuery& query, i64 bytes) {
    const i64 limit = query.gpu.memory_bytes;
    if (bytes <= limit) return;
    warn("memory: the fullest GPU needs {}, {} has {}: lm-estimate layout lists layouts that fit",
         human_size(bytes), query.gpu.name, human_size(limit));
}

Figure seconds(const char* key, const char* label, double value, std::string formula) {
    return {key, label, Unit::seconds, value, std::move(formula)};
}

}  // namespace

cost::StepTime simulate(const StepQuery& query, i64 batch,
                        std::vector<cost::PipelineEvent>* events) {
    const i64 n = std::max<i64>(1, batch / (query.micro_batch * query.parallel.dp));
    const cost::SimulatedStep step{
        .model = query.model,
        .parallel = query.parallel,
        .batch = {query.micro_batch, n, query.model.seq_length, query.precision.weights},
        .optimizer = query.precision.optimizer,
        .elements = cost::largest_rank_parameters(query.model, query.parallel),
        .overlaps_data = query.nccl.overlap};
    return step_time(step, query.gpu, query.trainer, events);
}

Figure model_flops_figure(const spec::ModelConfig& model) {
    return {"model_flops_per_token", "operations per token (model)", Unit::plain,
            cost::model_flops_per_token(model, model.seq_length),
            "forward and backward: 3 x 2 M N K of each product, and 6 L H D T for causal "
            "attention; MFU counts these"};
}

std::vector<Figure> step_figures(const StepQuery& query, const cost::StepTime& time) {
    const double step_s = time.total();
    const double tokens = as_double(query.global_batch) * as_double(query.model.seq_length);
    const double n_gpus = as_double(query.parallel.n_ranks());
    const double flops_per_token = cost::model_flops_per_token(query.model, query.model.seq_length);
    const double flops_per_s = flops_per_token * tokens / step_s / n_gpus;
    const Memory memory = memory_of(query);
    warn_of_memory(query, memory.total());
    const char* of_memory = query.is_megatron
                                ? "weights, fp32 gradients, masters and moments, and "
                                  "the activations of arXiv 2205.05198, "
                                  "sections 4 and 5, on the stage that needs most"
                                : "lm-train's plan, as lm-estimate memory prints it, with NCCL "
                                  "and --allowance for the driver and libraries";
    return {
        seconds("step_s", "one iteration", step_s,
                "at the full batch; the sum of the parts that --explain lists"),
        {"tokens_per_s", "tokens/s", Unit::count, static_cast<i64>(tokens / step_s),
         "--global-batch-size x --seq-length / step"},
        {"trainer", query.assumes_megatron ? "trainer (assumed: no --trainer lm-train)" : "trainer",
         Unit::plain, std::string(query.is_megatron ? "megatron" : "lm-train"),
         "set by --trainer, whose default in lm-estimate layout differs"},
        {"dtype", query.assumes_fp16 ? "format (assumed: no --bf16, --fp16)" : "format",
         Unit::plain, std::string(name_of(query.precision.weights)),
         "weights and activations: --bf16 or --fp16; without them, --trainer megatron assumes "
         "fp16, as in the published trainings, and --trainer lm-train fp32"},
        model_flops_figure(query.model),
        {"model_tflops", "TFLOP/s per GPU (model)", Unit::plain, flops_per_s / 1e12,
         "operations per token x tokens/s / --gpus"},
        {"mfu", "model FLOPs utilization", Unit::share,
         flops_per_s / query.gpu.flops(query.precision.weights),
         fmt::format("model TFLOP/s / peak of {}, {:.0f} TFLOP/s", query.gpu.name,
                     query.gpu.flops(query.precision.weights) / 1e12)},
        {"memory_bytes", "memory of the fullest GPU", Unit::bytes, memory.total(), of_memory},
        {"memory_state_bytes", "  weights and optimizer", Unit::bytes, memory.state,
         "including gradients"},
        {"memory_activation_bytes", "  activations", Unit::bytes, memory.activations, ""},
        {"fits", "fits", Unit::plain, memory.total() <= query.gpu.memory_bytes,
         fmt::format("memory <= {} of {}", human_size(query.gpu.memory_bytes), query.gpu.name)}};
}

std::vector<Figure> step_parts(const StepQuery& query, const cost::StepTime& time) {
    const bool in_node = query.parallel.tp <= query.gpu.gpus_per_node;
    return {
        seconds("products_s", "products with weights", time.busiest.products_s,
                fmt::format("bound by arithmetic: 2 M N K / ({:.3f} of the peak), less where tiles "
                            "leave SMs idle; by memory "
                            "where a matrix is small",
                            query.gpu.matmul_fraction)),
        seconds("attention_s", "attention", time.busiest.attention_s,
                query.trainer.fused_attention
                    ? "bound by arithmetic: causal products, five of them in the backward pass "
                      "(arXiv 2205.14135)"
                    : "bound by memory: 13 bytes per score in the forward pass and 17 in the "
                      "backward pass, and the products"),
        seconds("stream_s", "norms, activation functions, residuals", time.busiest.stream_s,
                fmt::format("bound by memory: bytes / ({:.3f} of the peak)",
                            query.gpu.memory_fraction)),
        seconds("tensor_s", "tensor parallelism", time.busiest.tensor_s,
                std::string("bound by ") + (in_node ? "the node's links" : "the network") +
                    ": 2 all-reduces of B T h in each pass of a layer (arXiv 1909.08053, section "
                    "3); on a ring, between nodes also on double binary trees where these are "
                    "faster"),
        seconds("host_s", "waiting for the host", time.busiest.host_s,
                "where the host starts kernels more slowly than the GPU runs them"),
        seconds("messages_s", "messages between stages", time.messages_s,
                "bound by the network; only those that do not overlap with computation"),
        seconds("bubble_s", "pipeline bubble", time.bubble_s,
                "idle time of the busiest stage in the pipeline schedule"),
        seconds(
            "data_s", "data parallelism", time.data_s,
            fmt::format(
                "bound by the network, {} links of a node: rings or trees over gradients; rings "
                "over gradients and weights with ZeRO stage 1",
                query.gpu.nics)),
        seconds(
            "optimizer_s", "optimizer", time.optimizer_s,
            "bound by memory: 32 bytes of each parameter and the bytes of its weight; with ZeRO "
            "stage 1 / data-parallel ranks"),
        seconds("total_s", "one iteration", time.total(), "the sum")};
}

}  // namespace lm::estimate
