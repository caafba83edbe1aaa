// SPDX-License-Identifier: Apache-2.0
// The table of all tensors of a model. Allocator, initializer, optimizer, checkpoints, converters
// and lm-estimate read this table; tensor names are defined nowhere else. Weights of linear layers
// are [out, in], row-major.
#pragma once

#include <string>
#include <vector>

#include "base/shape.hpp"
#include "spec/model.hpp"

namespace lm::spec {

enum class Init { normal, zeros, ones };

// The division of a tensor over tensor ranks: along dimension `dim`, at multiples of `granule`
// elements (a key-value group with its heads, a row, a column). dim -1: every tensor rank holds the
// whole tensor.
struct Cut {
    int dim = -1;
    i64 granule = 1;
};

// The part of the model to which a tensor belongs. It determines which pipeline stage has the
// tensor.
enum class Place { embedding, layer, head };

struct TensorSpec {
    std::string name;  // "layers.3.attention.query.weight"
    Shape shape;       // global shape, with unpadded vocabulary
    Init init = Init::normal;
    double init_std = 0;  // standard deviation of Init::normal
    bool weight_decay = false;
    Cut cut;
    Place place = Place::layer;
    i64 layer = -1;
    // Tensors with the same non-empty block are adjacent in memory, in table order, so that one
    // matrix product computes them together (query, key, value; gate, up).
    std::string block;
    bool vocab_rows = false;  // dimension 0 is the vocabulary, which rank_layout() pads
    bool tied_head = false;   // the last of several stages has a copy as output projection
};

// Returns the tensors in their order in memory.
std::vector<TensorSpec> tensor_table(const ModelConfig& config);

// The number of elements in each part of a model.
struct ParameterCount {
    i64 embedding = 0;  // word and position embeddings, embedding norm
    i64 attention = 0;
    i64 mlp = 0;
    i64 norm = 0;  // all norms of the layers, and the final norm
    i64 head = 0;  // untied output projection
    i64 total() const { return embedding + attention + mlp + norm + head; }
};
ParameterCount count_parameters(const ModelConfig& config);

}  // namespace lm::spec
