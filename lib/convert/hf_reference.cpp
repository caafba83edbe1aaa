// SPDX-License-Identifier: Apache-2.0
#include "convert/hf_reference.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.hpp"
#include "convert/hf_files.hpp"
#include "convert/hf_reference_config.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

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

class Reference {
  public:
    Reference(std::string model, ReferenceConfig config, HfTensors tensors)
        : model_(std::move(model)), c_(std::move(config)), tensors_(std::move(tensors)) {}

    Values logits(std::span<const i32> tokens) const {
        const Matrix word = matrix(c_.word + ".weight");
        Matrix x(static_cast<i64>(tokens.size()), c_.width);
        for (i64 t = 0; t < x.rows; ++t) {
            std::copy_n(word.row(tokens[static_cast<size_t>(t)]), c_.width, x.row(t));
        }
        if (!c_.position.empty()) add_positions(x);
        if (!c_.embedding_norm.empty()) x = norm(x, c_.embedding_norm);
        for (i64 layer = 0; layer < c_.n_layers; ++layer) {
            const std::string prefix = fmt::format("{}{}.", c_.layers, layer);
            add(x, attention(norm(x, prefix + c_.attention_norm), prefix));
            add(x, mlp(norm(x, prefix + c_.mlp_norm), prefix));
        }
        x = norm(x, c_.final_norm);
        return std::move(times(x, c_.tied ? word : matrix(c_.head + ".weight"), false).values);
    }

  private:
    const SourceTensor* find(const std::string& name) const {
        const SourceTensor* found = tensors_.find(c_.prefix + name);
        return found ? found : tensors_.find(name);
    }

    Matrix matrix(const std::string& name) const {
        const SourceTensor* found = find(name);
        if (!found) run_error(model_, "tensor {} is missing: copy all files of the model", name);
        const SourceMatrix from = found->matrix();
        std::vector<float> values(static_cast<size_t>(from.rows * from.cols));
        SourceReader().read(from, DType::fp32, reinterpret_cast<std::byte*>(values.data()),
                            from.cols);
        Matrix result(from.rows, from.cols);
        std::ranges::copy(values, result.values.begin());
        return result;
    }

    void add_positions(Matrix& x) const {
        const Matrix position = matrix(c_.position + ".weight");
        for (i64 t = 0; t < x.rows; ++t) {
            for (i64 i = 0; i < c_.width; ++i) x.row(t)[i] += position.row(t)[i];
        }
    }

    static void add(Matrix& x, const Matrix& y) {
        for (size_t i = 0; i < x.values.size(); ++i) x.values[i] += y.values[i];
    }

    Matrix norm(const Matrix& x, const std::string& name) const {
        const Values weight = matrix(name + ".weight").values;
        const Values bias = c_.rms_norm ? Values(weight.size()) : matrix(name + ".bias").values;
        const auto n = static_cast<double>(x.cols);
        Matrix y(x.rows, x.cols);
        for (i64 t = 0; t < x.rows; ++t) {
            double mean = 0;
            for (i64 c = 0; c < x.cols && !c_.rms_norm; ++c) mean += x.row(t)[c] / n;
            double variance = 0;
            for (i64 c = 0; c < x.cols; ++c) variance += std::pow(x.row(t)[c] - mean, 2) / n;
            const double scale = 1 / std::sqrt(variance + c_.eps);
            for (i64 c = 0; c < x.cols; ++c) {
                const auto i = static_cast<size_t>(c);
                const double factor = weight[i] + (c_.one_plus ? 1 : 0);
                y.row(t)[c] = (x.row(t)[c] - mean) * scale * factor + bias[i];
            }
        }
        return y;
    }

