// SPDX-License-Identifier: Apache-2.0
#include "cost/step_time.hpp"

#include <algorithm>

#include "base/types.hpp"
#include "cost/activation_plan.hpp"
#include "cost/formulas.hpp"

namespace lm::cost {

using namespace spec;
namespace {

// Returns the passes of one micro-batch on each virtual stage. Index: chunk * pp + stage.
std::vector<Passes> virtual_stages(const SimulatedStep& step, const Hardware& gpu,
                                   const TrainingProgram& trainer) {
    const Recompute& recompute = step.parallel.recompute;
    const bool full = recompute.granularity == Recompute::Granularity::full;
    ParallelConfig stores = step.parallel;
    stores.recompute = {};
    struct Kind {
        Passes layer;   // with recomputation
        Passes stored;  // of a layer whose activations are stored
    };
    const std::vector<LayerConfig> configs = layer_kinds(step.model);
    std::vector<Kind> kinds;
    for (const LayerConfig& layer : configs) {
        kinds.push_back({layer_passes(step.model, layer, step.parallel, step.batch, gpu, trainer),
                         layer_passes(step.model, layer, stores, step.batch, gpu, trainer)});
    }
    std::vector<Passes> stages;
    stages.reserve(static_cast<size_t>(step.parallel.n_parts()));
    for (const ModelPart& part : model_parts(step.model, step.parallel)) {
        // Full recomputation recomputes the first layers of a part and stores the others.
        const i64 first_stored =
            full ? part.first_layer + n_recomputed_layers(recompute, part.n_layers())
                 : part.end_layer;
        std::vector<i64> n(kinds.size()), n_stored(kinds.size());
        for (i64 i = part.first_layer; i < part.end_layer; ++i) {
            const auto kind = static_cast<size_t>(index_of(configs, step.model.layer(i)));
            ++(i < first_stored ? n : n_stored)[kind];
        }
        Passes passes;
        for (size_t i = 0; i < kinds.size(); ++i) {
            passes += kinds[i].layer * as_double(n[i]);
            passes += kinds[i].stored * as_double(n_stored[i]);
        }
        if (part.embedding) passes += embedding_passes(step.model, step.batch, gpu);
        if (part.head) passes += head_passes(step.model, step.parallel, step.batch, gpu);
        stages.push_back(passes);
    }
    return stages;
}

bool is_in_node(const Hardware& gpu, i64 ranks) {
    return ranks <= gpu.gpus_per_node;
}

// Returns the seconds of a message between the slowest pair of adjacent stages. Each tensor rank
// sends its part of the rows. All GPUs of a stage send at the same time; the GPUs of a node share
// its network.
double message_s(const SimulatedStep& step, const Hardware& gpu) {
    const ParallelConfig& parallel = step.parallel;
    if (parallel.pp == 1) return 0;
    const double bytes = as_double(step.batch.micro_batch * step.batch.seq_length *
                                   step.model.hidden * size_of(step.batch.dtype)) /
                         as_double(parallel.tp);
    const bool in_node = is_in_node(gpu, parallel.n_ranks());
    const i64 senders = std::min(gpu.gpus_per_node, parallel.tp * parallel.dp);
    const RankGroup pair{
        .n = 2, .per_node = in_node ? 2.0 : 1.0, .sharing = in_node ? 1.0 : as_double(senders)};
    return bytes / link_rate(gpu, pair) + (in_node ? gpu.node : gpu.network).latency_s;
}

// The seconds of the collectives of data parallelism.
struct DataTime {
    double reduce_s = 0;  // all-reduce or reduce-scatter of gradients
    double tied_s = 0;    // all-reduce of the gradients of a tied embedding
    double gather_s = 0;  // all-gather of weights
    double total() const { return reduce_s + tied_s + gather_s; }
};

// Returns the seconds of an all-reduce of gradients; with ZeRO stage 1, of a reduce-scatter of
// gradients and an all-gather of weights (arXiv 1910.02054, section 7). Tensor ranks are adjacent,
// then data-parallel ranks. The groups of a node share its network. The first and the last stage
// add the gradients of a tied embedding.
DataTime data_time(const SimulatedStep& step, const Hardware& gpu, const TrainingProgram& trainer) {
    const ParallelConfig& parallel = step.parallel;
    const double of_node = as_double(gpu.gpus_per_node);
    const double in_a_node =
        std::clamp(of_node / as_double(parallel.tp), 1.0, as_double(parallel.dp));
    const RankGroup group{.n = as_double(parallel.dp),
                          .per_node = in_a_node,
                          .sharing = std::max(1.0, of_node / in_a_node)};
    const double gradients = as_double(trainer.gradient_bytes) * step.elements;
    DataTime time;
    if (parallel.zero_stage == 1) {
        const double weights = as_double(size_of(step.batch.dtype)) * step.elements;
        time.reduce_s = ring_seconds(gpu, group, gradients);
        time.gather_s = ring_seconds(gpu, group, weights);
    } else {
        time.reduce_s = all_reduce_seconds(gpu, group, gradients);
    }
    if (parallel.pp > 1 && !step.model.untied_head) {
        const bool in_node = is_in_node(gpu, parallel.n_ranks());
        const RankGroup ends{.n = 2, .per_node = in_node ? 2.0 : 1.0, .sharing = of_node};
        const i64 rows = padded_vocab(step.model, parallel) / parallel.tp;
        time.tied_s = all_reduce_seconds(
            gpu, ends, as_double(rows * step.model.hidden * trainer.gradient_bytes));
    }
    return time;
}

// Returns the seconds of the optimizer, which reads the gradient twice (norm and update), reads and
// writes the master and its states, and writes the weight.
double optimizer_s(const SimulatedStep& step, const Hardware& gpu) {
    const double share = step.parallel.zero_stage == 1 ? as_double(step.parallel.dp) : 1;
    i64 bytes = 4 * size_of(DType::fp32) + size_of(step.batch.dtype);
    for (const OptimizerState& state : states_of(step.optimizer)) bytes += 2 * size_of(state.dtype);
    return stream_seconds(gpu, step.elements / share * as_double(bytes));
}

// The times that step_time() and quick_step_time() both use.
struct Parts {
    std::vector<Passes> stages;  // virtual stages
    double message_s = 0;
    PipelineDurations durations;
    PassTime busiest;              // all chunks of the busiest stage, all micro-batches
    double busiest_s = 0;          // busiest.total() plus the messages that the stage waits for
    double one_micro_batch_s = 0;  // forward and backward through all virtual stages
};

Parts parts_of(const SimulatedStep& step, const Hardware& gpu, const TrainingProgram& trainer) {
    Parts parts{.stages = virtual_stages(step, gpu, trainer),
                .message_s = message_s(step, gpu),
                .durations = {}};
    // If messages do not overlap with computation, the time of one message prolongs each pass. In
    // the 1F1B phase a stage exchanges two messages with its neighbor after each pass: it sends its
    // result and receives the input of the next pass. Both directions of a link work at the same
    // time (Megatron-LM: send_forward_recv_backward()). While the pipeline fills and drains, the
    // receive of a message is the send of the previous stage, so it counts once, too.
    const double wait_s = trainer.overlaps_messages ? 0 : parts.message_s;
    parts.durations.passes.clear();
    parts.durations.message_s = trainer.overlaps_messages ? parts.message_s : 0;
    const i64 pp = step.parallel.pp;
    for (const Passes& stage : parts.stages) {
        parts.durations.passes.push_back(
            {stage.forward.total() + wait_s, stage.backward.total() + wait_s});
        parts.one_micro_batch_s += parts.durations.passes.back().forward_s +
                                   parts.durations.passes.back().backward_s +
                                   2 * parts.durations.message_s;
    }
    for (i64 stage = 0; stage < pp; ++stage) {
        PassTime busy;
        for (i64 chunk = 0; chunk < step.parallel.n_chunks; ++chunk) {
            const Passes& passes = parts.stages[static_cast<size_t>(chunk * pp + stage)];
            busy += passes.forward;
            busy += passes.backward;
        }
        if (busy.total() > parts.busiest.total()) parts.busiest = busy;
    }
    const double n = as_double(step.batch.n_micro_batches);
    parts.busiest_s = n * (parts.busiest.total() + 2 * wait_s * as_double(step.parallel.n_chunks));
    parts.busiest = parts.busiest * n;
    return parts;
}

StepTime time_of(const SimulatedStep& step, const Hardware& gpu, const TrainingProgram& trainer,
                 const Parts& parts, double pipeline_s) {
    const DataTime data = data_time(step, gpu, trainer);
    StepTime time{.busiest = parts.busiest,
                  .messages_s = parts.busiest_s - parts.busiest.total(),
                  .bubble_s = pipeline_s - parts.busiest_s,
                  .data_s = data.total(),
                  .optimizer_s = optimizer_s(step, gpu),
                  .tied_s = data.tied_s,
                  .gather_s = data.gather_s};
    if (step.overlaps_data && trainer.overlaps_messages) {
        // Gradients are reduced during the last backward pass. Only half of this pass hides the
        // reduction, because the gradients of the first layers are complete only at its end.
        const double hidden_s = parts.durations.passes[0].backward_s / 2;
        time.data_s = std::max(0.0, time.data_s - hidden_s);
        time.gather_s = std::min(time.gather_s, time.data_s);
        time.tied_s = std::min(time.tied_s, time.data_s - time.gather_s);
    }
    return time;
}

}  // namespace

double largest_rank_parameters(const ModelConfig& model, const ParallelConfig& parallel) {
    const RankElements elements = rank_elements(model, parallel, 0);
    const std::vector<ModelPart> all = model_parts(model, parallel);
    i64 most = 0;
    for (i64 stage = 0; stage < parallel.pp; ++stage)
        most = std::max(most, elements.of(stage_parts(all, parallel, stage)).tensors);
    return as_double(most);
}

StepTime step_time(const SimulatedStep& step, const Hardware& gpu, const TrainingProgram& trainer,
                   std::vector<PipelineEvent>* events) {
    const Parts parts = parts_of(step, gpu, trainer);
    const PipelineShape shape{step.parallel.pp, step.parallel.n_chunks, step.batch.n_micro_batches};
    return time_of(step, gpu, trainer, parts, pipeline_time(shape, parts.durations, events));
}

StepTime quick_step_time(const SimulatedStep& step, const Hardware& gpu,
                         const TrainingProgram& trainer) {
    const Parts parts = parts_of(step, gpu, trainer);
    const double busiest_s = parts.busiest_s / as_double(step.batch.n_micro_batches);
    const double fill_s = parts.one_micro_batch_s - busiest_s;
    return time_of(step, gpu, trainer, parts,
                   parts.busiest_s + fill_s / as_double(step.parallel.n_chunks));
}

}  // namespace lm::cost
