// SPDX-License-Identifier: Apache-2.0
#include "infer/token_decoder.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/error.hpp"
#include "cost/workspace.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/matmul.hpp"
#include "cpu/storage.hpp"
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
    i64 first;        // number of the first token in the sequence
    i64 tokens;       // number of tokens
    i64 at;           // row of the first token in qkv and out
    const View& qkv;  // [n, (H+2G)*D] fp32
    const View& out;  // [n, H*D] fp32
};

KvCache::KvCache(const spec::ModelConfig& config, i64 context)
    : head_dim_(config.head_dim), n_blocks_(ceil_div(context, block)) {
    i64 n_groups = 0;
    for (i64 i = 0; i < config.n_layers; ++i) {
        const spec::LayerConfig layer = config.layer(i);
        layers_.push_back({.config = layer,
                           .in_group = config.n_heads / layer.n_groups,
                           .first_group = n_groups,
                           .slopes = slopes_of(layer.position, config.n_heads)});
        n_groups += layer.n_groups;
    }
}

KvCache KvCache::allocate(const spec::ModelConfig& config, i64 context, device::Device& device) {
    KvCache cache(config, context);
    const Layer& last = cache.layers_.back();
    const i64 n_groups = last.first_group + last.config.n_groups;
    const i64 floats = checked_mul(n_groups * cache.n_blocks_, 2 * block * config.head_dim);
    cache.memory_ = device.allocate(4 * floats, "keys and values");
    const i64 workers = static_cast<cpu::CpuDevice&>(device).pool().size();
    cache.scratch_ = device.allocate(4 * workers * cache.scratch_floats(), "attention");
    return cache;
}

float* KvCache::block_of(const Layer& layer, i64 group, i64 number) const {
    const i64 index = (layer.first_group + group) * n_blocks_ + number;
    return reinterpret_cast<float*>(memory_.data()) + index * 2 * block * head_dim_;
}

// Returns the number of floats in the scratch memory of one worker: queries and outputs [R, D],
// scores [R, 64], maximum and sum [R], for R rows.
i64 KvCache::scratch_floats() const {
    i64 rows = block;
    for (const Layer& layer : layers_) rows = std::max(rows, layer.in_group);
    return round_up(rows * (2 * head_dim_ + block + 2), 16);
}

