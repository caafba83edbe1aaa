// SPDX-License-Identifier: Apache-2.0
#include "convert/hf/reference.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.hpp"
#include "convert/hf/weights.hpp"

namespace lm::convert {
namespace {

using spec::PositionEmbedding;
using Values = std::vector<double>;

struct Matrix {
    i64 rows = 0;
    i64 cols = 0;
    Values values;

    Matrix(i64 n_rows, i64 n_cols)
        : rows(n_rows), cols(n_cols), values(static_cast<size_t>(n_rows * n_cols)) {}
    double* row(i64 i) { return values.data() + i * cols; }
    const double* row(i64 i) const { return values.data() + i * cols; }
};

// The query [T, heads * D], the key and the value [T, groups * D] of all T tokens. D: head size.
struct Qkv {
    Matrix query;
    Matrix key;
    Matrix value;
};

// Returns the ALiBi slope of a head (Press et al. 2022; build_alibi_tensor in modeling_bloom.py).
double alibi_slope(i64 head, i64 n_heads) {
    const double floor = std::exp2(std::floor(std::log2(static_cast<double>(n_heads))));
    if (head < static_cast<i64>(floor)) {
        return std::exp2(-8.0 * static_cast<double>(head + 1) / floor);
    }
    const i64 extra = 2 * (head - static_cast<i64>(floor)) + 1;
    return std::exp2(-8.0 * static_cast<double>(extra) / (2 * floor));
}

// The angle between two positions of each pair of a head, and the factor of cosines and sines.
struct RotaryTable {
    Values frequencies;
    double factor = 1;
};

// The functions below follow modeling_rope_utils.py of transformers 5.24, not spec/rotary.cpp, with
// which they are compared.

void scale_llama3(const spec::RotaryScaling& scaling, Values& frequencies) {
    const double original = static_cast<double>(scaling.original_length);
    for (double& plain : frequencies) {
        const double wavelength = 2 * std::numbers::pi / plain;
        const double low = scaling.low_freq_factor, high = scaling.high_freq_factor;
        if (wavelength < original / high) continue;
        const double smooth =
            wavelength > original / low ? 0 : (original / wavelength - low) / (high - low);
        plain = (1 - smooth) * plain / scaling.factor + smooth * plain;
    }
}

void scale_yarn(const spec::RotaryFrequencies& rotary, i64 dim, Values& frequencies) {
    const spec::RotaryScaling& scaling = rotary.scaling;
    const auto correction_dim = [&](double rotations) {
        return (static_cast<double>(dim) * std::log(static_cast<double>(scaling.original_length) /
                                                    (rotations * 2 * std::numbers::pi))) /
               (2 * std::log(rotary.base));
    };
    double low = correction_dim(scaling.beta_fast);
    double high = correction_dim(scaling.beta_slow);
    if (scaling.truncate) {
        low = std::floor(low);
        high = std::ceil(high);
    }
    low = std::max(low, 0.0);
    high = std::min(high, static_cast<double>(dim - 1));
    if (low == high) high += 0.001;
    for (size_t i = 0; i < frequencies.size(); ++i) {
        const double ramp =
            std::min(std::max((static_cast<double>(i) - low) / (high - low), 0.0), 1.0);
        frequencies[i] = frequencies[i] / scaling.factor * ramp + frequencies[i] * (1 - ramp);
    }
}

RotaryTable rotary_table(const spec::RotaryFrequencies& rotary, i64 dim, i64 n_tokens) {
    const spec::RotaryScaling& scaling = rotary.scaling;
    RotaryTable table;
    for (i64 i = 0; i < dim / 2; ++i) {
        table.frequencies.push_back(
            1 / std::pow(rotary.base, static_cast<double>(2 * i) / static_cast<double>(dim)));
    }
    switch (scaling.rule) {
        case spec::RotaryRule::none:
            break;
        case spec::RotaryRule::linear:
            for (double& frequency : table.frequencies) frequency /= scaling.factor;
            break;
        case spec::RotaryRule::llama3:
            scale_llama3(scaling, table.frequencies);
            break;
        case spec::RotaryRule::yarn: {
            const auto mscale = [&](double of) {
                return scaling.factor <= 1 ? 1 : 0.1 * of * std::log(scaling.factor) + 1;
            };
            scale_yarn(rotary, dim, table.frequencies);
            table.factor = mscale(scaling.mscale) / mscale(scaling.mscale_all_dim);
            break;
        }
        case spec::RotaryRule::longrope: {
            const bool longer = n_tokens > scaling.original_length;
            for (size_t i = 0; i < table.frequencies.size(); ++i)
                table.frequencies[i] /= (longer ? scaling.long_factors : scaling.short_factors)[i];
            if (scaling.factor > 1)
                table.factor =
                    std::sqrt(1 + std::log(scaling.factor) /
                                      std::log(static_cast<double>(scaling.original_length)));
            break;
        }
    }
    if (scaling.attention_factor > 0) table.factor = scaling.attention_factor;
    return table;
}

// The tensors of one layer, or those before and after all layers.
struct Place {
    std::string start;  // start of the names in the files: "model.layers.3."
    std::span<const HfClass::Row> rows;
    spec::LayerConfig config = {};  // of a layer
};

class Reference {
  public:
    Reference(const HfModel& model, HfWeights weights)
        : c_(model.config), hf_(*model.hf_class), weights_(std::move(weights)) {}

