// SPDX-License-Identifier: Apache-2.0
#include "infer/token_decoder.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "cost/workspace.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/storage.hpp"
#include "infer/mixed_linear.hpp"
#include "model/positions.hpp"

namespace lm::infer {
namespace {

constexpr i64 logits_bytes = i64{64} << 20;

}  // namespace

TokenDecoder TokenDecoder::allocate(WeightMemory& weights, i64 sequences, i64 context,
                                    device::Device& device) {
    TokenDecoder decoder(weights, device,
                         KvCache::allocate(weights.config(), sequences, context, device));
    decoder.reserve_activations(sequences, context);
    return decoder;
}

View TokenDecoder::reserve(DType dtype, const Shape& shape) {
    buffers_.push_back(device_->allocate(shape.numel() * size_of(dtype), "activations"));
    return buffers_.back().view(dtype, shape);
}

void TokenDecoder::reserve_activations(i64 sequences, i64 context) {
    const spec::ModelConfig& c = weights_->config();
    const i64 n = std::max(sequences, std::min(most_rows, context));
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
    if (c.joint_qk_norm) squares_ = fp32({2, n});
    attended_ = fp32({n, c.attention_width()});
    up_ = fp32({n * up});
    activated_ = fp32({n, c.ffn_hidden});
    mean_ = fp32({n});
    rstd_ = fp32({n});
    positions_ = reserve(DType::int32, {1, n});
    reserve_rotary(context);
    const i64 s = std::clamp<i64>(logits_bytes / 4 / c.vocab_size, sequences, n);
    logits_ = fp32({s, c.vocab_size});
    row_stats_ = fp32({3, s});
}

void TokenDecoder::reserve_rotary(i64 context) {
    const spec::ModelConfig& c = weights_->config();
    rotary_ = spec::rotary_frequencies(c);
    if (original_context() > 0) longer_row_ = context;
    // Reserves the tables of sequences up to the original context and beyond it.
    const auto table = [&](i64 width, const auto& rows_of_length) {
        const View view = reserve(DType::fp32, {longer_row_ + context, width});
        for (i64 row = 0; row <= longer_row_; row += context) {
            const i64 length = row == 0 ? 1 : INT64_MAX;
            const std::vector<float> rows = rows_of_length(length);
            device_->copy_from_host(view.rows(row, row + context), rows.data());
        }
        return view;
    };
    for (const spec::RotaryFrequencies& rotary : rotary_) {
        angles_.push_back(table(c.rotary_dim(), [&](i64 length) {
            return model::rotary_angles(context, c.rotary_dim(), rotary, length);
        }));
        if (rotary.query_beta == 0) continue;
        query_scales_ = table(
            c.head_dim, [&](i64) { return model::query_scales(context, c.head_dim, rotary); });
    }
}

i64 TokenDecoder::original_context() const {
    for (const spec::RotaryFrequencies& rotary : rotary_) {
        if (spec::depends_on_length(rotary)) return rotary.scaling.original_length;
    }
    return 0;
}

void TokenDecoder::linear(const View& x, const View& w, const View& bias, const View& y) {
    device::Context call = context();
    mixed_linear(call, {.x = x, .w = w, .bias = bias, .y = y, .apart = apart_}, band_);
}

void TokenDecoder::norm(const Add& add, const model::NormParams& params, const View& y) {
    const spec::ModelConfig& c = weights_->config();
    device::Context call = context();
    const i64 n = y ? y[0] : add.sum[0];
    device::residual_norm_forward(
        call, {.norm = c.normalization,
               .eps = c.norm_eps,
               .branch = add.branch,
               .residual = add.residual,
               .sum = add.sum,
               .weight = params.weight,
               .bias = params.bias,
               .y = y,
               .mean = y && spec::is_centred(c.normalization) ? mean_.rows(0, n) : View{},
               .rstd = y ? rstd_.rows(0, n) : View{},
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

void TokenDecoder::attention(i64 layer, std::span<const Segment> segments, const View& x,
                             const View& out) {
    const spec::ModelConfig& c = weights_->config();
    const auto index = static_cast<size_t>(layer);
    const model::AttentionParams& matrices = weights_->matrices().layers[index].attention;
    const model::AttentionParams& vectors = weights_->vectors().layers[index].attention;
    const i64 n = x[0];
    device::Context call = context();
    // Names all properties of a layer, so that a new one does not compile until the decoder
    // computes with it. KvCache limits the keys to the window, mlp() has the activation, and
    // forward() the parallel residual and the places of the norms.
    const spec::LayerConfig own = c.layer(layer);
    const auto& [n_groups, position, rotary, window, activation, parallel_residual, shared_norm,
                 norms] = own;
    const Shape batch{1, n, c.qkv_rows(own)};
    const auto shaped = [&](const View& buffer) {
        return buffer.rows(0, batch.numel()).reshape({n, batch[2]});
    };
    const View qkv = shaped(qkv_);
    linear(x, matrices.qkv_weight, vectors.qkv_bias, c.qk_norm ? shaped(projected_) : qkv);
    if (c.joint_qk_norm) {
        const View squares = squares_.flat().rows(0, 2 * n).reshape({2, n});
        const View whole = shaped(projected_).reshape(batch);
        device::joint_norm_sums(call, {.a = whole,
                                       .b = whole,
                                       .query = c.n_heads * c.head_dim,
                                       .key = n_groups * c.head_dim,
                                       .sums = squares});
        device::joint_norm_forward(call, {.eps = c.norm_eps,
                                          .x = whole,
                                          .query_weight = vectors.query_norm.weight,
                                          .key_weight = vectors.key_norm.weight,
                                          .squares = squares,
                                          .y = qkv.reshape(batch),
                                          .one_plus = c.norm_1p});
    } else if (c.qk_norm) {
        device::head_norm_forward(call, {.norm = c.normalization,
                                         .eps = c.norm_eps,
                                         .x = shaped(projected_).reshape(batch),
                                         .query_weight = vectors.query_norm.weight,
                                         .query_bias = vectors.query_norm.bias,
                                         .key_weight = vectors.key_norm.weight,
                                         .key_bias = vectors.key_norm.bias,
                                         .y = qkv.reshape(batch),
                                         .n_heads = c.n_heads,
                                         .n_groups = n_groups,
                                         .one_plus = c.norm_1p});
    }
    switch (position) {
        case spec::PositionEmbedding::rope: {
            const auto turn = [&](const View& angles, i64 n_heads) {
                device::rotary(call, {.x = qkv.reshape(batch),
                                      .positions = positions_.flat().rows(0, n).reshape({1, n}),
                                      .angles = angles,
                                      .n_heads = n_heads,
                                      .head_dim = c.head_dim,
                                      .interleaved = c.rotary_interleaved});
            };
            turn(angles_[static_cast<size_t>(spec::index_of(rotary_, rotary))],
                 c.n_heads + n_groups);
            if (rotary.query_beta > 0) turn(query_scales_, c.n_heads);
            break;
        }
        case spec::PositionEmbedding::absolute:  // embed() has added them
        case spec::PositionEmbedding::alibi:     // KvCache adds the slopes
        case spec::PositionEmbedding::none:
            break;
    }
    const View attended = rows_of(attended_, n);
    cache_.attend(call, layer, segments, qkv, attended);
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

View TokenDecoder::forward(std::span<const i32> tokens, std::span<const Segment> segments) {
    const i64 n = std::ssize(tokens);
    LM_CHECK(n <= stream_[0], "expected at most {} tokens, got {}", stream_[0], n);
    apart_ = std::ssize(segments) == n;
    i32* position = positions_.as<i32>();
    for (const Segment& segment : segments) {
        const i64 first = segment.first + (segment.longer ? longer_row_ : 0);
        for (i64 i = 0; i < segment.n; ++i) *position++ = static_cast<i32>(first + i);
    }
    const View stream = rows_of(stream_, n);
    const View normed = rows_of(normed_, n);
    const View branch = rows_of(branch_, n);
    ThreadPool& pool = static_cast<cpu::CpuDevice&>(*device_).pool();
    embed(tokens, branch);
    const auto scaled = [](const View& x, double factor) {
        if (factor == 1) return;
        cpu::vector_kernels().scale(x.as<float>(), static_cast<float>(factor), x.numel());
    };
    const spec::ModelConfig& c = weights_->config();
    scaled(branch, c.embedding_scale);
    View residual;  // [n, C] fp32; none in the first layer, where `branch` is the whole stream
    for (i64 layer = 0; layer < c.n_layers; ++layer) {
        weights_->use(layer, pool);
        const model::LayerParams& vectors = weights_->vectors().layers[static_cast<size_t>(layer)];
        const spec::LayerConfig config = c.layer(layer);
        // Without a norm, attention and MLP read the stream itself.
        const View& input = norms_input(config.norms) ? normed : stream;
        const View output = norms_input(config.norms) ? normed : View{};
        norm({branch, residual, stream}, vectors.attention_norm, output);
        residual = stream;
        attention(layer, segments, input, branch);
        if (norms_output(config.norms))
            norm({{}, branch, {}}, vectors.attention_output_norm, branch);
        scaled(branch, c.residual_scale);
        View mlp_input = input;
        if (config.parallel_residual) {
            if (!norms_input(config.norms)) {
                std::ranges::copy(stream.span<float>(), normed.as<float>());
                mlp_input = normed;  // the stream before attention
            } else if (!config.shared_norm) {
                norm({{}, stream, {}}, vectors.mlp_norm, normed);
            }
            cpu::vector_kernels().add(stream.as<float>(), branch.as<float>(), stream.numel());
        } else {
            norm({branch, residual, stream}, vectors.mlp_norm, output);
        }
        mlp(layer, mlp_input, branch);
        if (norms_output(config.norms)) norm({{}, branch, {}}, vectors.mlp_output_norm, branch);
        scaled(branch, c.residual_scale);
    }
    norm({branch, residual, {}}, weights_->vectors().final_norm, normed);
    return normed;
}

View TokenDecoder::logits(const View& x, bool apart) {
    apart_ = apart;
    const View out = rows_of(logits_, x[0]);
    // Computes no logits for the padding of the vocabulary.
    const spec::ModelConfig& c = weights_->config();
    linear(x, weights_->matrices().head.weight.rows(0, c.vocab_size), {}, out);
    if (c.logit_scale != 1) {
        cpu::vector_kernels().scale(out.as<float>(), static_cast<float>(c.logit_scale),
                                    out.numel());
    }
    return out;
}

}  // namespace lm::infer
