// SPDX-License-Identifier: Apache-2.0
// The state of Megatron's distributed optimizer in the order of its gradient buffers: the file
// distrib_optim.pt of the format "torch", and the forms dp_reshardable and dp_zero_gather_scatter
// of "torch_dist".
#pragma once

#include "convert/megatron/dist_checkpoint.hpp"
#include "convert/megatron/grad_buffer.hpp"

namespace lm::convert {

// Adds the optimizer state of one model-parallel rank. `file`: the rank's distrib_optim.pt. `root`:
// the root object of `file`. `chunks`: the parameters of each chunk of the model. Returns false
// when the buffers and the parameters do not have the same number of elements.
bool add_gathered_state(MegatronImport& import, const PickleValue& root, const TorchFile& file,
                        const std::vector<std::vector<BufferParameter>>& chunks, i64 tp_rank,
                        i64 stage);

// Adds the optimizer state and the number of steps of a checkpoint of the format "torch_dist".
// `vocab_rows`: the number of rows of the checkpoint's word embedding. Returns false when the
// checkpoint has no state in gradient buffers.
bool add_sharded_buffers(MegatronImport& import, const DistCheckpoint& checkpoint, i64 vocab_rows);

// Searches the nested state of an optimizer for the number of steps. Returns the first such number;
// nullopt when there is none.
std::optional<i64> optimizer_steps(const PickleValue& state, const TorchFile& file);

}  // namespace lm::convert
