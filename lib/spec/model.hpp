// SPDX-License-Identifier: Apache-2.0
// What a model is: its hyper-parameters and, from them, one table that names every tensor.
// Allocator, initialiser, optimizer, checkpoint, converters and lm-estimate all read this table;
// nothing else knows tensor names. Weights of linear layers are [out, in], row-major.
#pragma once

#include <string>
#include <vector>

#include "base/shape.hpp"
#include "base/types.hpp"

namespace lm::spec {

enum class PositionEmbedding { absolute, alibi, rope, none };
enum class Normalization { layer_norm, rms_norm };
// gelu_tanh is Megatron's fused bias-GELU and HF's gelu_new; gelu_erf is HF's gelu.
enum class Activation { gelu_tanh, gelu_erf, swiglu, geglu };

std::string_view name_of(PositionEmbedding value);
std::string_view name_of(Normalization value);
std::string_view name_of(Activation value);
bool is_gated(Activation activation);  // GLU: a gate projection beside the up projection

struct ModelConfig {
    i64 n_layers = 0;
    i64 hidden = 0;         // C
    i64 ffn_hidden = 0;     // F; resolve() makes it 4*hidden when 0
    i64 n_heads = 0;        // H
    i64 n_groups = 0;       // G, key-value groups; resolve() makes it n_heads when 0
    i64 head_dim = 0;       // D (--kv-channels); resolve() makes it hidden/n_heads when 0
    i64 seq_length = 0;     // T
    i64 max_positions = 0;  // rows of the position table; resolve() makes it seq_length when 0
    i64 vocab_size = 0;     // V, unpadded
    PositionEmbedding position = PositionEmbedding::absolute;
    Normalization normalization = Normalization::layer_norm;
    Activation activation = Activation::gelu_tanh;
    double norm_eps = 1e-5;
    double rotary_base = 10000.0;
    bool embedding_norm = false;  // --embed-layernorm
    bool untied_head = false;     // --untie-embeddings-and-output-weights
    bool linear_bias = true;      // --disable-bias-linear clears it
    double attention_dropout = 0.1;
    double hidden_dropout = 0.1;
    double init_std = 0.02;

    // Fills the derived values, then checks all of them; throws Error(usage) naming the flag and
    // what would work.
    void resolve();

    i64 qkv_rows() const { return (n_heads + 2 * n_groups) * head_dim; }
    i64 attention_width() const { return n_heads * head_dim; }
};

enum class Init { normal, zeros, ones };

// How tensor ranks share a tensor: dimension `dim` is cut at multiples of `granule` elements (a
// head, a key-value group, a row); dim -1: every tensor rank holds the whole.
struct Cut {
    int dim = -1;
    i64 granule = 1;
};

// Which pipeline stage holds a tensor.
enum class Place { embedding, layer, head };

struct TensorSpec {
    std::string name;  // "layers.3.attention.query.weight"
    Shape shape;       // global, vocabulary unpadded
    Init init = Init::normal;
    double init_std = 0;  // of Init::normal
    bool weight_decay = false;
    Cut cut;
    Place place = Place::layer;
    i64 layer = -1;
    // Tensors of one non-empty block lie adjacent in memory, in table order, so that one matrix
    // product computes them all (query, key, value; gate, up).
    std::string block;
    bool vocab_rows = false;  // dimension 0 is the vocabulary: the layout pads it
    bool tied_head = false;   // the last stage holds a copy as its output projection
};

std::vector<TensorSpec> tensor_table(const ModelConfig& config);

struct ParameterCount {
    i64 embedding = 0;  // word and position tables, embedding norm
    i64 attention = 0;
    i64 mlp = 0;
    i64 norm = 0;  // all norms of the layers and the final one
    i64 head = 0;  // untied output projection
    i64 total() const { return embedding + attention + mlp + norm + head; }
};
ParameterCount count_parameters(const ModelConfig& config);

}  // namespace lm::spec
