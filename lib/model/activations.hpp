// SPDX-License-Identifier: Apache-2.0
// The activations of a model chunk: views into one buffer, placed by the plan of cost/memory.hpp.
#pragma once

#include <vector>

#include "cost/memory.hpp"
#include "device/device.hpp"
#include "model/attention.hpp"
#include "model/embedding.hpp"
#include "model/head.hpp"
#include "model/mlp.hpp"
#include "model/residual_norm.hpp"

namespace lm::model {

struct LayerActivations {
    ResidualNormActivations attention_norm;
    AttentionActivations attention;
    ResidualNormActivations attention_output_norm;
    View middle;  // [R, C] compute: the residual stream after the addition of attention's branch
    // `stream`: `middle`, or with a parallel residual attention_norm.stream.
    ResidualNormActivations mlp_norm;
    MlpActivations mlp;
    ResidualNormActivations mlp_output_norm;
};

// The activations of one micro-batch, between its forward and its backward. If the chunk does not
// have a module, the views of this module are none.
struct MicroBatchActivations {
    MicroBatchInputs inputs;
    EmbeddingActivations embedding;
    std::vector<LayerActivations> layers;
    ResidualNormActivations
        final_norm;  // without the head only `stream` is used: the stage's output
    HeadActivations head;
};

struct ChunkActivations {
    // There are as many slots as micro-batches that can be between their forward and their backward
    // in this chunk at the same time (cost::micro_batches_in_flight). Micro-batch i uses slot i %
    // slots.size(). The slot is free again after the micro-batch's backward and after the gradient
    // of its input is sent (parallel/stage_transfers.hpp).
    std::vector<MicroBatchActivations> slots;
    Scratch scratch;
};

// Returns the activations of each chunk of a stage: views into `buffer`, placed by the stage's
// `plan`.
std::vector<ChunkActivations> bind_activations(const cost::ActivationPlan& plan,
                                               const device::Buffer& buffer);

}  // namespace lm::model
