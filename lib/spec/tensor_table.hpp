// SPDX-License-Identifier: Apache-2.0
// One table that names every tensor of a model. Allocator, initialiser, optimizer, checkpoint,
// converters and lm-estimate all read this table; nothing else knows tensor names. Weights of
// linear layers are [out, in], row-major.
#pragma once

#include <string>
#include <vector>

#include "base/shape.hpp"
#include "spec/model.hpp"

namespace lm::spec {

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
