// SPDX-License-Identifier: Apache-2.0
// A rank's parameters as the model uses them: views into one flat buffer, found by the names of the
// tensor table. Weights, gradients and Adam's moments are four buffers of one layout, so one
// binding serves all of them.
#pragma once

#include <string_view>
#include <vector>

#include "device/device.hpp"
#include "spec/rank_layout.hpp"

namespace lm::model {

using device::View;

struct LayerParams {
    View attention_norm_weight, attention_norm_bias;  // [C]
    View qkv_weight, qkv_bias;                        // [(H+2G)*D, C], [(H+2G)*D]
    View output_weight, output_bias;                  // [C, H*D], [C]
    View mlp_norm_weight, mlp_norm_bias;              // [C]
    View up_weight, up_bias;                          // [F, C], [F]; gate above up: [2F, C], [2F]
    View down_weight, down_bias;                      // [C, F], [C]
};

struct Params {
    View word;                                        // [V padded, C]
    View position;                                    // [P, C]
    View embedding_norm_weight, embedding_norm_bias;  // [C]
    std::vector<LayerParams> layers;
    View final_norm_weight, final_norm_bias;  // [C]
    View head;  // [V padded, C], the output projection; `word` itself when tied
};

// The parts of the model that a rank holds: table, layout, and tensors by name.
class ParamMap {
  public:
    ParamMap(const spec::ModelConfig& config, const spec::ParallelConfig& parallel, i64 tp_rank,
             i64 pp_rank);

    const std::vector<spec::TensorSpec>& table() const { return table_; }
    const spec::RankLayout& layout() const { return layout_; }
    const spec::TensorSpec& spec_of(const spec::LocalTensor& local) const {
        return table_[static_cast<size_t>(local.index)];
    }

    // The tensors of the stage's chunk number `chunk`, its layers counted from 0. `flat` is
    // [layout().n_elements] of any dtype.
    Params bind(const View& flat, i64 chunk = 0) const;
    View view_of(const spec::LocalTensor& local, const View& flat) const;

  private:
    View find(std::string_view name, const View& flat) const;  // a tensor, or none
    View block(std::string_view name,
               const View& flat) const;  // the tensors of a block as one, or none

    spec::ModelConfig config_;
    std::vector<spec::ModelPart> parts_;  // of the stage's chunks
    std::vector<spec::TensorSpec> table_;
    spec::RankLayout layout_;
};

}  // namespace lm::model
