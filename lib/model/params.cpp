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

// Returns the view of a tensor, or none when the rank does not have the tensor.
View ParamMap::find(std::string_view name, const View& flat) const {
    for (const spec::LocalTensor& local : layout_.tensors) {
        if (spec_of(local).name == name) return view_of(local, flat);
    }
    return {};
}

// Returns the tensors of a block (TensorSpec::block) as one view. These tensors are adjacent in
// memory, so that one GEMM multiplies them all. Returns none when the rank does not have them.
View ParamMap::find_block(std::string_view name, const View& flat) const {
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

NormParams ParamMap::find_norm(const std::string& name, const View& flat) const {
    return {.weight = find(name + ".weight", flat), .bias = find(name + ".bias", flat)};
}

LayerParams ParamMap::bind_layer(i64 layer, const View& flat) const {
    const auto name = [layer](std::string_view suffix) {
        return fmt::format("layers.{}.{}", layer, suffix);
    };
    const std::string up =
        spec::is_gated(config_.layer(layer).activation) ? "mlp.gate_up" : "mlp.up";
    return {.attention_norm = find_norm(name("attention.norm"), flat),
            .attention = {.qkv_weight = find_block(name("attention.qkv.weight"), flat),
                          .qkv_bias = find_block(name("attention.qkv.bias"), flat),
                          .output_weight = find(name("attention.output.weight"), flat),
                          .output_bias = find(name("attention.output.bias"), flat),
                          .query_norm = find_norm(name("attention.query_norm"), flat),
                          .key_norm = find_norm(name("attention.key_norm"), flat)},
            .attention_output_norm = find_norm(name("attention.output_norm"), flat),
            .mlp_norm = find_norm(name("mlp.norm"), flat),
            .mlp = {.up_weight = find_block(name(up + ".weight"), flat),
                    .up_bias = find_block(name(up + ".bias"), flat),
                    .down_weight = find(name("mlp.down.weight"), flat),
                    .down_bias = find(name("mlp.down.bias"), flat)},
            .mlp_output_norm = find_norm(name("mlp.output_norm"), flat)};
}

Params ParamMap::bind(const View& flat, i64 chunk) const {
    const spec::ModelPart& part = parts_[static_cast<size_t>(chunk)];
    Params params;
    params.embedding = {.word = find("embedding.word.weight", flat),
                        .position = find("embedding.position.weight", flat),
                        .norm = find_norm("embedding.norm", flat)};
    for (i64 layer = part.first_layer; layer < part.end_layer; ++layer) {
        params.layers.push_back(bind_layer(layer, flat));
    }
    // The stage holds these tensors for all its chunks, but only the chunk with the head uses them.
    params.final_norm = find_norm("final_norm", flat);
    params.head.weight = config_.untied_head ? find("head.weight", flat) : params.embedding.word;
    return params;
}

}  // namespace lm::model
