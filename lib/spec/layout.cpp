// SPDX-License-Identifier: Apache-2.0
#include "spec/layout.hpp"

#include "base/error.hpp"

namespace lm::spec {

i64 padded_vocab(const ModelConfig& config, const ParallelConfig& parallel) {
    const i64 multiple = checked_mul(parallel.vocab_divisible_by, parallel.tp);
    if (parallel.pad_vocab_to == 0) return round_up(config.vocab_size, multiple);
    if (parallel.pad_vocab_to < config.vocab_size) {
        usage_error("--pad-vocab-size-to", "{} is less than the vocabulary of {}",
                    parallel.pad_vocab_to, config.vocab_size);
    }
    if (parallel.pad_vocab_to % parallel.tp != 0) {
        usage_error("--pad-vocab-size-to", "{} is not a multiple of the tensor-parallel size {}",
                    parallel.pad_vocab_to, parallel.tp);
    }
    return parallel.pad_vocab_to;
}

Shape Box::shape() const {
    Shape result = end;
    for (int dim = 0; dim < result.rank(); ++dim) result[dim] -= start[dim];
    return result;
}

i64 first_layer(const ModelConfig& config, const ParallelConfig& parallel, i64 pp_rank) {
    return config.n_layers * pp_rank / parallel.pp;
}

namespace {

bool on_stage(const TensorSpec& tensor, const ModelConfig& config, const ParallelConfig& parallel,
              i64 pp_rank) {
    const bool last = pp_rank == parallel.pp - 1;
    switch (tensor.place) {
        case Place::embedding:
            return pp_rank == 0 || (last && tensor.tied_head);
        case Place::head:
            return last;
        case Place::layer:
            return tensor.layer >= first_layer(config, parallel, pp_rank) &&
                   tensor.layer < first_layer(config, parallel, pp_rank + 1);
    }
    return false;
}

LocalTensor local_part(const TensorSpec& tensor, i64 index, const ModelConfig& config,
                       const ParallelConfig& parallel, i64 tp_rank) {
    LocalTensor local{
        .index = index, .box = {tensor.shape, tensor.shape}, .shape = {}, .offset = 0};
    for (int dim = 0; dim < tensor.shape.rank(); ++dim) local.box.start[dim] = 0;
    if (tensor.vocab_rows) {
        const i64 rows = padded_vocab(config, parallel) / parallel.tp;
        local.box.start[0] = std::min(tp_rank * rows, config.vocab_size);
        local.box.end[0] = std::min((tp_rank + 1) * rows, config.vocab_size);
        local.shape = local.box.shape();
        local.shape[0] = rows;
        return local;
    }
    if (tensor.cut.dim >= 0) {
        const i64 granules = tensor.shape[tensor.cut.dim] / tensor.cut.granule;
        local.box.start[tensor.cut.dim] = granules * tp_rank / parallel.tp * tensor.cut.granule;
        local.box.end[tensor.cut.dim] = granules * (tp_rank + 1) / parallel.tp * tensor.cut.granule;
    }
    local.shape = local.box.shape();
    return local;
}

}  // namespace

RankLayout rank_layout(const ModelConfig& config, const std::vector<TensorSpec>& table,
                       const ParallelConfig& parallel, i64 tp_rank, i64 pp_rank) {
    RankLayout layout;
    const std::string* block = nullptr;
    for (size_t i = 0; i < table.size(); ++i) {
        if (!on_stage(table[i], config, parallel, pp_rank)) continue;
        LocalTensor local = local_part(table[i], static_cast<i64>(i), config, parallel, tp_rank);
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

}  // namespace lm::spec
