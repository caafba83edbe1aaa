// SPDX-License-Identifier: Apache-2.0
// The records that a training reports, and their forms as text: the log line and the validation
// block of Megatron, so that existing log tools work, and JSON Lines. Records hold base units; the
// functions below format them.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "base/named.hpp"
#include "base/types.hpp"
#include "io/json_fwd.hpp"

namespace lm::metrics {

// The form of the log line: BigScience's Megatron-DeepSpeed or Megatron-LM.
enum class LogFormat { megatron_deepspeed, megatron_lm };
inline constexpr std::array log_formats{Named{LogFormat::megatron_deepspeed, "megatron-deepspeed"},
                                        Named{LogFormat::megatron_lm, "megatron-lm"}};

// A logged iteration. Its means are over the interval: the iterations since the previous logged
// iteration.
struct StepRecord {
    i64 iteration = 0;
    i64 total_iterations = 0;
    i64 consumed_samples = 0;
    i64 consumed_tokens = 0;
    double step_s = 0;         // wall time per iteration, without evaluations and saves
    double learning_rate = 0;  // for the next iteration, as Megatron prints it
    i64 global_batch = 0;
    std::optional<double> loss;         // mean over the iterations with a step; nullopt: no step
    std::optional<double> loss_scale;   // with fp16
    std::optional<double> grad_norm;    // before clipping
    std::optional<double> num_zeros;    // with --log-num-zeros-in-grad
    std::optional<double> params_norm;  // with --log-params-norm
    std::optional<i64> seq_length;      // with curriculum learning
    i64 skipped_iterations = 0;         // iterations of the interval without a step
    i64 nan_iterations = 0;             // iterations with a non-finite loss or gradient
    double samples_per_s = 0;
    double tokens_per_s = 0;
    double flops_per_s = 0;        // per device, by Megatron's formula (cost::iteration_flops)
    std::optional<double> mfu;     // relative to the dense peak; nullopt: peak unknown
    std::optional<double> save_s;  // time of the saves that ended in the interval
    std::optional<double> save_blocked_s;  // time that the training loop waited for these saves
    double unix_time_s = 0;                // time of logging
};

// One evaluation of one dataset.
struct ValidationRecord {
    std::string name = "validation";  // or "test", or the name of a group of data
    std::string when;                 // "iteration 1000", "the end of training for test data"
    i64 iteration = 0;
    i64 consumed_samples = 0;
    i64 consumed_tokens = 0;
    double loss = 0;
    i64 n_tokens = 0;  // number of tokens over which `loss` is the mean
    double elapsed_s = 0;
    double unix_time_s = 0;
};

// The batch job and the start of a training to which an event belongs.
struct RunOrigin {
    std::string job, nodes;         // the id and the node list in Slurm; empty: no job
    std::optional<i64> generation;  // generation that the start claimed in --save
};

// A start, a resume, a stop or an error of a run.
struct RunEvent {
    const char* kind = "";
    RunOrigin origin;
    double unix_time_s = 0;
};

// A checkpoint that was saved.
struct SaveRecord {
    i64 iteration = 0;
    std::string path;
    i64 bytes = 0;
    double elapsed_s = 0;             // from the start of the save until the step is complete
    std::optional<double> blocked_s;  // time that the loop waited; nullopt: the whole elapsed_s
    RunOrigin origin;
    double unix_time_s = 0;
};

// A local step that all hosts have saved (ckpt/history/local_steps.hpp).
struct LocalSaveRecord {
    i64 iteration = 0;
    i64 n_hosts = 0;
    double elapsed_s = 0;
    double unix_time_s = 0;
};

double perplexity(double loss);  // exp(min(20, loss)), as in Megatron

// The functions below return text without a newline at its end. log_line() returns the line of
// Megatron-DeepSpeed; the validation block has three lines: dashes, text, dashes.
std::string log_line(const StepRecord& record);
// Returns the log line of Megatron-LM (core 0.16), with the local time. `throughput`: the value of
// --log-throughput.
std::string megatron_lm_line(const StepRecord& record, bool throughput);
std::string validation_line(const ValidationRecord& record);
std::string validation_block(const ValidationRecord& record);

// Return one JSON object without a newline. Keys of a step: kind "step", time (Unix seconds),
// iteration, total_iterations, consumed_samples, consumed_tokens, step_s, learning_rate,
// global_batch_size, lm_loss, loss_scale, grad_norm, num_zeros, params_norm, seq_length,
// skipped_iterations, nan_iterations, samples_per_s, tokens_per_s, flops_per_s, mfu, save_s,
// save_blocked_s; keys that do not apply are omitted. Keys of a validation: kind "validation",
// time, name, iteration, consumed_samples, consumed_tokens, lm_loss, ppl, tokens, elapsed_s. Keys
// of a save: kind "save", time, job, nodes, generation, iteration, path, bytes, elapsed_s,
// blocked_s; of a local save: kind "local_save", time, iteration, hosts, elapsed_s; of the other
// events: kind, time, job, nodes, generation, `fields`. Values that are not finite are null.
std::string to_json(const StepRecord& record);
std::string to_json(const ValidationRecord& record);
std::string to_json(const SaveRecord& record);
std::string to_json(const LocalSaveRecord& record);
std::string to_json(const RunEvent& event, const io::OrderedJson& fields);

}  // namespace lm::metrics
