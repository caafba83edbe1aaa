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

}  // namespace

// One task has the queries of all heads of a group for some tokens. Row r belongs to head r % (H/G)
// of the group and to token r / (H/G).
struct KvCache::Rows {
    i64 layer, group;
    i64 first;        // number of the first token in the sequence
    i64 tokens;       // number of tokens
    i64 at;           // row of the first token in qkv and out
    const View& qkv;  // [n, (H+2G)*D] fp32
    const View& out;  // [n, H*D] fp32
};

KvCache::KvCache(const spec::ModelConfig& config, i64 n_blocks, device::Buffer memory,
                 device::Buffer scratch)
    : config_(config),
      in_group_(config.n_heads / config.n_groups),
      n_blocks_(n_blocks),
      slopes_(config.position == spec::PositionEmbedding::alibi
                  ? model::alibi_slopes(config.n_heads)
                  : std::vector<float>(static_cast<size_t>(config.n_heads))),
      memory_(std::move(memory)),
      scratch_(std::move(scratch)) {}

KvCache KvCache::allocate(const spec::ModelConfig& config, i64 context, device::Device& device) {
    const i64 n_blocks = ceil_div(context, block);
    const i64 floats =
        checked_mul(config.n_layers * config.n_groups * n_blocks, 2 * block * config.head_dim);
    KvCache cache(config, n_blocks, device.allocate(4 * floats, "keys and values"), {});
    const i64 workers = static_cast<cpu::CpuDevice&>(device).pool().size();
    cache.scratch_ = device.allocate(4 * workers * cache.scratch_floats(), "attention");
    return cache;
}

float* KvCache::block_of(i64 layer, i64 group, i64 number) const {
    const i64 index = (layer * config_.n_groups + group) * n_blocks_ + number;
    return reinterpret_cast<float*>(memory_.data()) + index * 2 * block * config_.head_dim;
}

// Returns the number of floats in the scratch memory of one worker: queries and outputs [R, D],
// scores [R, 64], maximum and sum [R], for R rows.
i64 KvCache::scratch_floats() const {
    const i64 rows = std::max(block, in_group_);
    return round_up(rows * (2 * config_.head_dim + block + 2), 16);
}

void KvCache::store(device::Context& context, i64 layer, i64 first, const View& qkv) {
    const i64 width = config_.head_dim;
    cpu::pool_of(context).run(config_.n_groups, [&](i64 group, int) {
        for (i64 i = 0; i < qkv[0]; ++i) {
            const i64 token = first + i;
            const float* const key =
                qkv.as<float>() + i * qkv[1] + (config_.n_heads + group) * width;
            float* const to = block_of(layer, group, token / block);
            for (i64 d = 0; d < width; ++d) to[d * block + token % block] = key[d];
            std::copy_n(key + config_.n_groups * width, width,
                        to + block * width + token % block * width);
        }
    });
}

void KvCache::attend_rows(const Rows& a, float* scratch) const {
    const cpu::VectorKernels& kernels = cpu::vector_kernels();
    const i64 width = config_.head_dim;
    const i64 n_rows = a.tokens * in_group_;
    float* const q = scratch;
    float* const out = q + n_rows * width;
    float* const scores = out + n_rows * width;
    float* const max = scores + n_rows * block;
    float* const sum = max + n_rows;
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)));
    const i64 heads = in_group_ * width;  // the heads of a group are adjacent in a row
    for (i64 t = 0; t < a.tokens; ++t) {
        const float* const row = a.qkv.as<float>() + (a.at + t) * a.qkv[1] + a.group * heads;
        kernels.scaled_copy(q + t * heads, row, scale, heads);
    }
    std::fill_n(max, n_rows, -std::numeric_limits<float>::infinity());
    std::fill_n(sum, n_rows, 0.0F);
    const auto first_key = [&](i64 token) {
        return config_.window > 0 ? std::max<i64>(token - config_.window + 1, 0) : 0;
    };
    const i64 end = a.first + a.tokens;
    const i64 first_block = first_key(a.first) / block * block;
    for (i64 key = first_block; key < end; key += block) {
        const i64 n_keys = std::min(block, end - key);
        const float* const keys = block_of(a.layer, a.group, key / block);
        kernels.small_product(n_rows, n_keys, width, q, width, 1, keys, block, scores, block,
                              false);
        for (i64 r = 0; r < n_rows; ++r) {
            const i64 token = a.first + r / in_group_;
            const float slope = slopes_[static_cast<size_t>(a.group * in_group_ + r % in_group_)];
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
        float* const to = a.out.as<float>() + (a.at + r / in_group_) * a.out[1] + a.group * heads +
                          r % in_group_ * width;
        kernels.scaled_copy(to, out + r * width, 1.0F / sum[r], width);
    }
}

void KvCache::attend(device::Context& context, i64 layer, i64 first, const View& qkv,
                     const View& out) {
    store(context, layer, first, qkv);
    const i64 tokens = std::max<i64>(1, block / in_group_);  // tokens of a task
    const i64 n_tasks = ceil_div(qkv[0], tokens);
    auto* const scratch = reinterpret_cast<float*>(scratch_.data());
    cpu::pool_of(context).run(n_tasks * config_.n_groups, [&](i64 task, int worker) {
        // The last tokens have the most keys, so their tasks start first.
        const i64 at = (n_tasks - 1 - task / config_.n_groups) * tokens;
        attend_rows({.layer = layer,
                     .group = task % config_.n_groups,
                     .first = first + at,
                     .tokens = std::min(tokens, qkv[0] - at),
                     .at = at,
                     .qkv = qkv,
                     .out = out},
                    scratch + worker * scratch_floats());
    });
}

}  // namespace lm::infer
