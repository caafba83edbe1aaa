// SPDX-License-Identifier: Apache-2.0
#include "spec/cost.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "base/units.hpp"

namespace lm::spec {

double bigscience_parameters(const ModelConfig& config) {
    const double l = static_cast<double>(config.n_layers);
    const double h = static_cast<double>(config.hidden);
    const double v = static_cast<double>(config.vocab_size);
    const bool has_table = config.position == PositionEmbedding::absolute;
    const double s = has_table ? static_cast<double>(config.max_positions) : 0.0;
    const double norms = config.embedding_norm ? 4.0 : 2.0;
    return l * (12 * h * h + 13 * h) + v * h + s * h + norms * h;
}

double megatron_parameters(const ModelConfig& config, i64 padded_vocab) {
    const double l = static_cast<double>(config.n_layers);
    const double h = static_cast<double>(config.hidden);
    const double rows = static_cast<double>(padded_vocab + config.max_positions);
    return 12 * l * h * h * (1 + 13 / (12 * h) + rows / (12 * l * h));
}

i64 rank_parameters(const ModelConfig& config, const ParallelConfig& parallel, i64 tp_rank,
                    i64 pp_rank) {
    i64 n = 0;
    const RankLayout layout = rank_layout(config, tensor_table(config), parallel, tp_rank, pp_rank);
    for (const LocalTensor& tensor : layout.tensors) n += tensor.numel();
    return n;
}

CheckpointSize checkpoint_size(const ModelConfig& config, const Precision& precision) {
    const i64 n = count_parameters(config).total();
    const i64 moments = checked_mul(n, 2 * size_of(DType::fp32));
    const bool masters = precision.weights != DType::fp32;
    return {.weights = checked_mul(n, size_of(precision.weights)),
            .optimizer = moments + (masters ? checked_mul(n, size_of(DType::fp32)) : 0)};
}

std::vector<SaveRange> parse_save_schedule(const std::string& text) {
    constexpr std::string_view flag = "--save-schedule";
    std::vector<SaveRange> ranges;
    size_t begin = 0;
    while (begin <= text.size()) {
        const size_t end = std::min(text.find(',', begin), text.size());
        const std::string item = text.substr(begin, end - begin);
        begin = end + 1;
        if (!ranges.empty() && ranges.back().until == 0) {
            usage_error(flag, "'{}': only the last range may have no @end", text);
        }
        const size_t at = item.find('@');
        SaveRange range{.interval = parse_count(flag, item.substr(0, at)), .until = 0};
        if (at != std::string::npos) range.until = parse_count(flag, item.substr(at + 1));
        const i64 previous = ranges.empty() ? 0 : ranges.back().until;
        if (range.interval < 1) usage_error(flag, "'{}': an interval is not at least 1", text);
        if (at != std::string::npos && range.until <= previous) {
            usage_error(flag, "'{}': ends of ranges do not ascend", text);
        }
        ranges.push_back(range);
    }
    return ranges;
}

i64 count_saves(const std::vector<SaveRange>& ranges, i64 n_iterations) {
    i64 saves = 0;
    i64 last = 0;   // saved so far
    i64 begin = 0;  // the range is (begin, end]
    for (const SaveRange& range : ranges) {
        const bool whole = range.until != 0 && range.until <= n_iterations;
        const i64 end = whole ? range.until : n_iterations;
        if (end <= begin) break;
        saves += end / range.interval - begin / range.interval;
        if (whole && end % range.interval != 0) ++saves;
        last = whole ? end : std::max(last, end / range.interval * range.interval);
        begin = end;
    }
    return last < n_iterations ? saves + 1 : saves;
}

double iteration_flops(const ModelConfig& config, i64 padded_vocab, i64 global_batch,
                       i64 seq_length, bool recompute) {
    const double l = static_cast<double>(config.n_layers);
    const double h = static_cast<double>(config.hidden);
    const double b = static_cast<double>(global_batch);
    const double s = static_cast<double>(seq_length);
    const double v = static_cast<double>(padded_vocab);
    const double per_layer = is_gated(config.activation) ? 32 : 24;
    return per_layer * (recompute ? 4 : 3) * b * s * l * h * h *
           (1 + s / (6 * h) + v / (16 * l * h));
}

double training_seconds(double n_parameters, double n_tokens, double n_gpus, double tflops_per_gpu,
                        bool recompute) {
    return (recompute ? 8 : 6) * n_parameters * n_tokens / (n_gpus * tflops_per_gpu * 1e12);
}

}  // namespace lm::spec