    Values logits(std::span<const i32> tokens) const {
        const std::string prefix(hf_.prefix);
        const Place before{prefix, hf_.before_layers};
        const Place after{prefix, hf_.after_layers};
        const Matrix word = matrix(before, "embedding.word", "weight");
        Matrix x(static_cast<i64>(tokens.size()), c_.hidden);
        for (i64 t = 0; t < x.rows; ++t) {
            std::copy_n(word.row(tokens[static_cast<size_t>(t)]), c_.hidden, x.row(t));
        }
        if (has_table(c_.position)) {
            add_positions(x, matrix(before, "embedding.position", "weight"));
        }
        if (c_.embedding_norm) x = norm(x, before, "embedding.norm");
        scale(x, c_.embedding_scale);
        for (i64 i = 0; i < c_.n_layers; ++i) {
            const Place layer{fmt::format("{}{}{}.", prefix, hf_.layer_prefix, i), hf_.in_layers,
                              c_.layer(i)};
            const spec::NormPlacement norms = layer.config.norms;
            const auto normed = [&](bool present, const Matrix& values, const char* name) {
                return present ? norm(values, layer, name) : values;
            };
            const Matrix before_layer = x;
            Matrix attended = attention(normed(norms_input(norms), x, "attention.norm"), layer);
            attended = normed(norms_output(norms), attended, "attention.output_norm");
            scale(attended, c_.residual_scale);
            add(x, attended);
            const char* const mlp_norm = layer.config.shared_norm ? "attention.norm" : "mlp.norm";
            const Matrix& read = layer.config.parallel_residual ? before_layer : x;
            Matrix mixed = mlp(normed(norms_input(norms), read, mlp_norm), layer);
            mixed = normed(norms_output(norms), mixed, "mlp.output_norm");
            scale(mixed, c_.residual_scale);
            add(x, mixed);
        }
        x = norm(x, after, "final_norm");
        const Matrix head = c_.untied_head ? matrix(fmt::format("{}.weight", hf_.head)) : word;
        Matrix logits = times(x, head, false);
        scale(logits, c_.logit_scale);
        return std::move(logits.values);
    }

  private:
    Matrix matrix(const std::string& name) const {
        const SourceMatrix from = weights_.at(name).matrix();
        std::vector<float> values(static_cast<size_t>(from.rows * from.cols));
        SourceReader().read(from, DType::fp32, reinterpret_cast<std::byte*>(values.data()),
                            from.cols);
        Matrix result(from.rows, from.cols);
        std::ranges::copy(values, result.values.begin());
        return result;
    }

