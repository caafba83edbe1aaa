// SPDX-License-Identifier: Apache-2.0
#include "spec/tensor_table.hpp"

#include <fmt/format.h>

#include <cmath>

namespace lm::spec {
namespace {

// Builds the table, in the order of the parameters in memory.
class TableBuilder {
  public:
    explicit TableBuilder(const ModelConfig& config)
        // The model adds 2 * n_layers output projections of attention and MLP to the residual
        // stream. Their initial weights are divided by the square root of that number (GPT-2 paper,
        // section 2.3; Megatron's scaled_init_method_normal).
        : config_(config),
          branch_std_(config.init_std / std::sqrt(2.0 * static_cast<double>(config.n_layers))) {}

    std::vector<TensorSpec> build() {
        embedding();
        for (i64 layer = 0; layer < config_.n_layers; ++layer) {
            attention(layer);
            mlp(layer);
        }
        norm("final_norm", Place::head, -1);
        if (config_.untied_head) {
            TensorSpec& head = matrix("head.weight", config_.vocab_size, config_.hidden,
                                      config_.init_std, {0, 1}, Place::head, -1);
            head.vocab_rows = true;
        }
        return std::move(table_);
    }

  private:
    TensorSpec& matrix(std::string name, i64 rows, i64 cols, double std, Cut cut, Place place,
                       i64 layer, std::string block = {}) {
        table_.push_back({.name = std::move(name),
                          .shape = {rows, cols},
                          .init = Init::normal,
                          .init_std = std,
                          .weight_decay = true,
                          .cut = cut,
                          .place = place,
                          .layer = layer,
                          .block = std::move(block)});
        return table_.back();
    }

    void vector(std::string name, i64 size, Init init, Cut cut, Place place, i64 layer,
                std::string block = {}) {
        table_.push_back({.name = std::move(name),
                          .shape = {size},
                          .init = init,
                          .cut = cut,
                          .place = place,
                          .layer = layer,
                          .block = std::move(block)});
    }

    void norm(const std::string& name, Place place, i64 layer, i64 width = 0, Cut cut = {}) {
        if (width == 0) width = config_.hidden;
        const Init weight = config_.norm_1p ? Init::zeros : Init::ones;
        vector(name + ".weight", width, weight, cut, place, layer);
        if (config_.has_norm_bias()) {
            vector(name + ".bias", width, Init::zeros, cut, place, layer);
        }
    }

    void embedding() {
        TensorSpec& word = matrix("embedding.word.weight", config_.vocab_size, config_.hidden,
                                  config_.init_std, {0, 1}, Place::embedding, -1);
        word.vocab_rows = true;
        word.tied_head = !config_.untied_head;
        if (has_table(config_.position)) {
            matrix("embedding.position.weight", config_.max_positions, config_.hidden,
                   config_.init_std, {}, Place::embedding, -1);
        }
        if (config_.embedding_norm) norm("embedding.norm", Place::embedding, -1);
    }

    struct Projection {
        const char* name;
        i64 rows;
        i64 granule;
    };

    // Adds column-parallel projections that one matrix product computes together. The tensor ranks
    // shard the rows of each weight. All weights are adjacent in memory, then all biases.
    void column_parallel(const std::string& prefix, const std::string& block,
                         std::initializer_list<Projection> projections, i64 layer, bool bias) {
        for (const Projection& p : projections) {
            matrix(prefix + p.name + ".weight", p.rows, config_.hidden, config_.init_std,
                   {0, p.granule}, Place::layer, layer, prefix + block + ".weight");
        }
        if (!bias) return;
        for (const Projection& p : projections) {
            vector(prefix + p.name + ".bias", p.rows, Init::zeros, {0, p.granule}, Place::layer,
                   layer, prefix + block + ".bias");
        }
    }

    // Adds a row-parallel projection, whose weight is divided by columns. Every tensor rank has the
    // whole bias, but only the first rank adds it, because the results are summed over the tensor
    // ranks.
    void row_parallel(const std::string& name, i64 cols, i64 granule, i64 layer) {
        matrix(name + ".weight", config_.hidden, cols, branch_std_, {1, granule}, Place::layer,
               layer);
        if (config_.linear_bias) {
            vector(name + ".bias", config_.hidden, Init::zeros, {}, Place::layer, layer);
        }
    }

    void attention(i64 layer) {
        const std::string prefix = fmt::format("layers.{}.attention.", layer);
        const i64 d = config_.head_dim;
        const i64 n_groups = config_.layer(layer).n_groups;
        const i64 heads_per_group = config_.n_heads / n_groups;
        const NormPlacement norms = config_.layer(layer).norms;
        if (norms_input(norms)) norm(prefix + "norm", Place::layer, layer);
        column_parallel(prefix, "qkv",
                        {{"query", config_.n_heads * d, heads_per_group * d},
                         {"key", n_groups * d, d},
                         {"value", n_groups * d, d}},
                        layer, config_.has_qkv_bias());
        if (config_.joint_qk_norm) {
            norm(prefix + "query_norm", Place::layer, layer, config_.n_heads * d,
                 {0, heads_per_group * d});
            norm(prefix + "key_norm", Place::layer, layer, n_groups * d, {0, d});
        } else if (config_.qk_norm) {
            norm(prefix + "query_norm", Place::layer, layer, d);
            norm(prefix + "key_norm", Place::layer, layer, d);
        }
        row_parallel(prefix + "output", config_.attention_width(), heads_per_group * d, layer);
        if (norms_output(norms)) norm(prefix + "output_norm", Place::layer, layer);
    }

    void mlp(i64 layer) {
        const std::string prefix = fmt::format("layers.{}.mlp.", layer);
        const LayerConfig own = config_.layer(layer);
        if (norms_input(own.norms) && !own.shared_norm) norm(prefix + "norm", Place::layer, layer);
        if (is_gated(own.activation)) {
            column_parallel(prefix, "gate_up",
                            {{"gate", config_.ffn_hidden, 1}, {"up", config_.ffn_hidden, 1}}, layer,
                            config_.linear_bias);
        } else {
            column_parallel(prefix, "up", {{"up", config_.ffn_hidden, 1}}, layer,
                            config_.linear_bias);
        }
        row_parallel(prefix + "down", config_.ffn_hidden, 1, layer);
        if (norms_output(own.norms)) norm(prefix + "output_norm", Place::layer, layer);
    }

    const ModelConfig& config_;
    double branch_std_;
    std::vector<TensorSpec> table_;
};

}  // namespace

std::vector<TensorSpec> tensor_table(const ModelConfig& config) {
    return TableBuilder(config).build();
}

ParameterCount count_parameters(const ModelConfig& config) {
    ParameterCount count;
    for (const TensorSpec& tensor : tensor_table(config)) {
        const i64 n = tensor.shape.numel();
        if (tensor.place == Place::embedding) {
            count.embedding += n;
        } else if (tensor.name == "head.weight") {
            count.head += n;
        } else if (tensor.name.find("norm.") != std::string::npos) {
            count.norm += n;
        } else if (tensor.name.find(".attention.") != std::string::npos) {
            count.attention += n;
        } else {
            count.mlp += n;
        }
    }
    return count;
}

}  // namespace lm::spec
