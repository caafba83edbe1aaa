// SPDX-License-Identifier: Apache-2.0
// The layer files of a DeepSpeed pipeline: their names, and the role of each layer. The numbers of
// layers differ between versions of Megatron-DeepSpeed, so the role follows from the names of the
// tensors in the file.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "convert/torch/torch_file.hpp"

namespace lm::convert {

class DeepspeedLayers {
  public:
    // Lists the layer files of the step directory. Throws Error(failure) when the directory has
    // none.
    static DeepspeedLayers open(const std::string& step);

    i64 tp() const { return tp_; }
    const std::vector<i64>& layers() const { return layers_; }  // ascending
    // Returns the path of a layer file. Throws Error(failure) when the rank lacks the layer.
    std::string file(i64 layer, i64 tp_rank) const;
    // Sets the role of a layer from the `names` of its tensors. Call it for all layers in order,
    // before own_name().
    void learn(i64 layer, const std::vector<std::string>& names);
    // Returns the name that tensor `name` of a layer has in lm-utils; an empty text when `name` is
    // unknown.
    std::string own_name(i64 layer, const std::string& name, bool gated) const;
    i64 n_transformer_layers() const { return n_transformer_; }

  private:
    enum class Role { outer, transformer, norm, head };
    struct LayerRole {
        Role role = Role::outer;
        i64 number = 0;  // index among the transformer layers
    };

    std::string step_;
    i64 tp_ = 1;
    std::vector<i64> layers_;
    std::map<std::pair<i64, i64>, std::string> files_;  // by layer and tensor rank
    std::map<i64, LayerRole> roles_;
    i64 n_transformer_ = 0;
};

}  // namespace lm::convert
