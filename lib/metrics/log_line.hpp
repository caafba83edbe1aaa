// SPDX-License-Identifier: Apache-2.0
// Parses one line of a training log of lm-train (record.hpp), Megatron-LM or Megatron-DeepSpeed.
// Other text may surround the line (names of ranks, time stamps, the end of another process's
// line). Only the fields that show the progress and the speed of a training are parsed.
#pragma once

#include <optional>
#include <string_view>

#include "base/types.hpp"

namespace lm::metrics {

// A logged iteration. Members whose fields the line does not have are empty.
struct LoggedIteration {
    i64 iteration = 0;
    i64 total_iterations = 0;
    double step_s = 0;  // per iteration, mean since the previous logged iteration
    std::optional<i64> consumed_samples, consumed_tokens, global_batch;
    std::optional<double> flops_per_s;                     // per device
    std::optional<double> loss, grad_norm, learning_rate;  // may be not finite
    i64 skipped = 0, nan = 0;           // number of iterations since the previous logged iteration
    std::optional<double> unix_time_s;  // stamps without a zone count as UTC
    size_t digest = 0;                  // hash of the line from "iteration" to its end
};

// The batch ramp in a line "will use batch size rampup starting from global batch size ...".
struct LoggedRamp {
    i64 start = 0, global_batch = 0, increment = 0, samples = 0;
};

struct LogLine {
    enum class Kind {
        other,
        iteration,
        start,       // a training program has started
        loaded,      // a checkpoint was loaded
        stop,        // a training program ends
        validation,  // an evaluation has ended
        saved,       // a save has ended
        clock,       // another event of --log-json, or only a time stamp
        ramp         // the batch ramp
    };
    Kind kind = Kind::other;
    LoggedIteration iteration;  // valid for Kind::iteration
    i64 loaded_iteration = 0;   // valid for Kind::loaded
    // For Kind::stop: the last computed iteration; nullopt when the line does not state it.
    std::optional<i64> stopped_after;
    LoggedRamp ramp;  // valid for Kind::ramp
    // For Kind::validation and Kind::saved: the time that the training waited; nullopt when the
    // line does not state this time.
    std::optional<double> busy_s;
    i64 n_nodes = 0;  // valid for Kind::start: nodes of the job; 0: not stated
    // The time stamp of the line. Always set for Kind::clock; may be set for other kinds, except
    // Kind::iteration.
    std::optional<double> unix_time_s;
    // Number of logged iterations in this line without a valid value for a needed field, because
    // they are incomplete or mixed with other output.
    i64 n_invalid = 0;
};

LogLine read_log_line(std::string_view line);

// Returns the time stamp of a parsed line of any kind; nullopt when the line has no time stamp.
std::optional<double> time_of(const LogLine& line);

// Returns the time of the last "2026-01-31 12:00:00.123456" in `text` (also with T, a comma, Z or
// +01:00), in Unix seconds.
std::optional<double> time_stamp_in(std::string_view text);

}  // namespace lm::metrics
