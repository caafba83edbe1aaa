// SPDX-License-Identifier: Apache-2.0
#include "spec/rank_layout.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/shape.hpp"

namespace lm::spec {

Shape Box::shape() const {
    Shape result = end;
    for (int dim = 0; dim < result.rank(); ++dim) result[dim] -= start[dim];
    return result;
}

namespace {

// Returns the index of the first of `n` granules (key-value groups with their heads, or columns of
// the MLP) that tensor rank `tp_rank` has.
i64 first_granule(i64 n, const ParallelConfig& parallel, i64 tp_rank) {
    return n * tp_rank / parallel.tp;
}

}  // namespace

HeadShare head_share(const ModelConfig& config, const LayerConfig& layer,
                     const ParallelConfig& parallel, i64 tp_rank) {
    const i64 begin = first_granule(layer.n_groups, parallel, tp_rank);
    const i64 end = first_granule(layer.n_groups, parallel, tp_rank + 1);
    const i64 heads_in_group = config.n_heads / layer.n_groups;
    return {.n_heads = (end - begin) * heads_in_group,
            .n_groups = end - begin,
            .first_head = begin * heads_in_group};
}

TensorShare tensor_share(const ModelConfig& config, const ParallelConfig& parallel, i64 tp_rank) {
    TensorShare share;
    share.ffn = first_granule(config.ffn_hidden, parallel, tp_rank + 1) -
                first_granule(config.ffn_hidden, parallel, tp_rank);
    share.vocab_rows = padded_vocab(config, parallel) / parallel.tp;
    share.vocab_start = tp_rank * share.vocab_rows;
    share.n_vocab = std::clamp<i64>(config.vocab_size - share.vocab_start, 0, share.vocab_rows);
    return share;
}

namespace {

// Returns the unit whose backward completes the gradient of `tensor` on a rank with the model parts
// `parts`; -1 when the rank does not have the tensor.
i64 unit_among(const std::vector<ModelPart>& parts, const TensorSpec& tensor,
               const ModelConfig& config) {
    switch (tensor.place) {
        case Place::embedding:
            if (parts.front().embedding) return embedding_unit;
            return parts.back().head && tensor.tied_head ? head_unit(config) : -1;
        case Place::head:
            return parts.back().head ? head_unit(config) : -1;
        case Place::layer:
            break;
    }
    const bool held = std::ranges::any_of(parts, [&tensor](const ModelPart& part) {
        return tensor.layer >= part.first_layer && tensor.layer < part.end_layer;
    });
    return held ? unit_of_layer(tensor.layer) : -1;
}

LocalTensor local_part(const TensorSpec& tensor, i64 index, const ModelConfig& config,
                       const ParallelConfig& parallel, i64 tp_rank) {
    LocalTensor local{.index = index, .box = {tensor.shape, tensor.shape}};
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) local.box.start[dim] = 0;
    if (tensor.vocab_rows) {
        const TensorShare share = tensor_share(config, parallel, tp_rank);
        local.box.start[0] = std::min(share.vocab_start, config.vocab_size);
        local.box.end[0] = local.box.start[0] + share.n_vocab;
        local.shape = local.box.shape();
        local.shape[0] = share.vocab_rows;
        return local;
    }
    if (tensor.cut.dim >= 0) {
        const i64 granules = tensor.shape[tensor.cut.dim] / tensor.cut.granule;
        const auto edge = [&](i64 rank) {
            return first_granule(granules, parallel, rank) * tensor.cut.granule;
        };
        local.box.start[tensor.cut.dim] = edge(tp_rank);
        local.box.end[tensor.cut.dim] = edge(tp_rank + 1);
    }
    local.shape = local.box.shape();
    return local;
}

}  // namespace

