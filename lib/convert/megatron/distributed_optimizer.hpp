// SPDX-License-Identifier: Apache-2.0
// The state of Megatron's distributed optimizer in the order of its gradient buffers: the file
// distrib_optim.pt of the format "torch", and the forms dp_reshardable and dp_zero_gather_scatter
// of "torch_dist".
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "convert/megatron/dist_checkpoint.hpp"
#include "convert/megatron/megatron_import.hpp"

namespace lm::convert {

// The order of parameters in the gradient buffers of megatron-core, which is also the order of the
// state of its distributed optimizer (param_and_grad_buffer.py). A buffer is a sequence of buckets.
// Positions do not count the padding between buckets.

struct BufferParameter {
    std::string own;  // name in lm-utils; empty: a copy that is not imported
    std::vector<i64> shape;
    bool alone = false;  // has a bucket of its own: tied word embeddings of several stages
};

// Returns the sizes of the buckets. A bucket ends when it has `full` or more elements (0: no
// limit). A parameter with `alone` has its own bucket. `parameters` are in the order of the
// modules.
std::vector<i64> bucket_sizes(const std::vector<BufferParameter>& parameters, i64 full);
// Returns the position of each of `parameters` in buckets of the given sizes; nullopt when the
// parameters do not fill the buckets exactly.
std::optional<std::vector<i64>> buffer_positions(const std::vector<BufferParameter>& parameters,
                                                 const std::vector<i64>& buckets);

// The order of a layer's first parameters. norm_first: the norm before the attention, then the
// attention's output projection, then query, key and value. output_first: the output projection,
// the norm, query, key and value, as in layers with TransformerEngine's fused norm.
enum class NormOrder { norm_first, output_first };
// Finds the order of the parameters that megatron-core has used. For each possible order, calls
// `add`, which adds the state in this order to a copy of `import`, or returns false when the order
// is impossible. Replaces `import` by the first copy whose masters match its weights. Throws
// Error(failure) naming `path` when no copy matches.
void add_in_matching_order(MegatronImport& import, const std::string& path,
                           const std::function<bool(MegatronImport& copy, NormOrder order)>& add);

// One kind of state of all parameters of a buffer.
struct BufferState {
    ckpt::SliceKind kind = ckpt::SliceKind::master;
    Storage storage;
};
// Adds to `import` the state of the parameters of a tensor-parallel rank. In `state`, parameter i
// begins at positions[i] (see buffer_positions()).
void add_buffer(MegatronImport& import, const std::vector<BufferParameter>& parameters,
                const std::vector<i64>& positions, const BufferState& state, i64 tp_rank, i64 tp);

// The part of a model that one rank holds.
struct BufferChunk {
    i64 tp_rank = 0;
    i64 stage = 0;
    i64 chunk = 0;  // index of the chunk (virtual pipeline parallelism)
    i64 vocab_rows = 0;
};
// Returns the parameters of a chunk, in the order of megatron-core's modules.
std::vector<BufferParameter> chunk_parameters(const MegatronImport& import,
                                              const BufferChunk& chunk, NormOrder order);

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
