// SPDX-License-Identifier: Apache-2.0
#include "cost/formulas.hpp"

#include <cmath>

namespace lm::cost {

using namespace spec;

double bigscience_parameters(const ModelConfig& config) {
    const double l = static_cast<double>(config.n_layers);
    const double h = static_cast<double>(config.hidden);
    const double v = static_cast<double>(config.vocab_size);
    const double s = has_table(config.position) ? static_cast<double>(config.max_positions) : 0.0;
    const double norms = config.embedding_norm ? 4.0 : 2.0;
    return l * (12 * h * h + 13 * h) + v * h + s * h + norms * h;
}

double megatron_parameters(const ModelConfig& config, i64 padded_vocab) {
    const double l = static_cast<double>(config.n_layers);
    const double h = static_cast<double>(config.hidden);
    const double rows = static_cast<double>(padded_vocab + config.max_positions);
    return 12 * l * h * h * (1 + 13 / (12 * h) + rows / (12 * l * h));
}

double parameters_at_depth(i64 n_layers) {
    const double l = static_cast<double>(n_layers);
    return 12 * l * std::exp(2 * 5.039) * std::exp(2 * 5.55e-2 * l);
}

i64 rank_parameters(const ModelConfig& config, const ParallelConfig& parallel, i64 tp_rank,
                    i64 pp_rank) {
    return rank_elements(config, parallel, tp_rank)
        .of(stage_parts(config, parallel, pp_rank))
        .tensors;
}

CheckpointSize checkpoint_size(const ModelConfig& config, const Precision& precision) {
    const i64 n = count_parameters(config).total();
    const bool masters = precision.weights != DType::fp32;
    CheckpointSize size{.weights = checked_mul(n, size_of(precision.weights)),
                        .optimizer = masters ? checked_mul(n, size_of(DType::fp32)) : 0};
    for (const TensorSpec& tensor : tensor_table(config)) {
        for (const OptimizerState& state : states_of(precision.optimizer, tensor)) {
            size.optimizer += checked_mul(tensor.shape.numel(), size_of(state.dtype));
        }
    }
    return size;
}

double mean_keys(i64 window, double seq_length) {
    const double w = static_cast<double>(window);
    return w > 0 && w < seq_length ? w * (1 - w / (2 * seq_length)) : seq_length / 2;
}

double model_flops_per_token(const ModelConfig& config, i64 seq_length) {
    const double h = static_cast<double>(config.hidden);
    const double heads = static_cast<double>(config.attention_width());
    double layers = 0;
    for (i64 i = 0; i < config.n_layers; ++i) {
        const LayerConfig layer = config.layer(i);
        const double gates = is_gated(layer.activation) ? 2 : 1;
        const double qkv = h * static_cast<double>(config.qkv_rows(layer));
        const double mlp = (gates + 1) * h * static_cast<double>(config.ffn_hidden);
        const double keys = mean_keys(layer.window, static_cast<double>(seq_length));
        layers += qkv + heads * h + mlp + 2 * heads * keys;
    }
    return 3 * 2 * (layers + h * static_cast<double>(config.vocab_size));
}

double iteration_flops(const ModelConfig& config, i64 padded_vocab, i64 global_batch,
                       i64 seq_length, double recomputed) {
    const double l = static_cast<double>(config.n_layers);
    const double h = static_cast<double>(config.hidden);
    const double b = static_cast<double>(global_batch);
    const double s = static_cast<double>(seq_length);
    const double v = static_cast<double>(padded_vocab);
    double factor = 0, keys = 0;  // sums over the layers
    for (i64 i = 0; i < config.n_layers; ++i) {
        const LayerConfig layer = config.layer(i);
        factor += is_gated(layer.activation) ? 32 : 24;
        keys += mean_keys(layer.window, s);
    }
    return factor / l * (3 + recomputed) * b * s * l * h * h *
           (1 + 2 * (keys / l) / (6 * h) + v / (16 * l * h));
}

double training_seconds(double n_parameters, double n_tokens, double n_gpus, double tflops_per_gpu,
                        double recomputed) {
    return (6 + 2 * recomputed) * n_parameters * n_tokens / (n_gpus * tflops_per_gpu * 1e12);
}

}  // namespace lm::cost
