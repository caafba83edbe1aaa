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
    ResidualNormActivations mlp_norm;
    MlpActivations mlp;
};

// The activations of one micro-batch between its forward and its backward. Views of modules that
// the chunk does not have are none.
struct MicroBatchActivations {
    MicroBatchInputs inputs;
    EmbeddingActivations embedding;
    std::vector<LayerActivations> layers;
    ResidualNormActivations final_norm;  // without the head only its stream: the stage's output
    HeadActivations head;
};

struct ChunkActivations {
    // One for each micro-batch that the schedule has between forward and backward in this chunk
    // (cost::micro_batches_in_flight). Micro-batch i uses slot i % slots.size(), which is free
    // again after its backward and the send of its gradient (parallel/stage_transfers.hpp).
    std::vector<MicroBatchActivations> slots;
    Scratch scratch;
};

// One for each chunk of the stage that `plan` was made for.
std::vector<ChunkActivations> bind_activations(const cost::ActivationPlan& plan,
                                               const device::Buffer& buffer);

}  // namespace lm::model
