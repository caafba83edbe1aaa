// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/deepspeed_layers.hpp"

#include <algorithm>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "convert/megatron/megatron_names.hpp"
#include "io/file.hpp"

namespace lm::convert {

namespace {

struct LayerFile {
    i64 layer = 0;
    i64 tp_rank = 0;
};

// Removes `text` and the number after it from the front of `name`. Returns the number; nullopt when
// `name` does not begin with them.
std::optional<i64> consume_numbered(std::string_view& name, std::string_view text) {
    if (!name.starts_with(text)) return {};
    name.remove_prefix(text.size());
    return consume_number(name);
}

// Parses layer_NN-model_MM-model_states.pt. With a single tensor rank, DeepSpeed
// (PipelineModule.ckpt_layer_path) omits -model_MM. NN has three digits for layers 100 and above.
std::optional<LayerFile> parse_layer_file(std::string_view name) {
    const std::optional<i64> layer = consume_numbered(name, "layer_");
    if (!layer) return {};
    const i64 tp_rank = consume_numbered(name, "-model_").value_or(0);
    if (name != "-model_states.pt") return {};
    return LayerFile{*layer, tp_rank};
}

}  // namespace

DeepspeedLayers DeepspeedLayers::open(const std::string& step) {
    DeepspeedLayers layers;
    layers.step_ = step;
    std::set<i64> numbers;
    for (const std::string& name : io::list_directory(step)) {
        const std::optional<LayerFile> file = parse_layer_file(name);
        if (!file) continue;
        layers.files_[{file->layer, file->tp_rank}] = step + "/" + name;
        layers.tp_ = std::max(layers.tp_, file->tp_rank + 1);
        numbers.insert(file->layer);
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
            break;
        case Role::outer:
        case Role::head:
            break;
    }
    return megatron_outer_name(name);
}

}  // namespace lm::convert
