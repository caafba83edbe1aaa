// SPDX-License-Identifier: Apache-2.0
// The flags of the training loop: validation, stops, and the reaction to faulty numbers.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <vector>

#include "base/named.hpp"
#include "config/field.hpp"

namespace lm::config {

struct ValidationFlags {
    cli::WithDefault<i64> interval = 1000;  // --eval-interval, iterations
    i64 iters = 100;                        // --eval-iters, global batches; 0: no validation
    std::optional<i64> global_batch;        // samples; nullopt: --global-batch-size
};

// The reaction to a suspicious step.
enum class Reaction { stop, go_on, skip, roll_back };
inline constexpr std::array reactions{
    Named{Reaction::stop, "stop"}, Named{Reaction::go_on, "continue"},
    Named{Reaction::skip, "skip"}, Named{Reaction::roll_back, "rollback"}};

// The kinds of planted faults. transient: a repetition of the step has no fault. persistent: one
// replica has the fault in every repetition. correct: all replicas have the fault in every
// repetition.
enum class InjectedError { transient, persistent, correct };
inline constexpr std::array injected_errors{Named{InjectedError::transient, "transient_error"},
                                            Named{InjectedError::persistent, "persistent_error"},
                                            Named{InjectedError::correct, "correct_result"}};

struct StoppingFlags {
    std::optional<i64> exit_interval;   // iterations of this run
    std::optional<i64> exit_iteration;  // iteration of the whole training
    std::optional<i64> exit_samples;    // samples that the whole training consumes
    std::optional<double> exit_duration_min;
    std::string exit_before_limit = "60s";  // time between the last save and the end of the job
    std::string kill_switch, save_switch;   // files: if they exist, the run stops or saves
    std::string on_spike = "continue", on_nan = "stop";
    bool rerun_suspect = false;
    i64 injection_rate = 0;  // mean number of iterations between planted faults; 0: none
    std::string injection_type = "transient_error";
    std::vector<std::string> skip_ranges;  // "A-B": iterations that are not trained on
    std::vector<i64> iterations_to_skip;   // not trained on; the learning rate does not advance

    Reaction reaction_to_nan() const { return *value_in(reactions, on_nan); }
    InjectedError injected_error() const { return *value_in(injected_errors, injection_type); }
    Reaction reaction_to_spike() const { return *value_in(reactions, on_spike); }
};

const Fields<ValidationFlags>& validation_fields();
const Fields<StoppingFlags>& stopping_fields();
const Fields<StoppingFlags>& fault_fields();

}  // namespace lm::config