    // `name`: the module in lm-utils. `kind`: "weight" or "bias".
    Matrix matrix(const Place& place, const std::string& name, const char* kind) const {
        const auto row = std::ranges::find(place.rows, name, &HfClass::Row::ours);
        LM_CHECK(row != place.rows.end(), "expected {} in {}", name, hf_.class_name);
        return matrix(fmt::format("{}{}.{}", place.start, row->theirs, kind));
    }

    void add_positions(Matrix& x, const Matrix& position) const {
        for (i64 t = 0; t < x.rows; ++t) {
            for (i64 i = 0; i < c_.hidden; ++i) x.row(t)[i] += position.row(t)[i];
        }
    }

    static void scale(Matrix& x, double factor) {
        for (double& value : x.values) value *= factor;
    }

    static void add(Matrix& x, const Matrix& y) {
        for (size_t i = 0; i < x.values.size(); ++i) x.values[i] += y.values[i];
    }

    Matrix norm(const Matrix& x, const Place& place, const std::string& name) const {
        const bool centred = is_centred(c_.normalization);
        const Values weight = matrix(place, name, "weight").values;
        const Values bias =
            c_.has_norm_bias() ? matrix(place, name, "bias").values : Values(weight.size());
        const auto n = static_cast<double>(x.cols);
        Matrix y(x.rows, x.cols);
        for (i64 t = 0; t < x.rows; ++t) {
            double mean = 0;
            for (i64 c = 0; c < x.cols && centred; ++c) mean += x.row(t)[c] / n;
            double variance = 0;
            for (i64 c = 0; c < x.cols; ++c) variance += std::pow(x.row(t)[c] - mean, 2) / n;
            const double scale = 1 / std::sqrt(variance + c_.norm_eps);
            for (i64 c = 0; c < x.cols; ++c) {
                const auto i = static_cast<size_t>(c);
                const double factor = weight[i] + (c_.norm_1p ? 1 : 0);
                y.row(t)[c] = (x.row(t)[c] - mean) * scale * factor + bias[i];
            }
        }
        return y;
    }

    // Normalizes each head of x separately.
    void normalize_heads(Matrix& x, const Place& place, const std::string& name) const {
        const i64 rows = x.rows;
        x.rows = rows * (x.cols / c_.head_dim);
        x.cols = c_.head_dim;
        x = norm(x, place, name);
        x.cols = x.rows / rows * c_.head_dim;
        x.rows = rows;
    }

    // Returns the product of x and the weight. The weight is [out, in]; with `conv1d`, [in, out] as
    // in Conv1D of transformers.
    static Matrix times(const Matrix& x, const Matrix& weight, bool conv1d) {
        Matrix y(x.rows, conv1d ? weight.cols : weight.rows);
        for (i64 row = 0; row < weight.rows; ++row) {
            const double* w = weight.row(row);
            for (i64 t = 0; t < x.rows; ++t) {
                if (conv1d) {
                    const double value = x.row(t)[row];
                    for (i64 out = 0; out < y.cols; ++out) y.row(t)[out] += value * w[out];
                } else {
                    double sum = 0;
                    for (i64 in = 0; in < x.cols; ++in) sum += x.row(t)[in] * w[in];
                    y.row(t)[row] = sum;
                }
            }
        }
        return y;
    }

    Matrix linear(const Matrix& x, const Place& layer, const std::string& name,
                  bool has_bias) const {
        Matrix y = times(x, matrix(layer, name, "weight"), hf_.conv1d);
        if (!has_bias) return y;
        const Values bias = matrix(layer, name, "bias").values;
        for (i64 t = 0; t < y.rows; ++t) {
            for (i64 o = 0; o < y.cols; ++o) y.row(t)[o] += bias[static_cast<size_t>(o)];
        }
        return y;
    }

