// SPDX-License-Identifier: Apache-2.0
#include "convert/gpt2_reference.hpp"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <utility>

#include "base/error.hpp"
#include "ckpt/elements.hpp"
#include "convert/hf_files.hpp"
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

class Reference {
  public:
    // `config` is config.json, read from `path`.
    Reference(std::string model, const io::Json& config, const std::string& path, HfTensors tensors)
        : model_(std::move(model)),
          tensors_(std::move(tensors)),
          n_layers_(io::json_get<i64>(config, "n_layer", path)),
          n_heads_(io::json_get<i64>(config, "n_head", path)),
          width_(io::json_get<i64>(config, "n_embd", path)),
          eps_(io::json_get_or<double>(config, "layer_norm_epsilon", 1e-5, path)),
          tanh_gelu_(io::json_get_or<std::string>(config, "activation_function", "gelu_new",
                                                  path) != "gelu") {}

    Values logits(std::span<const i32> tokens) const {
        const Values word = tensor("wte.weight");
        const Values position = tensor("wpe.weight");
        Matrix x(static_cast<i64>(tokens.size()), width_);
        for (i64 t = 0; t < x.rows; ++t) {
            const i64 token = tokens[static_cast<size_t>(t)];
            for (i64 c = 0; c < width_; ++c) {
                x.row(t)[c] = word[static_cast<size_t>(token * width_ + c)] +
                              position[static_cast<size_t>(t * width_ + c)];
            }
        }
        for (i64 layer = 0; layer < n_layers_; ++layer) {
            const std::string prefix = fmt::format("h.{}.", layer);
            add(x, attention(norm(x, prefix + "ln_1"), prefix + "attn."));
            add(x, mlp(norm(x, prefix + "ln_2"), prefix + "mlp."));
        }
        return head(norm(x, "ln_f"), word);
    }

  private:
    Values tensor(const std::string& name) const {
        const HfTensors::Found* found = tensors_.find("transformer." + name);
        if (!found) found = tensors_.find(name);
        if (!found) run_error(model_, "tensor {} is missing: is the model complete?", name);
        const std::optional<DType> type = ckpt::dtype_of_safetensors(found->entry->dtype);
        if (!type)
            run_error(model_,
                      "tensor {}: expected F64, F32, BF16, F16, I64, I32, U16 or U8, got {}", name,
                      found->entry->dtype);
        std::vector<float> values(found->bytes().size() / static_cast<size_t>(size_of(*type)));
        ckpt::convert_elements(found->bytes().data(), *type, values.data(), DType::fp32,
                               static_cast<i64>(values.size()));
        return {values.begin(), values.end()};
    }

    static void add(Matrix& x, const Matrix& y) {
        for (size_t i = 0; i < x.values.size(); ++i) x.values[i] += y.values[i];
    }

    Matrix norm(const Matrix& x, const std::string& name) const {
        const Values weight = tensor(name + ".weight");
        const Values bias = tensor(name + ".bias");
        Matrix y(x.rows, x.cols);
        for (i64 t = 0; t < x.rows; ++t) {
            double mean = 0;
            for (i64 c = 0; c < x.cols; ++c) mean += x.row(t)[c];
            mean /= static_cast<double>(x.cols);
            double variance = 0;
            for (i64 c = 0; c < x.cols; ++c) variance += std::pow(x.row(t)[c] - mean, 2);
            variance /= static_cast<double>(x.cols);
            for (i64 c = 0; c < x.cols; ++c) {
                const auto i = static_cast<size_t>(c);
                y.row(t)[c] =
                    (x.row(t)[c] - mean) / std::sqrt(variance + eps_) * weight[i] + bias[i];
            }
        }
        return y;
    }

    // Conv1D of transformers: weight [in, out], bias [out].
    Matrix conv1d(const Matrix& x, const std::string& name) const {
        const Values weight = tensor(name + ".weight");
        const Values bias = tensor(name + ".bias");
        Matrix y(x.rows, static_cast<i64>(bias.size()));
        for (i64 t = 0; t < x.rows; ++t) {
            double* out = y.row(t);
            std::copy(bias.begin(), bias.end(), out);
            for (i64 i = 0; i < x.cols; ++i) {
                const double value = x.row(t)[i];
                const double* row = weight.data() + i * y.cols;
                for (i64 o = 0; o < y.cols; ++o) out[o] += value * row[o];
            }
        }
        return y;
    }

    Matrix attention(const Matrix& x, const std::string& prefix) const {
        const Matrix qkv = conv1d(x, prefix + "c_attn");
        Matrix y(x.rows, width_);
        for (i64 head = 0; head < n_heads_; ++head) {
            for (i64 t = 0; t < x.rows; ++t) attend(qkv, head, t, y.row(t));
        }
        return conv1d(y, prefix + "c_proj");
    }

    // Causal attention of one head for token t; out [width] gets the head's part.
    void attend(const Matrix& qkv, i64 head, i64 t, double* out) const {
        const i64 d = width_ / n_heads_;
        const double* query = qkv.row(t) + head * d;
        Values weight(static_cast<size_t>(t + 1));
        double sum = 0;
        for (i64 s = 0; s <= t; ++s) {
            const double* key = qkv.row(s) + width_ + head * d;
            double dot = 0;
            for (i64 i = 0; i < d; ++i) dot += query[i] * key[i];
            weight[static_cast<size_t>(s)] = dot / std::sqrt(static_cast<double>(d));
        }
        const double largest = *std::max_element(weight.begin(), weight.end());
        for (double& w : weight) sum += w = std::exp(w - largest);
        for (i64 s = 0; s <= t; ++s) {
            const double* value = qkv.row(s) + 2 * width_ + head * d;
            const double share = weight[static_cast<size_t>(s)] / sum;
            for (i64 i = 0; i < d; ++i) out[head * d + i] += share * value[i];
        }
    }

    double gelu(double x) const {
        if (!tanh_gelu_) return 0.5 * x * (1 + std::erf(x / std::numbers::sqrt2));
        const double inner = std::sqrt(2 / std::numbers::pi) * (x + 0.044715 * x * x * x);
        return 0.5 * x * (1 + std::tanh(inner));
    }

    Matrix mlp(const Matrix& x, const std::string& prefix) const {
        Matrix hidden = conv1d(x, prefix + "c_fc");
        for (double& value : hidden.values) value = gelu(value);
        return conv1d(hidden, prefix + "c_proj");
    }

    Values head(const Matrix& x, const Values& word) const {
        const i64 n_words = static_cast<i64>(word.size()) / width_;
        Matrix y(x.rows, n_words);
        for (i64 v = 0; v < n_words; ++v) {
            const double* row = word.data() + v * width_;
            for (i64 t = 0; t < x.rows; ++t) {
                double dot = 0;
                for (i64 c = 0; c < width_; ++c) dot += x.row(t)[c] * row[c];
                y.row(t)[v] = dot;
            }
        }
        return std::move(y.values);
    }

    std::string model_;
    HfTensors tensors_;
    i64 n_layers_;
    i64 n_heads_;
    i64 width_;
    double eps_;
    bool tanh_gelu_;
};

}  // namespace

std::vector<double> gpt2_reference_logits(const std::string& model, std::span<const i32> tokens) {
    const std::string path = hf_config_path(model);
    return Reference(model, io::read_json(path), path, HfTensors::open(model)).logits(tokens);
}

}  // namespace lm::convert
