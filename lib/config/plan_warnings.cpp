// SPDX-License-Identifier: Apache-2.0
#include "config/plan_warnings.hpp"

#include <cmath>

#include "base/log.hpp"
#include "base/shape.hpp"
#include "base/types.hpp"
#include "base/units.hpp"
#include "io/filesystem_use.hpp"

namespace lm::config {
namespace {

// The models of arXiv 2104.04473 and BigScience have a ratio of 100 to 200. A ratio below half the
// minimum or above twice the maximum of this range is unusual.
void warn_of_ratio(const spec::ModelConfig& model) {
    constexpr double least = 50, most = 400;
    const double ratio = as_double(model.hidden) / as_double(model.n_layers);
    if (ratio >= least && ratio <= most) return;
    warn("--hidden-size {} / --num-layers {} = {:.0f}: the usual ratio is 100 to 200", model.hidden,
         model.n_layers, ratio);
}

// Compares the initialization with sqrt(2 / (5 h)), h: hidden size (Nguyen and Salazar, arXiv
// 1910.05895), which BigScience uses.
void warn_of_init(const spec::ModelConfig& model) {
    constexpr double factor = 2;
    const double usual = std::sqrt(0.4 / as_double(model.hidden));
    const double ratio = model.init_std / usual;
    if (ratio < factor && ratio > 1 / factor) return;
    warn(
        "--init-method-std {:.3g} is {:.2g} times sqrt(0.4 / hidden size), which is {:.3g}: large "
        "models were initialized close to sqrt(0.4 / hidden size)",
        model.init_std, ratio, usual);
}

void warn_of_padding(const spec::ModelConfig& model, const spec::ParallelConfig& parallel) {
    constexpr double most = 0.01;
    const i64 padded = padded_vocab(model, parallel);
    const double share = as_double(padded - model.vocab_size) / as_double(model.vocab_size);
    if (share <= most) return;
    warn(
        "--vocab-size {} is padded by {:.1f} % to {}: choose another "
        "--make-vocab-size-divisible-by or a vocabulary near a multiple",
        model.vocab_size, 100 * share, padded);
}

}  // namespace

void warn_of_model(const ModelFlags& flags, const spec::ModelConfig& model,
                   const spec::ParallelConfig& parallel) {
    warn_of_ratio(model);
    if (flags.preset.empty() || flags.init_std.given) warn_of_init(model);
    warn_of_padding(model, parallel);
}

void warn_of_warmup(const spec::Schedule& schedule) {
    const spec::LearningRate& rate = schedule.learning_rate();
    const spec::Counters& end = schedule.end();
    const bool in_tokens = rate.warmup_in_tokens;
    const double warmup = in_tokens ? rate.warmup_tokens : rate.warmup_samples;
    const i64 all = in_tokens ? end.tokens : end.samples;
    if (warmup <= as_double(all)) return;
    warn(
        "--lr-warmup-{0}: the warm-up takes {1:.0f} {0}, but the training has {2}: the learning "
        "rate reaches {3:.3g}, not --lr {4:g}",
        in_tokens ? "tokens" : "samples", warmup, all, schedule.rate(end.samples, end.tokens),
        rate.max);
}

void warn_of_evaluations(double share) {
    constexpr double usual = 0.05;
    if (share <= usual) return;
    warn(
        "--eval-interval: evaluations take {:.1f} % of the time, more than the usual {:.0f} %: "
        "evaluate less often or with fewer --eval-iters",
        100 * share, 100 * usual);
}

void warn_of_room(const std::string& directory, const CheckpointNeed& need) {
    const io::FilesystemUse use = io::filesystem_use(io::nearest_existing(directory));
    const std::string what =
        need.n == 1 ? "a checkpoint needs" : fmt::format("{} checkpoints need", need.n);
    const i64 bytes = checked_mul(need.n, need.bytes);
    if (use.available < bytes) {
        warn(
            "--save: {}: {} are free, but {} {}: save less often, give --save-retain, or use "
            "another file system",
            directory, human_size(use.available), what, human_size(bytes));
    }
    const i64 files = checked_mul(need.n, need.files);
    if (use.inodes > 0 && use.inodes_available < files) {
        warn("--save: {}: {} inodes are free, but {} {}: save less often or give --save-retain",
             directory, use.inodes_available, what, files);
    }
}

}  // namespace lm::config