void KvCache::store(device::Context& context, const Layer& layer, i64 first, const View& qkv) {
    const i64 width = head_dim_;
    const i64 n_groups = layer.config.n_groups;
    cpu::pool_of(context).run(n_groups, [&](i64 group, int) {
        for (i64 i = 0; i < qkv[0]; ++i) {
            const i64 token = first + i;
            const float* const key =
                qkv.as<float>() + i * qkv[1] + (layer.in_group * n_groups + group) * width;
            float* const to = block_of(layer, group, token / block);
            for (i64 d = 0; d < width; ++d) to[d * block + token % block] = key[d];
            std::copy_n(key + n_groups * width, width, to + block * width + token % block * width);
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
    const auto scale = static_cast<float>(1.0 / std::sqrt(static_cast<double>(width)));
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
        const float* const keys = block_of(a.layer, a.group, key / block);
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

void KvCache::attend(device::Context& context, i64 number, i64 first, const View& qkv,
                     const View& out) {
    const Layer& layer = layers_[static_cast<size_t>(number)];
    const i64 n_groups = layer.config.n_groups;
    store(context, layer, first, qkv);
    const i64 tokens = std::max<i64>(1, block / layer.in_group);  // tokens of a task
    const i64 n_tasks = ceil_div(qkv[0], tokens);
    auto* const scratch = reinterpret_cast<float*>(scratch_.data());
    cpu::pool_of(context).run(n_tasks * n_groups, [&](i64 task, int worker) {
        // The last tokens have the most keys, so their tasks start first.
        const i64 at = (n_tasks - 1 - task / n_groups) * tokens;
        attend_rows({.layer = layer,
                     .group = task % n_groups,
                     .first = first + at,
                     .tokens = std::min(tokens, qkv[0] - at),
                     .at = at,
                     .qkv = qkv,
                     .out = out},
                    scratch + worker * scratch_floats());
    });
}

namespace {

// Linear layers with fp32 activations and weights of any storage type: y = x w^T + bias. For a few
// rows of x, each weight is read once from memory and widened to fp32 in registers. For many rows,
// mixed_linear() calls the CPU's GEMM; it first widens 16-bit weights to fp32 in scratch memory, a
// band of consecutive rows of w at a time.

using device::View;

struct MixedLinear {
    View x;     // [M, K] fp32
    View w;     // [N, K] fp32, bf16 or fp16
    View bias;  // [N] fp32; optional
    View y;     // [M, N] fp32
};

// The largest number of rows for which few() computes a layer. For more rows, the layer uses the
// CPU's GEMM, which packs its operands.
constexpr i64 few_rows = 8;
// The bytes of weights that one task reads, approximately. The division into tasks depends only on
// the shape and the type of the weights.
constexpr i64 task_bytes = i64{128} << 10;
// The largest size of a band of weights after widening to fp32, in bytes. Such a band is enough
// work for 64 threads.
constexpr i64 band_bytes = i64{64} << 20;

i64 band_rows(i64 inputs) {
    return std::max<i64>(cpu::max_tile_cols,
                         band_bytes / 4 / inputs / cpu::max_tile_cols * cpu::max_tile_cols);
}

void few(device::Context& context, const MixedLinear& a) {
    const i64 n = a.w[0];
    const i64 k = a.w[1];
    const i64 row_bytes = k * size_of(a.w.dtype);
    const i64 grain = std::max<i64>(4, task_bytes / row_bytes / 4 * 4);
    const float* const bias = cpu::maybe<float>(a.bias);
    cpu::pool_of(context).run_ranges(n, grain, [&](i64 begin, i64 end, int) {
        float* const y = a.y.as<float>() + begin;
        cpu::vector_kernels().row_products(
            {.m = a.x[0],
             .n = end - begin,
             .k = k,
             .x = a.x.as<float>(),
             .w = static_cast<const std::byte*>(a.w.data) + begin * row_bytes,
             .type = a.w.dtype,
             .y = y,
             .ldy = n});
        for (i64 i = 0; bias && i < a.x[0]; ++i) {
            cpu::vector_kernels().add(y + i * n, bias + begin, end - begin);
        }
    });
}

// Computes the columns [begin, begin + cols) of y. w: [cols, K] fp32.
void product(device::Context& context, const MixedLinear& a, const float* w, i64 begin, i64 cols) {
    const i64 n = a.y[1];
    const float* const bias = cpu::maybe<float>(a.bias);
    const cpu::Product form{
        .m = a.x[0], .n = cols, .k = a.x[1], .a = a.x.as<float>(), .b = w, .type = DType::fp32};
    cpu::matmul_of(context).run(context, form, [&](const cpu::Tile& tile) {
        for (i64 i = tile.row_begin; i < tile.row_end; ++i) {
            float* const y = a.y.as<float>() + i * n + begin + tile.col_begin;
            std::copy_n(tile.row(i), tile.width(), y);
            if (bias) cpu::vector_kernels().add(y, bias + begin + tile.col_begin, tile.width());
        }
    });
}

// Returns the number of floats in the scratch memory that linear layers with `inputs` inputs need;
// 0 for fp32 weights.
i64 band_floats(DType weights, i64 inputs) {
    return is_half(weights) ? band_rows(inputs) * inputs : 0;
}

// band: [at least band_floats()] fp32
// `context` belongs to a CPU device. band: [at least band_floats()] fp32.
void mixed_linear(device::Context& context, const MixedLinear& a, const View& band) {
    if (a.x[0] <= few_rows) return few(context, a);
    const i64 n = a.w[0];
    const i64 k = a.w[1];
    if (!is_half(a.w.dtype)) return product(context, a, a.w.as<float>(), 0, n);
    const cpu::Source weights(a.w);
    for (i64 begin = 0; begin < n; begin += band_rows(k)) {
        const i64 rows = std::min(band_rows(k), n - begin);
        float* const wide = band.as<float>();
        cpu::pool_of(context).run_ranges(rows, 16, [&](i64 first, i64 end, int) {
            weights.copy((begin + first) * k, 1.0F, wide + first * k, (end - first) * k);
        });
        product(context, a, wide, begin, rows);
    }
}

constexpr i64 logits_bytes = i64{64} << 20;

}  // namespace

TokenDecoder TokenDecoder::allocate(WeightMemory& weights, i64 context, device::Device& device) {
    TokenDecoder decoder(weights, device, KvCache::allocate(weights.config(), context, device));
    decoder.reserve_activations(context);
    return decoder;
}

View TokenDecoder::reserve(DType dtype, const Shape& shape) {
    buffers_.push_back(device_->allocate(shape.numel() * size_of(dtype), "activations"));
    return buffers_.back().view(dtype, shape);
}

void TokenDecoder::reserve_activations(i64 context) {
    const spec::ModelConfig& c = weights_->config();
    const i64 n = std::min(most_rows, context);
    i64 qkv = 0, up = 0;  // of the widest layer
    for (const spec::LayerConfig& layer : spec::layer_kinds(c)) {
        qkv = std::max(qkv, c.qkv_rows(layer));
        up = std::max(up, spec::is_gated(layer.activation) ? 2 * c.ffn_hidden : c.ffn_hidden);
    }
    const auto fp32 = [this](const Shape& shape) { return reserve(DType::fp32, shape); };
    const int n_threads = static_cast<cpu::CpuDevice&>(*device_).pool().size();
    workspace_ =
        reserve(DType::uint8, {cost::cpu_workspace_bytes(c, {}, {.seq_length = n}, n_threads)});
    const i64 inputs = std::max({c.hidden, c.ffn_hidden, c.attention_width()});
    const i64 band = std::max({band_floats(weights_->residency().dtype, c.hidden),
                               band_floats(weights_->residency().dtype, inputs), i64{1}});
    band_ = fp32({band});
    stream_ = fp32({n, c.hidden});
    normed_ = fp32({n, c.hidden});
    branch_ = fp32({n, c.hidden});
    qkv_ = fp32({n * qkv});
    if (c.qk_norm) projected_ = fp32({n * qkv});
    attended_ = fp32({n, c.attention_width()});
    up_ = fp32({n * up});
    activated_ = fp32({n, c.ffn_hidden});
    mean_ = fp32({n});
    rstd_ = fp32({n});
    positions_ = reserve(DType::int32, {1, n});
    rotary_ = spec::rotary_frequencies(c);
    for (const auto& [base, scaling] : rotary_) {
        angles_.push_back(fp32({context, c.rotary_dim()}));
        const std::vector<float> angles =
            model::rotary_angles(context, c.rotary_dim(), base, scaling);
        device_->copy_from_host(angles_.back(), angles.data());
    }
    const i64 s = std::clamp<i64>(logits_bytes / 4 / c.vocab_size, 1, n);
    logits_ = fp32({s, c.vocab_size});
    row_stats_ = fp32({3, s});
}

void TokenDecoder::linear(const View& x, const View& w, const View& bias, const View& y) {
    device::Context call = context();
    mixed_linear(call, {.x = x, .w = w, .bias = bias, .y = y}, band_);
}

void TokenDecoder::norm(const Add& add, const model::NormParams& params, const View& y) {
    const spec::ModelConfig& c = weights_->config();
    device::Context call = context();
    const i64 n = y[0];
    device::residual_norm_forward(
        call, {.norm = c.normalization,
               .eps = c.norm_eps,
               .branch = add.branch,
               .residual = add.residual,
               .sum = add.sum,
               .weight = params.weight,
               .bias = params.bias,
               .y = y,
               .mean = spec::is_centred(c.normalization) ? mean_.rows(0, n) : View{},
               .rstd = rstd_.rows(0, n),
               .one_plus = c.norm_1p});
}

// Writes the sum of the word embedding, which some models normalize, and the position embedding to
// `out`.
void TokenDecoder::embed(std::span<const i32> tokens, const View& out) {
    const spec::ModelConfig& c = weights_->config();
    const model::EmbeddingParams& matrices = weights_->matrices().embedding;
    const model::EmbeddingParams& vectors = weights_->vectors().embedding;
    const cpu::Source words(matrices.word);
    const cpu::Source rows(matrices.position);
    const i64 width = c.hidden;
    for (i64 i = 0; i < std::ssize(tokens); ++i) {
        words.copy(tokens[static_cast<size_t>(i)] * width, 1.0F, out.as<float>() + i * width,
                   width);
    }
    if (c.embedding_norm) norm({.branch = {}, .residual = out, .sum = {}}, vectors.norm, out);
    if (!rows) return;
    std::vector<float> scratch(static_cast<size_t>(width));
    for (i64 i = 0; i < std::ssize(tokens); ++i) {
        const float* const row = rows.row(positions_.as<i32>()[i] * width, width, scratch.data());
        cpu::vector_kernels().add(out.as<float>() + i * width, row, width);
    }
}

void TokenDecoder::attention(i64 layer, i64 first, const View& x, const View& out) {
    const spec::ModelConfig& c = weights_->config();
    const auto index = static_cast<size_t>(layer);
    const model::AttentionParams& matrices = weights_->matrices().layers[index].attention;
    const model::AttentionParams& vectors = weights_->vectors().layers[index].attention;
    const i64 n = x[0];
    device::Context call = context();
    const spec::LayerConfig own = c.layer(layer);
    const Shape batch{1, n, c.qkv_rows(own)};
    const auto shaped = [&](const View& buffer) {
        return buffer.rows(0, batch.numel()).reshape({n, batch[2]});
    };
    const View qkv = shaped(qkv_);
    linear(x, matrices.qkv_weight, vectors.qkv_bias, c.qk_norm ? shaped(projected_) : qkv);
    if (c.qk_norm) {
        device::head_norm_forward(call, {.norm = c.normalization,
                                         .eps = c.norm_eps,
                                         .x = shaped(projected_).reshape(batch),
                                         .query_weight = vectors.query_norm.weight,
                                         .query_bias = vectors.query_norm.bias,
                                         .key_weight = vectors.key_norm.weight,
                                         .key_bias = vectors.key_norm.bias,
                                         .y = qkv.reshape(batch),
                                         .n_heads = c.n_heads,
                                         .n_groups = own.n_groups,
                                         .one_plus = c.norm_1p});
    }
    switch (own.position) {
        case spec::PositionEmbedding::rope: {
            const auto table = static_cast<size_t>(spec::index_of(rotary_, own.rotary));
            device::rotary(call, {.x = qkv.reshape(batch),
                                  .positions = positions_.flat().rows(0, n).reshape({1, n}),
                                  .angles = angles_[table],
                                  .n_heads = c.n_heads + own.n_groups,
                                  .head_dim = c.head_dim,
                                  .interleaved = c.rotary_interleaved});
            break;
        }
        case spec::PositionEmbedding::absolute:  // embed() has added them
        case spec::PositionEmbedding::alibi:     // KvCache adds the slopes
        case spec::PositionEmbedding::none:
            break;
    }
    const View attended = rows_of(attended_, n);
    cache_.attend(call, layer, first, qkv, attended);
    linear(attended, matrices.output_weight, vectors.output_bias, out);
}

void TokenDecoder::mlp(i64 layer, const View& x, const View& out) {
    const spec::ModelConfig& c = weights_->config();
    const spec::Activation activation = c.layer(layer).activation;
    const auto index = static_cast<size_t>(layer);
    const model::MlpParams& matrices = weights_->matrices().layers[index].mlp;
    const model::MlpParams& vectors = weights_->vectors().layers[index].mlp;
    device::Context call = context();
    const i64 width = spec::is_gated(activation) ? 2 * c.ffn_hidden : c.ffn_hidden;
    const View up = up_.rows(0, x[0] * width).reshape({x[0], width});
    const View activated = rows_of(activated_, x[0]);
    linear(x, matrices.up_weight, vectors.up_bias, up);
    if (spec::is_gated(activation)) {
        device::gated_forward(call, {.gate = activation, .x = up, .y = activated});
    } else {
        device::activation_forward(call, {.x = up, .y = activated, .activation = activation});
    }
    linear(activated, matrices.down_weight, vectors.down_bias, out);
}

View TokenDecoder::forward(std::span<const i32> tokens, i64 first) {
    const i64 n = std::ssize(tokens);
    LM_CHECK(n <= stream_[0], "expected at most {} tokens, got {}", stream_[0], n);
    for (i64 i = 0; i < n; ++i) positions_.as<i32>()[i] = static_cast<i32>(first + i);
    const View stream = rows_of(stream_, n);
    const View normed = rows_of(normed_, n);
    const View branch = rows_of(branch_, n);
    ThreadPool& pool = static_cast<cpu::CpuDevice&>(*device_).pool();
    embed(tokens, branch);
    View residual;  // [n, C] fp32; none in the first layer, where `branch` is the whole stream
    for (i64 layer = 0; layer < weights_->config().n_layers; ++layer) {
        weights_->use(layer, pool);
        const model::LayerParams& vectors = weights_->vectors().layers[static_cast<size_t>(layer)];
        norm({branch, residual, stream}, vectors.attention_norm, normed);
        residual = stream;
        attention(layer, first, normed, branch);
        norm({branch, residual, stream}, vectors.mlp_norm, normed);
        mlp(layer, normed, branch);
    }
    norm({branch, residual, {}}, weights_->vectors().final_norm, normed);
    return normed;
}

View TokenDecoder::logits(const View& x) {
    const View out = rows_of(logits_, x[0]);
    // Computes no logits for the padding of the vocabulary.
    linear(x, weights_->matrices().head.weight.rows(0, weights_->config().vocab_size), {}, out);
    return out;
}

}  // namespace lm::infer
