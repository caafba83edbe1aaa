// SPDX-License-Identifier: Apache-2.0
// Reads what record.hpp writes, and the lines of Megatron-LM and Megatron-DeepSpeed: one line of a
// training's log, whatever stands around it (names of ranks, time stamps, the end of another
// process's line). What it keeps is what tells how far a training is and how fast.
#pragma once

#include <optional>
#include <string_view>

#include "base/types.hpp"

namespace lm::metrics {

// A logged iteration, as far as the line tells.
struct LoggedIteration {
    i64 iteration = 0;
    i64 total_iterations = 0;
    double step_s = 0;  // per iteration, over the interval since the last logged one
    std::optional<i64> consumed_samples, consumed_tokens, global_batch;
    std::optional<double> flops_per_s;  // per device
    std::optional<double> unix_time_s;  // stamps without a zone are taken for UTC
    size_t digest = 0;                  // of all that the line says, but for what stands before it
};

// "will use batch size rampup starting from global batch size ..."
struct LoggedRamp {
    i64 start = 0, global_batch = 0, increment = 0, samples = 0;
};

struct LogLine {
    enum class Kind {
        other,
        iteration,
        start,   // of a program that trains
        loaded,  // a checkpoint was
        clock,   // a line that is there for its time
        ramp
    };
    Kind kind = Kind::other;
    LoggedIteration iteration;          // of Kind::iteration
    i64 loaded_iteration = 0;           // of Kind::loaded
    LoggedRamp ramp;                    // of Kind::ramp
    std::optional<double> unix_time_s;  // of Kind::start and Kind::clock
    // Lines of iterations in it that were cut or have something else in their midst, so that a
    // figure that is needed cannot be read.
    i64 n_damaged = 0;
};

LogLine read_log_line(std::string_view line);

// Of the last "2026-01-31 12:00:00.123456" in `text` (also with a T, a comma, a Z or +01:00).
std::optional<double> time_stamp_in(std::string_view text);

}  // namespace lm::metrics
