// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/grad_buffer.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/shape.hpp"

namespace lm::convert {
namespace {

constexpr i64 alignment = 64;  // elements; parameters start at multiples of this number

i64 aligned(i64 at) {
    return ceil_div(at, alignment) * alignment;
}

i64 numel(const BufferParameter& parameter) {
    i64 n = 1;
    for (const i64 dim : parameter.shape) n = checked_mul(n, dim);
    return n;
}

// Returns the elements [begin, begin + n) of a storage.
std::shared_ptr<Storage> part_of(const Storage& storage, i64 begin, i64 n) {
    auto part = std::make_shared<Storage>();
    part->dtype = storage.dtype;
    for (const Extent& extent : storage.extents) {
        const i64 first = std::max(begin, i64{0});
        const i64 last = std::min(begin + n, extent.n);
        if (first < last) {
            Extent cut = extent;
            cut.offset += first * size_of(storage.dtype);
            cut.n = last - first;
            part->extents.push_back(std::move(cut));
        }
        begin -= extent.n;
    }
    return part;
}

}  // namespace

std::vector<i64> bucket_sizes(const std::vector<BufferParameter>& parameters, i64 full) {
    std::vector<i64> sizes;
    i64 at = 0;
    // Buckets are filled from the last parameter to the first.
    for (size_t i = parameters.size(); i-- > 0;) {
        const BufferParameter& parameter = parameters[i];
        at = aligned(at);
        if (parameter.alone && at > 0) {
            sizes.push_back(at);
            at = 0;
        }
        at += numel(parameter);
        if ((full > 0 && at >= full) || parameter.alone) {
            sizes.push_back(at);
            at = 0;
        }
    }
    if (at > 0) sizes.push_back(at);
    return sizes;
}

std::optional<std::vector<i64>> buffer_positions(const std::vector<BufferParameter>& parameters,
                                                 const std::vector<i64>& buckets) {
    std::vector<i64> positions(parameters.size());
    size_t bucket = 0;
    i64 bucket_begin = 0;
    i64 at = 0;
    for (size_t i = parameters.size(); i-- > 0;) {
        if (bucket == buckets.size()) return std::nullopt;
        at = aligned(at);
        positions[i] = bucket_begin + at;
        at += numel(parameters[i]);
        if (at > buckets[bucket]) return std::nullopt;
        // The padding that aligns a parameter with its own bucket belongs to the previous bucket.
        if (at == buckets[bucket] || aligned(at) == buckets[bucket]) {
            bucket_begin += buckets[bucket++];
            at = 0;
        }
    }
    return bucket == buckets.size() ? std::optional(positions) : std::nullopt;
}

void add_buffer(MegatronImport& import, const std::vector<BufferParameter>& parameters,
                const std::vector<i64>& positions, const BufferState& state, i64 tp_rank, i64 tp) {
    for (size_t i = 0; i < parameters.size(); ++i) {
        const BufferParameter& parameter = parameters[i];
        if (parameter.own.empty()) continue;
        const SourceTensor tensor{parameter.own,
                                  part_of(state.storage, positions[i], numel(parameter)), 0,
                                  parameter.shape, contiguous_strides(parameter.shape)};
        import.add(parameter.own, state.kind, tensor, tp_rank, tp);
    }
}

void add_in_matching_order(MegatronImport& import, const std::string& path,
                           const std::function<bool(MegatronImport& copy, NormOrder order)>& add) {
    std::string other;
    for (const NormOrder order : {NormOrder::output_first, NormOrder::norm_first}) {
        MegatronImport copy = import;
        if (!add(copy, order)) continue;
        other = copy.tensor_with_other_masters();
        if (!other.empty()) continue;
        import.replace_sources(std::move(copy));
        return;
    }
    if (other.empty()) {
        run_error(path,
                  "the buckets of the distributed optimizer do not have the sizes of the model's "
                  "parameters: the files are from different checkpoints, or the order of the "
                  "parameters is not supported");
    }
    run_error(path,
              "the optimizer state does not match the weights of {} in any known order of the "
              "parameters: the state is from another checkpoint, or its order is not supported",
              other);
}

std::vector<BufferParameter> chunk_parameters(const MegatronImport& import,
                                              const BufferChunk& chunk, NormOrder order) {
    const MegatronModel& model = import.head().model;
    const spec::ModelConfig& c = import.config();
    const i64 n_chunks = std::max<i64>(model.virtual_stages, 1);
    const i64 n_layers = c.n_layers / (model.pp * n_chunks);
    const bool first = chunk.stage == 0 && chunk.chunk == 0;
    const bool last = chunk.stage == model.pp - 1 && chunk.chunk == n_chunks - 1;
    const bool shared = !c.untied_head && model.pp > 1;
    std::vector<BufferParameter> all;
    const auto add = [&](const std::string& own, bool alone = false) {
        if (const auto map = import.part(own, chunk.tp_rank, chunk.vocab_rows)) {
            all.push_back({own, map->shape(), alone});
        }
    };
    const auto add_module = [&](const std::string& module) {
        for (const char* suffix : {".weight", ".bias"}) add(module + suffix);
    };
    if (first) {
        add("embedding.word.weight", shared);
        add("embedding.position.weight");
    }
    for (i64 i = 0; i < n_layers; ++i) {
        const std::string layer = fmt::format(
            "layers.{}.", chunk.chunk * (c.n_layers / n_chunks) + chunk.stage * n_layers + i);
        if (order == NormOrder::norm_first) add_module(layer + "attention.norm");
        add_module(layer + "attention.output");
        if (order == NormOrder::output_first) add_module(layer + "attention.norm");
        add_module(layer + "attention.qkv");
        add_module(layer + "mlp.norm");
        add_module(layer + (import.gated() ? "mlp.gate_up" : "mlp.up"));
        add_module(layer + "mlp.down");
    }
    if (last) {
        add_module("final_norm");
        if (c.untied_head) add("head.weight");
        if (shared) {
            add("embedding.word.weight", true);
            all.back().own.clear();
        }
    }
    return all;
}

}  // namespace lm::convert