    static Matrix cols_of(const Matrix& x, i64 begin, i64 n) {
        Matrix y(x.rows, n);
        for (i64 t = 0; t < x.rows; ++t) std::copy_n(x.row(t) + begin, n, y.row(t));
        return y;
    }

    Qkv qkv(const Matrix& x, const Place& layer) const {
        const bool bias = c_.has_qkv_bias();
        const bool fused = std::ranges::count(layer.rows, "attention.qkv", &HfClass::Row::ours) > 0;
        if (!fused) {
            return {linear(x, layer, "attention.query", bias),
                    linear(x, layer, "attention.key", bias),
                    linear(x, layer, "attention.value", bias)};
        }
        const Matrix all = linear(x, layer, "attention.qkv", bias);
        const i64 d = c_.head_dim;
        const i64 width = c_.n_heads * d;
        const i64 n_groups = layer.config.n_groups;
        const i64 kv_width = n_groups * d;
        if (hf_.qkv == QkvOrder::whole) {
            return {cols_of(all, 0, width), cols_of(all, width, kv_width),
                    cols_of(all, width + kv_width, kv_width)};
        }
        // Each row of `all` is [groups, heads of the group + 2, D].
        Qkv result{Matrix(x.rows, width), Matrix(x.rows, kv_width), Matrix(x.rows, kv_width)};
        const i64 n = width / n_groups;
        for (i64 t = 0; t < x.rows; ++t) {
            for (i64 group = 0; group < n_groups; ++group) {
                const double* from = all.row(t) + group * (n + 2 * d);
                std::copy_n(from, n, result.query.row(t) + group * n);
                std::copy_n(from + n, d, result.key.row(t) + group * d);
                std::copy_n(from + n + d, d, result.value.row(t) + group * d);
            }
        }
        return result;
    }

    // Rotates the halves, or the adjacent pairs, of each head, or of its first part (Su et al.
    // 2021; apply_rotary_pos_emb of transformers).
    void rotate(Matrix& x, const RotaryTable& table) const {
        const i64 half = std::ssize(table.frequencies);
        for (i64 t = 0; t < x.rows; ++t) {
            for (i64 head = 0; head < x.cols / c_.head_dim; ++head) {
                double* v = x.row(t) + head * c_.head_dim;
                for (i64 i = 0; i < half; ++i) {
                    const double angle =
                        static_cast<double>(t) * table.frequencies[static_cast<size_t>(i)];
                    const double cosine = table.factor * std::cos(angle);
                    const double sine = table.factor * std::sin(angle);
                    double& first = v[c_.rotary_interleaved ? 2 * i : i];
                    double& second = v[c_.rotary_interleaved ? 2 * i + 1 : i + half];
                    const double a = first;
                    const double b = second;
                    first = a * cosine - b * sine;
                    second = b * cosine + a * sine;
                }
            }
        }
    }

    // Scales each query by its position (get_llama_4_attn_scale of transformers).
    static void scale(Matrix& query, double beta, i64 original) {
        for (i64 t = 0; t < query.rows; ++t) {
            const double by = 1 + beta * std::log(1 + std::floor(static_cast<double>(t) /
                                                                 static_cast<double>(original)));
            for (i64 i = 0; i < query.cols; ++i) query.row(t)[i] *= by;
        }
    }