RankLayout rank_layout(const ModelConfig& config, const std::vector<TensorSpec>& table,
                       const ParallelConfig& parallel, i64 tp_rank, i64 pp_rank) {
    RankLayout layout;
    const std::vector<ModelPart> parts = stage_parts(config, parallel, pp_rank);
    const std::string* block = nullptr;
    for (size_t i = 0; i < table.size(); ++i) {
        const i64 unit = unit_among(parts, table[i], config);
        if (unit < 0) continue;
        LocalTensor local = local_part(table[i], static_cast<i64>(i), config, parallel, tp_rank);
        local.unit = unit;
        local.replicated = parallel.tp > 1 && table[i].cut.dim < 0;
        local.copy = table[i].place == Place::embedding && unit != embedding_unit;
        const bool adjacent = block && !table[i].block.empty() && table[i].block == *block;
        if (!adjacent) layout.n_elements = round_up(layout.n_elements, block_alignment);
        block = &table[i].block;
        local.offset = layout.n_elements;
        layout.n_elements += local.numel();
        layout.tensors.push_back(local);
    }
    layout.n_elements = round_up(layout.n_elements, block_alignment);
    return layout;
}

i64 flat_elements(const RankLayout& layout, const ParallelConfig& parallel) {
    return flat_elements(layout.n_elements, parallel);
}

i64 flat_elements(i64 n_elements, const ParallelConfig& parallel) {
    return round_up(n_elements, checked_mul(block_alignment, parallel.dp));
}

std::vector<StateRanges> state_ranges(OptimizerKind optimizer, const std::vector<TensorSpec>& table,
                                      const RankLayout& layout, const std::vector<Range>& updated) {
    std::vector<StateRanges> states;
    for (const OptimizerState& state : states_of(optimizer)) {
        std::vector<Range> all;
        for (size_t i = 0; i < layout.tensors.size(); ++i) {
            const LocalTensor& tensor = layout.tensors[i];
            const bool last = i + 1 == layout.tensors.size();
            const auto own = states_of(optimizer, table[static_cast<size_t>(tensor.index)]);
            if (std::ranges::find(own, state) == own.end()) continue;
            append(all, {tensor.offset, last ? INT64_MAX : layout.tensors[i + 1].offset});
        }
        states.push_back({state, intersection(updated, all)});
    }
    return states;
}

void ElementCount::add(const ElementCount& unit) {
    tensors += unit.tensors;
    aligned += unit.aligned;
    for (size_t i = 0; i < with_state.size(); ++i) with_state[i] += unit.with_state[i];
}

RankElements rank_elements(const ModelConfig& config, const ParallelConfig& parallel, i64 tp_rank,
                           OptimizerKind optimizer) {
    const ParallelConfig whole{.tp = parallel.tp,
                               .vocab_divisible_by = parallel.vocab_divisible_by,
                               .pad_vocab_to = parallel.pad_vocab_to};
    const std::vector<TensorSpec> table = tensor_table(config);
    const RankLayout layout = rank_layout(config, table, whole, tp_rank, 0);
    RankElements elements;
    elements.layers.resize(static_cast<size_t>(config.n_layers));
    for (size_t i = 0; i < layout.tensors.size(); ++i) {
        const LocalTensor& tensor = layout.tensors[i];
        const i64 end =
            i + 1 < layout.tensors.size() ? layout.tensors[i + 1].offset : layout.n_elements;
        const TensorSpec& spec = table[static_cast<size_t>(tensor.index)];
        const auto counted = [&](i64 aligned) {
            ElementCount count{tensor.numel(), aligned};
            for (const OptimizerState& state : states_of(optimizer, spec)) {
                const auto place = std::ranges::find(all_states, state) - all_states.begin();
                count.with_state[static_cast<size_t>(place)] = aligned;
            }
            return count;
        };
        // The count of a unit includes the gap after its last tensor.
        const ElementCount count = counted(end - tensor.offset);
        if (spec.place == Place::embedding) elements.embedding.add(count);
        if (spec.place == Place::layer) elements.layers[static_cast<size_t>(spec.layer)].add(count);
        if (spec.place == Place::head) elements.head.add(count);
        if (spec.tied_head)
            elements.head_copy.add(counted(round_up(tensor.numel(), block_alignment)));
    }
    return elements;
}

ElementCount RankElements::of(const std::vector<ModelPart>& parts) const {
    ElementCount count;
    for (const ModelPart& part : parts) {
        for (i64 layer = part.first_layer; layer < part.end_layer; ++layer) {
            count.add(layers[static_cast<size_t>(layer)]);
        }
    }
    if (parts.front().embedding) count.add(embedding);
    if (parts.back().head) {
        count.add(head);
        if (!parts.front().embedding) count.add(head_copy);
    }
    return count;
}

}  // namespace lm::spec
