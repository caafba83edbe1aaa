// SPDX-License-Identifier: Apache-2.0
// Maps tensors of another format to tensors of lm-utils: a tensor of the other format consists of
// rows of tensors of lm-utils, and may be transposed. The functions are pure: they read and write
// no file.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "spec/tensor_table.hpp"

namespace lm::convert {

// The rows [begin, end) of a tensor of lm-utils, or the elements [begin, end) of a vector.
struct RowRange {
    std::string tensor;  // empty: rows of zeros, the padding of the vocabulary
    i64 begin = 0;
    i64 end = 0;
};

// A tensor of another format. Rows and columns count before the transposition.
struct MappedTensor {
    std::string name;
    std::vector<RowRange> rows;
    int rank = 2;
    // The columns [col_begin, col_end) of these rows: all columns, unless tensor parallelism
    // divides them. A vector has one column.
    i64 col_begin = 0;
    i64 col_end = 1;
    bool transposed = false;

    i64 n_rows() const;
    i64 n_cols() const { return col_end - col_begin; }
    i64 numel() const { return n_rows() * n_cols(); }
    std::vector<i64> shape() const;
    // Returns the part with rows [row, row + n_rows) and columns [col, col + n_cols), which lie
    // within the tensor.
    MappedTensor part(i64 row, i64 n_rows, i64 col, i64 n_cols) const;
};

// The order of the rows of query, key and value in a fused tensor. D: head size, G: groups, H:
// heads.
enum class QkvOrder {
    whole,       // all of query, all of key, all of value
    groups,      // [G, H/G + 2, D]: query heads, key and value of each group
    interleaved  // [H, D, 3]: query, key and value alternate (checkpoint_version 1.0 of Megatron)
};

// The tensors of a model by name.
class ModelTensors {
  public:
    explicit ModelTensors(const spec::ModelConfig& config);

    const spec::ModelConfig& config() const { return config_; }
    const std::vector<spec::TensorSpec>& table() const { return table_; }
    const spec::TensorSpec* find(const std::string& name) const;  // nullptr: not in this model
    const spec::TensorSpec& at(const std::string& name) const;
    i64 index(const std::string& name) const;

    // Returns the mapping of `name` to the whole tensor `own`. "layers.N.attention.qkv.weight"
    // stands for query, key and value in the given order, "layers.N.mlp.gate_up.weight" for gate
    // and up. Returns nullopt when the model has no such tensor.
    std::optional<MappedTensor> map(const std::string& name, const std::string& own,
                                    QkvOrder order) const;
    // Returns the number of key-value groups of the layer of the tensor `name`.
    i64 n_groups(const std::string& name) const;
    // Returns the rows of query, key and value of the groups [group_begin, group_end), in the given
    // order. The names of the tensors are PREFIXquerySUFFIX, PREFIXkeySUFFIX and PREFIXvalueSUFFIX,
    // with for example "layers.3.attention." and ".weight".
    std::vector<RowRange> qkv_rows(const std::string& prefix, const std::string& suffix,
                                   QkvOrder order, i64 group_begin, i64 group_end) const;

  private:
    spec::ModelConfig config_;
    std::vector<spec::TensorSpec> table_;
    std::map<std::string, i64> places_;
};

}  // namespace lm::convert
