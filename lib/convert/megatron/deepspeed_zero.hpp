// SPDX-License-Identifier: Apache-2.0
// The ZeRO files of DeepSpeed (stages 1 and 2, and its bf16 optimizer): flat fp32 partitions of
// each data-parallel rank. A parameter is the sequence of its fragments over the ranks.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "ckpt/index.hpp"
#include "convert/source_tensor.hpp"
#include "convert/torch/torch_file.hpp"
#include "io/json.hpp"

namespace lm::convert {

using AddParameter = std::function<void(ckpt::SliceKind kind, const SourceTensor& tensor)>;
// Counters of the optimizer.
struct ZeroState {
    i64 steps = -1;       // steps of Adam; -1: not stated
    io::Json loss_scale;  // as in a manifest of lm-utils; null: none
};
// Calls `add` for the fp32 value and the moments of each parameter of the model-parallel rank
// `mp_rank`, whose file mp_rank_NN_model_states.pt is `model`. Returns nullopt when the directory
// `step` has no ZeRO files. Throws Error(failure) naming the file when a fragment is missing.
std::optional<ZeroState> read_zero(const std::string& step, i64 mp_rank, const TorchFile& model,
                                   const AddParameter& add);

}  // namespace lm::convert