    // Normalizes each head of x separately.
    void normalize_heads(Matrix& x, const std::string& name) const {
        const i64 rows = x.rows;
        x.rows = rows * (x.cols / c_.head_dim);
        x.cols = c_.head_dim;
        x = norm(x, name);
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

    Matrix linear(const Matrix& x, const std::string& name) const {
        return linear(x, name, c_.bias);
    }

    Matrix linear(const Matrix& x, const std::string& name, bool has_bias) const {
        Matrix y = times(x, matrix(name + ".weight"), c_.conv1d);
        if (!has_bias) return y;
        const Values bias = matrix(name + ".bias").values;
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

    Qkv qkv(const Matrix& x, const std::string& prefix) const {
        if (c_.fused == Fused::no) {
            const bool bias = c_.bias || c_.qkv_bias;
            return {linear(x, prefix + c_.qkv[0], bias), linear(x, prefix + c_.qkv[1], bias),
                    linear(x, prefix + c_.qkv[2], bias)};
        }
        const Matrix all = linear(x, prefix + c_.qkv[0]);
        if (c_.fused == Fused::whole) {
            const i64 kv_width = c_.n_groups * c_.head_dim;
            return {cols_of(all, 0, c_.width), cols_of(all, c_.width, kv_width),
                    cols_of(all, c_.width + kv_width, kv_width)};
        }
        // Each row of `all` is [heads, 3, D]: query, key and value of each head.
        Qkv result{Matrix(x.rows, c_.width), Matrix(x.rows, c_.width), Matrix(x.rows, c_.width)};
        const i64 d = c_.head_dim;
        for (i64 t = 0; t < x.rows; ++t) {
            for (i64 head = 0; head < c_.n_heads; ++head) {
                const double* from = all.row(t) + head * 3 * d;
                std::copy_n(from, d, result.query.row(t) + head * d);
                std::copy_n(from + d, d, result.key.row(t) + head * d);
                std::copy_n(from + 2 * d, d, result.value.row(t) + head * d);
            }
        }
        return result;
    }

    // Returns the rotary frequency of pair i of the `half` pairs of a head (modeling_rope_utils.py
    // of transformers).
    double frequency(i64 i, i64 half) const {
        const double plain =
            1 / std::pow(c_.theta, static_cast<double>(i) / static_cast<double>(half));
        if (c_.rope_factor == 0) return plain;
        const double wavelength = 2 * std::numbers::pi / plain;
        if (wavelength > 8192) return plain / c_.rope_factor;
        if (wavelength < 2048) return plain;
        const double smooth = (8192 / wavelength - 1) / 3;
        return (1 - smooth) * plain / c_.rope_factor + smooth * plain;
    }

    // Rotates the halves of each head, or of its first part (Su et al. 2021; apply_rotary_pos_emb
    // of transformers).
    void rotate(Matrix& x) const {
        const i64 half = static_cast<i64>(static_cast<double>(c_.head_dim) * c_.rotated) / 2;
        for (i64 t = 0; t < x.rows; ++t) {
            for (i64 head = 0; head < x.cols / c_.head_dim; ++head) {
                double* v = x.row(t) + head * c_.head_dim;
                for (i64 i = 0; i < half; ++i) {
                    const double angle = static_cast<double>(t) * frequency(i, half);
                    const double a = v[i];
                    const double b = v[i + half];
                    v[i] = a * std::cos(angle) - b * std::sin(angle);
                    v[i + half] = b * std::cos(angle) + a * std::sin(angle);
                }
            }
        }
    }

    Matrix attention(const Matrix& x, const std::string& prefix) const {
        Qkv all = qkv(x, prefix);
        if (!c_.query_norm.empty()) {
            normalize_heads(all.query, prefix + c_.query_norm);
            normalize_heads(all.key, prefix + c_.key_norm);
        }
        if (c_.rope) {
            rotate(all.query);
            rotate(all.key);
        }
        Matrix y(x.rows, c_.n_heads * c_.head_dim);
        for (i64 head = 0; head < c_.n_heads; ++head) {
            for (i64 t = 0; t < x.rows; ++t) attend(all, head, t, y.row(t));
        }
        return linear(y, prefix + c_.output);
    }

    // Adds the causal attention of one head for token t to the head's part of out [heads * D].
    void attend(const Qkv& all, i64 head, i64 t, double* out) const {
        const i64 d = c_.head_dim;
        const i64 group = head / (c_.n_heads / c_.n_groups);
        const double* query = all.query.row(t) + head * d;
        const i64 first = c_.window > 0 ? std::max<i64>(t + 1 - c_.window, 0) : 0;
        Values weight(static_cast<size_t>(t + 1), -1e300);
        for (i64 s = first; s <= t; ++s) {
            const double* key = all.key.row(s) + group * d;
            double dot = 0;
            for (i64 i = 0; i < d; ++i) dot += query[i] * key[i];
            dot /= std::sqrt(static_cast<double>(d));
            if (c_.alibi) dot += alibi_slope(head, c_.n_heads) * static_cast<double>(s);
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

    double activate(double x) const {
        if (c_.activation == "silu") return x / (1 + std::exp(-x));
        if (c_.activation == "relu2") return x > 0 ? x * x : 0;
        if (c_.activation == "gelu") return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
        const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
        return 0.5 * x * (1 + std::tanh(inner));
    }

    Matrix mlp(const Matrix& x, const std::string& prefix) const {
        Matrix hidden = linear(x, prefix + (c_.gate.empty() ? c_.up : c_.gate));
        for (double& value : hidden.values) value = activate(value);
        if (!c_.gate.empty()) {
            const Matrix up = linear(x, prefix + c_.up);
            for (size_t i = 0; i < up.values.size(); ++i) hidden.values[i] *= up.values[i];
        }
        return linear(hidden, prefix + c_.down);
    }

    std::string model_;
    ReferenceConfig c_;
    HfTensors tensors_;
};

}  // namespace

std::vector<double> hf_reference_logits(const std::string& model, std::span<const i32> tokens) {
    const std::string path = hf_config_path(model);
    ReferenceConfig config = reference_config(io::read_json(path), path);
    return Reference(model, std::move(config), HfTensors::open(model)).logits(tokens);
}

}  // namespace lm::convert
