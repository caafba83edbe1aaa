// SPDX-License-Identifier: Apache-2.0
#include "model/params.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace lm::model {

ParamMap::ParamMap(const spec::ModelConfig& config, const spec::ParallelConfig& parallel,
                   i64 tp_rank, i64 pp_rank)
    : config_(config),
      table_(spec::tensor_table(config)),
      layout_(spec::rank_layout(config, table_, parallel, tp_rank, pp_rank)) {
    for (i64 chunk = 0; chunk < parallel.n_chunks; ++chunk) {
        parts_.push_back(spec::model_part(config, parallel, pp_rank, chunk));
    }
}

View ParamMap::view_of(const spec::LocalTensor& local, const View& flat) const {
    return flat.rows(local.offset, local.end()).reshape(local.shape);
}

View ParamMap::find(std::string_view name, const View& flat) const {
    for (const spec::LocalTensor& local : layout_.tensors) {
        if (spec_of(local).name == name) return view_of(local, flat);
    }
    return {};
}

View ParamMap::block(std::string_view name, const View& flat) const {
    const spec::LocalTensor* first = nullptr;
    const spec::LocalTensor* last = nullptr;
    i64 rows = 0;
    for (const spec::LocalTensor& local : layout_.tensors) {
        if (spec_of(local).block != name) continue;
        if (!first) first = &local;
        last = &local;
        rows += local.shape[0];
    }
    if (!first) return {};
    Shape shape = first->shape;
    shape[0] = rows;
    return flat.rows(first->offset, last->end()).reshape(shape);
}

Params ParamMap::bind(const View& flat, i64 chunk) const {
    const spec::ModelPart& part = parts_[static_cast<size_t>(chunk)];
    Params params;
    params.word = find("embedding.word.weight", flat);
    params.position = find("embedding.position.weight", flat);
    params.embedding_norm_weight = find("embedding.norm.weight", flat);
    params.embedding_norm_bias = find("embedding.norm.bias", flat);
    const std::string up = spec::is_gated(config_.activation) ? "mlp.gate_up" : "mlp.up";
    for (i64 layer = part.first_layer; layer < part.end_layer; ++layer) {
        const auto tensor = [&](std::string_view name) {
            return find(fmt::format("layers.{}.{}", layer, name), flat);
        };
        const auto tensors = [&](std::string_view name) {
            return block(fmt::format("layers.{}.{}", layer, name), flat);
        };
        params.layers.push_back({
            .attention_norm_weight = tensor("attention.norm.weight"),
            .attention_norm_bias = tensor("attention.norm.bias"),
            .qkv_weight = tensors("attention.qkv.weight"),
            .qkv_bias = tensors("attention.qkv.bias"),
            .output_weight = tensor("attention.output.weight"),
            .output_bias = tensor("attention.output.bias"),
            .mlp_norm_weight = tensor("mlp.norm.weight"),
            .mlp_norm_bias = tensor("mlp.norm.bias"),
            .up_weight = tensors(up + ".weight"),
            .up_bias = tensors(up + ".bias"),
            .down_weight = tensor("mlp.down.weight"),
            .down_bias = tensor("mlp.down.bias"),
        });
    }
    params.final_norm_weight = find("final_norm.weight", flat);
    params.final_norm_bias = find("final_norm.bias", flat);
    params.head = config_.untied_head ? find("head.weight", flat) : params.word;
    return params;
}

}  // namespace lm::model
