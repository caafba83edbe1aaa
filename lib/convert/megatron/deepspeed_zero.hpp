// SPDX-License-Identifier: Apache-2.0
// Reads the ZeRO files of DeepSpeed (stages 1 and 2, runtime/zero/stage_1_and_2.py, and its bf16
// optimizer, runtime/bf16_optimizer.py): flat fp32 partitions of each data-parallel rank. A
// parameter is the sequence of its fragments over the ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ckpt/format/index.hpp"
#include "convert/source_tensor.hpp"
#include "convert/torch/torch_file.hpp"
#include "io/json.hpp"

namespace lm::convert {

using AddParameter = std::function<void(ckpt::SliceKind kind, const SourceTensor& tensor)>;
// Counters of the optimizer.
struct ZeroState {
    i64 steps = -1;       // steps of Adam; -1: not stated
    io::Json loss_scale;  // in the form of lm-utils' manifest; null: none
};
// Calls `add` for the fp32 value and the moments of each parameter of the model-parallel rank
// `mp_rank`. `model`: the file mp_rank_NN_model_states.pt of this rank. Returns nullopt when the
// directory `step` has no ZeRO files. Throws Error(failure) naming the file when a fragment is
// missing.
std::optional<ZeroState> read_zero(const std::string& step, i64 mp_rank, const TorchFile& model,
                                   const AddParameter& add);
// Reads the state of a dynamic loss scaler from the optimizer's state. Returns the state in the
// form of a manifest of lm-utils; null when there is no dynamic loss scaler. A constant loss scale
// is a flag of the training, not a part of its state.
io::Json deepspeed_loss_scale(const PickleValue& state, const TorchFile& file);

}  // namespace lm::convert