    Matrix attention(const Matrix& x, const Place& layer) const {
        // Names all properties of a layer, so that a new one does not compile until the reference
        // computes with it. qkv() and attend() have the groups, attend() the window, mlp() the
        // activation, logits() the parallel residual and the places of the norms.
        const auto& [n_groups, position, rotary, window, activation, parallel_residual, shared_norm,
                     norms] = layer.config;
        Qkv all = qkv(x, layer);
        if (c_.joint_qk_norm) {
            all.query = norm(all.query, layer, "attention.query_norm");
            all.key = norm(all.key, layer, "attention.key_norm");
        } else if (c_.qk_norm) {
            normalize_heads(all.query, layer, "attention.query_norm");
            normalize_heads(all.key, layer, "attention.key_norm");
        }
        bool alibi = false;
        switch (position) {
            case PositionEmbedding::rope: {
                const i64 dim =
                    static_cast<i64>(static_cast<double>(c_.head_dim) * c_.rotary_percent);
                const RotaryTable table = rotary_table(rotary, dim, x.rows);
                rotate(all.query, table);
                rotate(all.key, table);
                if (rotary.query_beta > 0)
                    scale(all.query, rotary.query_beta, rotary.scaling.original_length);
                break;
            }
            case PositionEmbedding::alibi:
                alibi = true;
                break;
            case PositionEmbedding::absolute:
            case PositionEmbedding::none:
                break;
        }
        Matrix y(x.rows, c_.n_heads * c_.head_dim);
        for (i64 head = 0; head < c_.n_heads; ++head) {
            for (i64 t = 0; t < x.rows; ++t) {
                attend(all, layer.config, alibi, head, t, y.row(t));
            }
        }
        return linear(y, layer, "attention.output", c_.linear_bias);
    }

    // Adds the causal attention of one head for token t to the head's part of out [heads * D].
    void attend(const Qkv& all, const spec::LayerConfig& layer, bool alibi, i64 head, i64 t,
                double* out) const {
        const i64 d = c_.head_dim;
        const i64 group = head / (c_.n_heads / layer.n_groups);
        const double* query = all.query.row(t) + head * d;
        const i64 first = layer.window > 0 ? std::max<i64>(t + 1 - layer.window, 0) : 0;
        Values weight(static_cast<size_t>(t + 1), -1e300);
        for (i64 s = first; s <= t; ++s) {
            const double* key = all.key.row(s) + group * d;
            double dot = 0;
            for (i64 i = 0; i < d; ++i) dot += query[i] * key[i];
            dot *= c_.score_scale();
            if (alibi) dot += alibi_slope(head, c_.n_heads) * static_cast<double>(s);
            weight[static_cast<size_t>(s)] = dot;
        }
        const double largest = *std::max_element(weight.begin(), weight.end());
        double sum = 0;
        for (double& w : weight) sum += w = std::exp(w - largest);
        for (i64 s = 0; s <= t; ++s) {
            const double* value = all.value.row(s) + group * d;
            const double share = weight[static_cast<size_t>(s)] / sum;
            for (i64 i = 0; i < d; ++i) out[head * d + i] += share * value[i];
        }
    }

    Matrix mlp(const Matrix& x, const Place& layer) const {
        const spec::Activation activation = layer.config.activation;
        const bool gated = is_gated(activation);
        const bool fused = std::ranges::count(layer.rows, "mlp.gate_up", &HfClass::Row::ours) > 0;
        const char* const first = fused ? "mlp.gate_up" : gated ? "mlp.gate" : "mlp.up";
        Matrix hidden = linear(x, layer, first, c_.linear_bias);
        const Matrix up = fused   ? cols_of(hidden, c_.ffn_hidden, c_.ffn_hidden)
                          : gated ? linear(x, layer, "mlp.up", c_.linear_bias)
                                  : Matrix(0, 0);
        if (fused) hidden = cols_of(hidden, 0, c_.ffn_hidden);
        for (double& value : hidden.values) value = activation_value(activation, value);
        for (size_t i = 0; i < up.values.size(); ++i) hidden.values[i] *= up.values[i];
        return linear(hidden, layer, "mlp.down", c_.linear_bias);
    }

    spec::ModelConfig c_;
    const HfClass& hf_;
    HfWeights weights_;
};

}  // namespace

std::vector<double> hf_reference_logits(const std::string& model, std::span<const i32> tokens) {
    const HfModel read = read_hf_model(model);
    return Reference(read, HfWeights::open(model, read)).logits(tokens);
}

}  // namespace lm::convert
