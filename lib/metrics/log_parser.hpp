// SPDX-License-Identifier: Apache-2.0
// Parses one line of a training log of lm-train (record.hpp), Megatron-LM or Megatron-DeepSpeed to
// a typed event. Other text may surround the line (names of ranks, time stamps, the end of another
// process's line). Only the fields that show the progress and the speed of a training are parsed.
#pragma once

#include <optional>
#include <string_view>
#include <variant>

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
    i64 skipped = 0, nan = 0;  // number of iterations since the previous logged iteration
    size_t digest = 0;         // hash of the line from "iteration" to its end
};

// The batch ramp in a line "will use batch size rampup starting from global batch size ...".
struct LoggedRamp {
    i64 start = 0, global_batch = 0, increment = 0, samples = 0;
};

// Events between logged iterations.
struct StartEvent {        // a training program has started
    i64 n_nodes = 0;       // nodes of the job; 0: not stated
    double elapsed_s = 0;  // time from the start to the time stamp of the line
};
struct LoadEvent {  // a checkpoint was loaded
    i64 iteration = 0;
};
struct StopEvent {                      // a training program ends
    std::optional<i64> last_iteration;  // the last computed one; nullopt: not stated
};
struct EvaluationEvent {           // an evaluation has ended
    std::optional<double> busy_s;  // time that the training waited; nullopt: not stated
};
struct SaveEvent {                 // a save has ended
    std::optional<double> busy_s;  // time that the training waited; nullopt: not stated
};
struct ClockEvent {};  // another event of --log-json, or only a time stamp; its time is always set
using LogEvent =
    std::variant<ClockEvent, StartEvent, LoadEvent, StopEvent, EvaluationEvent, SaveEvent>;

struct LogLine {
    std::variant<std::monostate, LoggedIteration, LoggedRamp, LogEvent> content;
    // The time stamp of the line, in Unix seconds; stamps without a zone count as UTC. A line
    // without content may have one.
    std::optional<double> unix_time_s;
    // Number of logged iterations in this line without a valid value for a needed field, because
    // they are incomplete or mixed with other output.
    i64 n_invalid = 0;

    // Return the content of this type; nullptr when the line has other content.
    const LoggedIteration* iteration() const { return std::get_if<LoggedIteration>(&content); }
    const LogEvent* event() const { return std::get_if<LogEvent>(&content); }
    // Returns whether the line states a start or a loaded checkpoint.
    bool starts() const {
        const LogEvent* e = event();
        return e &&
               (std::holds_alternative<StartEvent>(*e) || std::holds_alternative<LoadEvent>(*e));
    }
};

LogLine parse_log_line(std::string_view line);

// Returns the time of the last "2026-01-31 12:00:00.123456" in `text` (also with T, a comma, Z or
// +01:00), in Unix seconds.
std::optional<double> time_stamp_in(std::string_view text);

}  // namespace lm::metrics
