// SPDX-License-Identifier: Apache-2.0
#include "infer/kv_cache.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cpu/cpu_device.hpp"
#include "cpu/vector/vector_kernels.hpp"
#include "model/positions.hpp"

namespace lm::infer {
namespace {

// Number of keys in a block. Also the greatest number of rows in a task, unless a group has more
// heads.
constexpr i64 block = 64;

// Returns the slope of each head: 0 without ALiBi.
std::vector<float> slopes_of(spec::PositionEmbedding position, i64 n_heads) {
    switch (position) {
        case spec::PositionEmbedding::alibi:
            return model::alibi_slopes(n_heads);
        case spec::PositionEmbedding::absolute:
        case spec::PositionEmbedding::rope:
        case spec::PositionEmbedding::none:
            return std::vector<float>(static_cast<size_t>(n_heads));
    }
    __builtin_unreachable();
}

}  // namespace

// One task has the queries of all heads of a group for some tokens. Row r belongs to head r % (H/G)
// of the group and to token r / (H/G).
struct KvCache::Rows {
    const Layer& layer;
    i64 group;
    i64 sequence;
    i64 first;        // number of the first token in the sequence
    i64 tokens;       // number of tokens
    i64 at;           // row of the first token in qkv and out
    const View& qkv;  // [n, (H+2G)*D] fp32
    const View& out;  // [n, H*D] fp32
};

KvCache::KvCache(const spec::ModelConfig& config, i64 context)
    : head_dim_(config.head_dim), scale_(config.score_scale()) {
    i64 first_block = 0;
    for (i64 i = 0; i < config.n_layers; ++i) {
        const spec::LayerConfig layer = config.layer(i);
        i64 n_blocks = ceil_div(context, block);
        if (layer.window > 0) {
            const i64 kept = layer.window + 2 * most_tokens;
            n_blocks = std::min(n_blocks, ceil_div(kept, block) + 1);
        }
        layers_.push_back({.config = layer,
                           .in_group = config.n_heads / layer.n_groups,
                           .n_blocks = n_blocks,
                           .first_block = first_block,
                           .slopes = slopes_of(layer.position, config.n_heads)});
        first_block += layer.n_groups * n_blocks;
    }
}

i64 KvCache::bytes_of(const spec::ModelConfig& config, i64 tokens) {
    return 4 * checked_mul(KvCache(config, tokens).n_blocks(), 2 * block * config.head_dim);
}

KvCache KvCache::allocate(const spec::ModelConfig& config, i64 sequences, i64 context,
                          device::Device& device) {
    KvCache cache(config, context);
    cache.memory_ =
        device.allocate(checked_mul(sequences, bytes_of(config, context)), "keys and values");
    const i64 workers = static_cast<cpu::CpuDevice&>(device).pool().size();
    cache.scratch_ = device.allocate(4 * workers * cache.scratch_floats(), "attention");
    return cache;
}

float* KvCache::block_of(const Layer& layer, i64 sequence, i64 group, i64 number) const {
    const i64 index = sequence * n_blocks() + layer.first_block + group * layer.n_blocks +
                      number % layer.n_blocks;
    return reinterpret_cast<float*>(memory_.data()) + index * 2 * block * head_dim_;
}

// Returns the number of floats in the scratch memory of one worker: queries and outputs [R, D],
// scores [R, 64], maximum and sum [R], for R rows.
i64 KvCache::scratch_floats() const {
    i64 rows = block;
    for (const Layer& layer : layers_) rows = std::max(rows, layer.in_group);
    return round_up(rows * (2 * head_dim_ + block + 2), 16);
}

i64 KvCache::shortest(i64 length) const {
    i64 shortest = 0;
    for (const Layer& layer : layers_) {
        const i64 first_kept = (length - 1) / block - layer.n_blocks + 1;  // block
        if (first_kept > 0)
            shortest = std::max(shortest, first_kept * block + layer.config.window - 1);
    }
    return shortest;
}

void KvCache::store(device::Context& context, const Layer& layer, std::span<const Segment> segments,
                    const View& qkv) {
    const i64 width = head_dim_;
    const i64 n_groups = layer.config.n_groups;
    cpu::pool_of(context).run(n_groups, [&](i64 group, int) {
        const float* key = qkv.as<float>() + (layer.in_group * n_groups + group) * width;
        for (const Segment& segment : segments) {
            for (i64 i = 0; i < segment.n; ++i, key += qkv[1]) {
                const i64 token = segment.first + i;
                float* const to = block_of(layer, segment.sequence, group, token / block);
                for (i64 d = 0; d < width; ++d) to[d * block + token % block] = key[d];
                std::copy_n(key + n_groups * width, width,
                            to + block * width + token % block * width);
            }
        }
    });
}

void KvCache::attend_rows(const Rows& a, float* scratch) const {
    const cpu::VectorKernels& kernels = cpu::vector_kernels();
    const i64 width = head_dim_;
    const i64 in_group = a.layer.in_group;
    const i64 window = a.layer.config.window;
    const i64 n_rows = a.tokens * in_group;
    float* const q = scratch;
    float* const out = q + n_rows * width;
    float* const scores = out + n_rows * width;
    float* const max = scores + n_rows * block;
    float* const sum = max + n_rows;
    const auto scale = static_cast<float>(scale_);
    const i64 heads = in_group * width;  // the heads of a group are adjacent in a row
    for (i64 t = 0; t < a.tokens; ++t) {
        const float* const row = a.qkv.as<float>() + (a.at + t) * a.qkv[1] + a.group * heads;
        kernels.scaled_copy(q + t * heads, row, scale, heads);
    }
    std::fill_n(max, n_rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, n_rows, 0.0F);
    const auto first_key = [&](i64 token) {
        return window > 0 ? std::max<i64>(token - window + 1, 0) : 0;
    };
    const i64 end = a.first + a.tokens;
    const i64 first_block = first_key(a.first) / block * block;
    for (i64 key = first_block; key < end; key += block) {
        const i64 n_keys = std::min(block, end - key);
        const float* const keys = block_of(a.layer, a.sequence, a.group, key / block);
        kernels.small_product(n_rows, n_keys, width, q, width, 1, keys, block, scores, block,
                              false);
        for (i64 r = 0; r < n_rows; ++r) {
            const i64 token = a.first + r / in_group;
            const float slope =
                a.layer.slopes[static_cast<size_t>(a.group * in_group + r % in_group)];
            const i64 seen = std::clamp<i64>(first_key(token) - key, 0, n_keys);
            const float rescale = kernels.online_softmax(
                scores + r * block, n_keys, seen, std::clamp<i64>(token + 1 - key, 0, n_keys),
                slope, static_cast<float>(key - token), max + r, sum + r);
            if (key > first_block) kernels.scale(out + r * width, rescale, width);
        }
        kernels.small_product(n_rows, width, n_keys, scores, block, 1, keys + block * width, width,
                              out, width, key > first_block);
    }
    for (i64 r = 0; r < n_rows; ++r) {
        float* const to = a.out.as<float>() + (a.at + r / in_group) * a.out[1] + a.group * heads +
                          r % in_group * width;
        kernels.scaled_copy(to, out + r * width, 1.0F / sum[r], width);
    }
}

void KvCache::attend(device::Context& context, i64 number, std::span<const Segment> segments,
                     const View& qkv, const View& out) {
    const Layer& layer = layers_[static_cast<size_t>(number)];
    const i64 n_groups = layer.config.n_groups;
    store(context, layer, segments, qkv);
    const i64 tokens = std::max<i64>(1, block / layer.in_group);  // tokens of a task
    auto* const scratch = reinterpret_cast<float*>(scratch_.data());
    i64 n_tasks = 0;
    for (const Segment& segment : segments) n_tasks += ceil_div(segment.n, tokens);
    cpu::pool_of(context).run(n_tasks * n_groups, [&](i64 task, int worker) {
        // The last tokens of a sequence have the most keys, so their tasks start first.
        i64 left = n_tasks - 1 - task / n_groups;  // tasks of earlier tokens
        i64 row = 0;
        const Segment* segment = segments.data();
        for (; left >= ceil_div(segment->n, tokens); ++segment) {
            left -= ceil_div(segment->n, tokens);
            row += segment->n;
        }
        const i64 at = left * tokens;
        attend_rows({.layer = layer,
                     .group = task % n_groups,
                     .sequence = segment->sequence,
                     .first = segment->first + at,
                     .tokens = std::min(tokens, segment->n - at),
                     .at = row + at,
                     .qkv = qkv,
                     .out = out},
                    scratch + worker * scratch_floats());
    });
}

}  // namespace lm::infer
