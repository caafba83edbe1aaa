// SPDX-License-Identifier: Apache-2.0
// A rank's parameters: views into one flat buffer, found by the names of the tensor table. The
// buffers of weights, gradients and Adam's moments have the same layout, so ParamMap::bind() works
// for all of them.
#pragma once

#include <string_view>
#include <vector>

#include "device/device.hpp"
#include "model/attention.hpp"
#include "model/embedding.hpp"
#include "model/head.hpp"
#include "model/mlp.hpp"
#include "model/residual_norm.hpp"
#include "spec/rank_layout.hpp"

namespace lm::model {

struct LayerParams {
    // The norms of the inputs and of the outputs; none where spec::NormPlacement has none.
    NormParams attention_norm;
    AttentionParams attention;
    NormParams attention_output_norm;
    NormParams mlp_norm;
    MlpParams mlp;
    NormParams mlp_output_norm;
};

// The parameters of one chunk. If the chunk does not have a module, the views of this module are
// empty.
struct Params {
    EmbeddingParams embedding;
    std::vector<LayerParams> layers;
    NormParams final_norm;
    HeadParams head;  // its weight is embedding.word when tied
};

// Finds the tensors that a rank holds. Contains the table of all tensors and the rank's layout.
class ParamMap {
  public:
    ParamMap(const spec::ModelConfig& config, const spec::ParallelConfig& parallel, i64 tp_rank,
             i64 pp_rank);

    const std::vector<spec::TensorSpec>& table() const { return table_; }
    const spec::RankLayout& layout() const { return layout_; }
    const spec::TensorSpec& spec_of(const spec::LocalTensor& local) const {
        return table_[static_cast<size_t>(local.index)];
    }

    // Returns the parameters of the stage's chunk number `chunk`. flat: [layout().n_elements], any
    // dtype.
    Params bind(const View& flat, i64 chunk = 0) const;
    // Returns the view of one tensor, [local.shape] in the dtype of `flat`. flat:
    // [layout().n_elements] of any dtype.
    View view_of(const spec::LocalTensor& local, const View& flat) const;

  private:
    // These functions return empty views for tensors that the rank does not have. find_block()
    // returns several adjacent tensors as one view. flat: [layout().n_elements] of any dtype.
    View find(std::string_view name, const View& flat) const;
    View find_block(std::string_view name, const View& flat) const;
    NormParams find_norm(const std::string& name, const View& flat) const;
    LayerParams bind_layer(i64 layer, const View& flat) const;

    spec::ModelConfig config_;
    std::vector<spec::ModelPart> parts_;  // one for each chunk of the stage
    std::vector<spec::TensorSpec> table_;
    spec::RankLayout layout_;
};

}  // namespace lm::model
