// SPDX-License-Identifier: Apache-2.0
#include "convert/tensor_map.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace lm::convert {

i64 MappedTensor::n_rows() const {
    i64 n = 0;
    for (const RowRange& range : rows) n += range.end - range.begin;
    return n;
}

std::vector<i64> MappedTensor::shape() const {
    if (rank == 1) return {n_rows()};
    if (transposed) return {n_cols(), n_rows()};
    return {n_rows(), n_cols()};
}

MappedTensor MappedTensor::part(i64 row, i64 n_rows_, i64 col, i64 n_cols_) const {
    LM_CHECK(0 <= row && 0 <= n_rows_ && row <= n_rows() - n_rows_ && 0 <= col && 0 <= n_cols_ &&
                 col <= n_cols() - n_cols_,
             "expected a part of {} rows and {} columns, got {} rows from row {} and {} columns "
             "from column {}",
             n_rows(), n_cols(), n_rows_, row, n_cols_, col);
    MappedTensor result = *this;
    result.rows.clear();
    result.col_begin = col_begin + col;
    result.col_end = result.col_begin + n_cols_;
    i64 at = 0;
    for (const RowRange& range : rows) {
        const i64 n = range.end - range.begin;
        const i64 begin = std::max(row - at, i64{0});
        const i64 end = std::min(row + n_rows_ - at, n);
        if (begin < end) {
            result.rows.push_back({range.tensor, range.begin + begin, range.begin + end});
        }
        at += n;
    }
    return result;
}

ModelTensors::ModelTensors(const spec::ModelConfig& config)
    : config_(config), table_(spec::tensor_table(config)) {
    for (size_t i = 0; i < table_.size(); ++i) places_[table_[i].name] = static_cast<i64>(i);
}

const spec::TensorSpec* ModelTensors::find(const std::string& name) const {
    const auto found = places_.find(name);
    return found == places_.end() ? nullptr : &table_[static_cast<size_t>(found->second)];
}

const spec::TensorSpec& ModelTensors::at(const std::string& name) const {
    return table_[static_cast<size_t>(index(name))];
}

i64 ModelTensors::index(const std::string& name) const {
    return places_.at(name);
}

std::optional<MappedTensor> ModelTensors::map(const std::string& name, const std::string& own,
                                              QkvOrder order) const {
    constexpr std::string_view fused_qkv = ".qkv.";
    constexpr std::string_view fused_mlp = ".gate_up.";
    MappedTensor tensor{.name = name, .rows = {}};
    std::string first = own;
    if (const size_t at = own.find(fused_qkv); at != own.npos) {
        const std::string prefix = own.substr(0, at + 1);
        const std::string suffix = own.substr(at + fused_qkv.size() - 1);
        first = prefix + "query" + suffix;
        if (!find(first)) return std::nullopt;
        tensor.rows = qkv_rows(prefix, suffix, order, 0, n_groups(first));
    } else if (const size_t mlp = own.find(fused_mlp); mlp != own.npos) {
        const std::string prefix = own.substr(0, mlp + 1);
        const std::string suffix = own.substr(mlp + fused_mlp.size() - 1);
        first = prefix + "gate" + suffix;
        if (!find(first)) return std::nullopt;
        for (const std::string& part : {first, prefix + "up" + suffix})
            tensor.rows.push_back({part, 0, find(part)->shape[0]});
    } else {
        if (!find(own)) return std::nullopt;
        tensor.rows = {{own, 0, find(own)->shape[0]}};
    }
    const Shape& shape = find(first)->shape;
    tensor.rank = shape.rank();
    if (tensor.rank == 2) tensor.col_end = shape[1];
    return tensor;
}

i64 ModelTensors::n_groups(const std::string& name) const {
    return config_.layer(at(name).layer).n_groups;
}

std::vector<RowRange> ModelTensors::qkv_rows(const std::string& prefix, const std::string& suffix,
                                             QkvOrder order, i64 group_begin, i64 group_end) const {
    const i64 d = config_.head_dim;
    const i64 heads = config_.n_heads / n_groups(prefix + "query" + suffix);
    std::vector<RowRange> rows;
    const auto add = [&](const char* part, i64 begin, i64 end) {
        rows.push_back({prefix + part + suffix, begin, end});
    };
    if (order == QkvOrder::whole) {
        add("query", group_begin * heads * d, group_end * heads * d);
        add("key", group_begin * d, group_end * d);
        add("value", group_begin * d, group_end * d);
        return rows;
    }
    for (i64 group = group_begin; group < group_end; ++group) {
        if (order == QkvOrder::groups) {
            add("query", group * heads * d, (group + 1) * heads * d);
            add("key", group * d, (group + 1) * d);
            add("value", group * d, (group + 1) * d);
            continue;
        }
        for (i64 row = group * d; row < (group + 1) * d; ++row) {
            for (const char* part : {"query", "key", "value"}) add(part, row, row + 1);
        }
    }
    return rows;
}

}  // namespace lm::convert
