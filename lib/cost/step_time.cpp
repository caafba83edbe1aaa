// SPDX-License-Identifier: Apache-2.0
#include "cost/step_time.hpp"

#include <algorithm>

#include "base/as_double.hpp"
#include "cost/formulas.hpp"
#include "cost/pipeline_time.hpp"

namespace lm::cost {

using namespace spec;
namespace {

// The seconds of one micro-batch on one GPU.
struct MicroBatch {
    double compute_s = 0;
    double tensor_s = 0;
    double total() const { return compute_s + tensor_s; }
};

// Returns the seconds of the matrix products of a stage. A backward pass has twice the operations
// of its forward pass, and full recomputation adds another forward pass (arXiv 2104.04473,
// appendix). Selective recomputation has no products with weights and is not counted. The stage
// with the head also computes the product with the output projection.
double compute_seconds(const ModelConfig& model, const ParallelConfig& parallel,
                       const StepBatch& batch, const GpuNode& gpu, double n_layers, bool has_head) {
    const bool recompute = parallel.recompute.granularity == Recompute::Granularity::full;
    const double layers =
        iteration_flops(model, 0, batch.micro_batch, batch.seq_length, recompute) * n_layers /
        as_double(model.n_layers);
    const double rows = as_double(batch.micro_batch) * as_double(batch.seq_length);
    const double head =
        has_head ? 6 * rows * as_double(model.hidden) * as_double(padded_vocab(model, parallel))
                 : 0;
    return (layers + head) / (as_double(parallel.tp) * gpu.flops_per_s);
}

// Returns the seconds of tensor-parallel communication. Each pass of a layer has two all-reduces of
// its rows (arXiv 1909.08053, section 3), or with sequence parallelism a reduce-scatter and an
// all-gather of the same bytes (arXiv 2205.05198, section 4.2.2). A ring of n ranks moves 2 (n - 1)
// / n times the bytes.
double tensor_seconds(const ModelConfig& model, const ParallelConfig& parallel,
                      const StepBatch& batch, const GpuNode& gpu, double n_layers) {
    const bool recompute = parallel.recompute.granularity == Recompute::Granularity::full;
    const double n = as_double(parallel.tp);
    const double bytes = as_double(batch.micro_batch) * as_double(batch.seq_length) *
                         as_double(model.hidden) * as_double(batch.element_bytes);
    const double n_passes = recompute ? 3 : 2;
    return n_passes * 2 * n_layers * 2 * (n - 1) / n * bytes / gpu.node_bytes_per_s;
}

// Returns the seconds of data-parallel communication after the backward passes: an all-reduce of
// fp32 gradients, or with ZeRO stage 1 their reduce-scatter and the all-gather of weights (arXiv
// 1910.02054, section 7). Both are rings (arXiv 2104.04473, section 3.3.1). Tensor ranks are
// adjacent, so a data-parallel group is in one node if the node has at least tp * dp GPUs.
double data_seconds(const ModelConfig& model, const ParallelConfig& parallel,
                    const StepBatch& batch, const GpuNode& gpu) {
    const double n = as_double(parallel.dp);
    const double elements = as_double(rank_parameters(model, parallel, 0, 0));
    const double bytes =
        elements * (parallel.zero_stage == 1 ? 4 + as_double(batch.element_bytes) : 2 * 4);
    const bool in_node = parallel.tp * parallel.dp <= gpu.n_gpus;
    return (n - 1) / n * bytes / (in_node ? gpu.node_bytes_per_s : gpu.network_bytes_per_s);
}

// Returns the times of the slowest stage, which the other stages wait for.
MicroBatch slowest_stage(const ModelConfig& model, const ParallelConfig& parallel,
                         const StepBatch& batch, const GpuNode& gpu) {
    MicroBatch slowest;
    for (i64 stage = 0; stage < parallel.pp; ++stage) {
        const double n_layers = as_double(stage_layers(model, parallel, stage));
        const bool has_head = stage == parallel.pp - 1;
        const MicroBatch here{compute_seconds(model, parallel, batch, gpu, n_layers, has_head),
                              tensor_seconds(model, parallel, batch, gpu, n_layers)};
        if (here.total() > slowest.total()) slowest = here;
    }
    return slowest;
}

}  // namespace

StepTime step_time(const ModelConfig& model, const ParallelConfig& parallel, const StepBatch& batch,
                   const GpuNode& gpu) {
    const MicroBatch slowest = slowest_stage(model, parallel, batch, gpu);
    const double n = as_double(batch.n_micro_batches);
    StepTime time;
    time.compute_s = n * slowest.compute_s;
    time.tensor_s = n * slowest.tensor_s;
    // Messages overlap with computation, except while the pipeline fills and drains.
    const PipelineShape shape{parallel.pp, parallel.n_chunks, batch.n_micro_batches};
    const double message = as_double(batch.micro_batch) * as_double(batch.seq_length) *
                           as_double(model.hidden) * as_double(batch.element_bytes);
    const bool in_node = parallel.tp * parallel.dp * parallel.pp <= gpu.n_gpus;
    time.bubble_s = (time.compute_s + time.tensor_s) * pipeline_bubble(shape) +
                    2 * as_double(parallel.pp - 1) * message /
                        (in_node ? gpu.node_bytes_per_s : gpu.network_bytes_per_s);
    time.data_s = data_seconds(model, parallel, batch, gpu);
    return time;
}

}  // namespace lm::cost
