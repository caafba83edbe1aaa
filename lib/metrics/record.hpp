// SPDX-License-Identifier: Apache-2.0
// What a training reports, and its forms: Megatron's log line and validation block (so that
// existing log tools work) and JSON Lines. The records hold base units; sinks format them.
#pragma once

#include <optional>
#include <string>

#include "base/types.hpp"

namespace lm::metrics {

// A logged iteration: means over the iterations since the last one (the interval).
struct StepRecord {
    i64 iteration = 0;
    i64 total_iterations = 0;
    i64 consumed_samples = 0;
    i64 consumed_tokens = 0;
    double step_s = 0;         // wall time per iteration, evaluations and saves left out
    double learning_rate = 0;  // of the next iteration, as Megatron prints it
    i64 global_batch = 0;
    std::optional<double> loss;        // mean over the steps that were made; none: no step was made
    std::optional<double> loss_scale;  // with fp16
    std::optional<double> grad_norm;   // before clipping
    std::optional<double> num_zeros;   // with --log-num-zeros-in-grad
    std::optional<double> params_norm;  // with --log-params-norm
    std::optional<i64> seq_length;      // with curriculum learning
    i64 skipped_iterations = 0;         // in the interval: steps that were not made
    i64 nan_iterations = 0;             // of them, because of a non-finite loss or gradient
    double samples_per_s = 0;
    double tokens_per_s = 0;
    double flops_per_s = 0;     // per device, by Megatron's formula (cost::iteration_flops)
    std::optional<double> mfu;  // of the device's dense peak; none where the peak is not known
    double unix_time_s = 0;     // when it was logged
};

// One set, evaluated once.
struct ValidationRecord {
    std::string name = "validation";  // or the set's own
    std::string when;                 // "iteration 1000", "the end of training for val data"
    i64 iteration = 0;
    i64 consumed_samples = 0;
    i64 consumed_tokens = 0;
    double loss = 0;
    i64 n_tokens = 0;  // over which the loss is the mean
    double elapsed_s = 0;
    double unix_time_s = 0;
};

double perplexity(double loss);  // exp(min(20, loss)), as Megatron

// One line each, without the newline; the block is three lines: dashes, text, dashes.
std::string log_line(const StepRecord& record);
std::string validation_line(const ValidationRecord& record);
std::string validation_block(const ValidationRecord& record);

// One JSON object, without the newline. Keys of a step: kind "step", time (Unix seconds),
// iteration, total_iterations, consumed_samples, consumed_tokens, step_s, learning_rate,
// global_batch_size, lm_loss, loss_scale, grad_norm, num_zeros, params_norm, seq_length,
// skipped_iterations, nan_iterations, samples_per_s, tokens_per_s, flops_per_s, mfu; those that do
// not apply are left out. Keys of a validation: kind "validation", time, name, iteration,
// consumed_samples, consumed_tokens, lm_loss, ppl, tokens, elapsed_s. What is not finite is null.
std::string to_json(const StepRecord& record);
std::string to_json(const ValidationRecord& record);

}  // namespace lm::metrics
