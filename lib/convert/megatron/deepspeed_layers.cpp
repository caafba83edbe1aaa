// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/deepspeed_layers.hpp"

#include <algorithm>
#include <regex>
#include <set>

#include "base/error.hpp"
#include "convert/megatron/megatron_names.hpp"
#include "io/file.hpp"

namespace lm::convert {

DeepspeedLayers DeepspeedLayers::open(const std::string& step) {
    static const std::regex pattern(R"(layer_(\d{1,6})(?:-model_(\d{1,6}))?-model_states\.pt)");
    DeepspeedLayers layers;
    layers.step_ = step;
    std::set<i64> numbers;
    for (const std::string& name : io::list_directory(step)) {
        std::smatch match;
        if (!std::regex_match(name, match, pattern)) continue;
        const i64 layer = std::stoll(match[1].str());
        const i64 rank = match[2].matched ? std::stoll(match[2].str()) : 0;
        layers.files_[{layer, rank}] = step + "/" + name;
        layers.tp_ = std::max(layers.tp_, rank + 1);
        numbers.insert(layer);
    }
    if (numbers.empty()) {
        run_error(step, "has no layer files (layer_NN-model_NN-model_states.pt)");
    }
    layers.layers_.assign(numbers.begin(), numbers.end());
    return layers;
}

std::string DeepspeedLayers::file(i64 layer, i64 tp_rank) const {
    const auto found = files_.find({layer, tp_rank});
    if (found == files_.end()) {
        run_error(step_, "layer {} of tensor rank {} is missing: expected {} tensor ranks", layer,
                  tp_rank, tp_);
    }
    return found->second;
}

void DeepspeedLayers::learn(i64 layer, const std::vector<std::string>& names) {
    LayerRole role;
    const auto has = [&](std::string_view start) {
        return std::ranges::any_of(
            names, [&](const std::string& name) { return name.starts_with(start); });
    };
    if (has("self_attention.") || has("attention.")) {
        role = {Role::transformer, n_transformer_++};
    } else if (n_transformer_ > 0 && has("lm_head.")) {
        role.role = Role::head;
    } else if (n_transformer_ > 0) {
        role.role = Role::norm;
    }
    roles_[layer] = role;
}

std::string DeepspeedLayers::own_name(i64 layer, const std::string& name, bool gated) const {
    const auto found = roles_.find(layer);
    if (found == roles_.end()) return {};
    switch (found->second.role) {
        case Role::transformer: {
            const std::string own = megatron_layer_name(name, gated);
            return own.empty() ? own : fmt::format("layers.{}.{}", found->second.number, own);
        }
        case Role::norm:
            if (name == "weight" || name == "bias") return "final_norm." + name;
            return megatron_outer_name(name);
        default:
            return megatron_outer_name(name);
    }
}

}  // namespace lm::convert
