// SPDX-License-Identifier: Apache-2.0
// Writes the scalars of a training with the tags and axes of Megatron-DeepSpeed (training.py,
// training_log() and evaluate_and_print_results()), so that dashboards and tools for
// Megatron-DeepSpeed work. A series is written on one or more x axes: iterations (in DIR), samples
// (in DIR/vs-samples), tokens (in DIR/vs-tokens) and gigaflos (in DIR/vs-gigaflos). Each directory
// has one axis, because the purge record of a resumed run applies to all series of a directory.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "metrics/event_file.hpp"
#include "metrics/record.hpp"
#include "spec/model.hpp"

namespace lm::metrics {

struct TensorBoardOptions {
    std::string directory;
    // The counters at the first iteration of a resumed run. Readers ignore the values that earlier
    // files have at or after these counters.
    struct Start {
        i64 iteration, samples, tokens;
    };
    std::optional<Start> resume;
    i64 queue_size = 1000;        // maximum number of queued events
    bool batch_size = false;      // --log-batch-size-to-tensorboard
    bool validation_ppl = false;  // --log-validation-ppl-to-tensorboard
    bool timers = false;          // --log-timers-to-tensorboard: iteration-time
    bool megatron_lm = false;     // also the tags of Megatron-LM, by iteration and by samples
    i64 world_size = 1;
    i64 dp_size = 1;
    double gigaflos_per_sample = 0;
};

// Returns by how much one sample advances the axis "gigaflos": 6 x parameters without embeddings x
// sequence length / 1e9.
double gigaflos_per_sample(const spec::ModelConfig& model);

class TensorBoard {
  public:
    // Creates the event files. Throws Error(failure) when the directory cannot be written.
    static TensorBoard open(TensorBoardOptions options);
    ~TensorBoard();  // flushes
    TensorBoard(TensorBoard&&) = default;
    TensorBoard& operator=(TensorBoard&&) = default;

    // Adds the loss and the counters of one iteration. Call it for every iteration.
    void iteration(const StepRecord& record);
    // Adds the times and rates of an interval, and flushes. Call it for every logged iteration.
    void interval(const StepRecord& record);
    // Adds the seconds that a step spent in one phase.
    void timer(i64 iteration, const std::string& phase, double seconds);
    void validation(const ValidationRecord& record);  // flushes
    void flush();

  private:
    using Axes = TensorBoardOptions::Start;
    TensorBoard(TensorBoardOptions options, EventFile by_iteration, EventFile by_samples,
                EventFile by_tokens, EventFile by_gigaflos);
    void add(EventFile& file, i64 x, std::string_view tag, double value);
    void add_axes(const Axes& x, const std::string& tag, double value, bool by_tokens = true);
    void add_megatron_lm(const StepRecord& record);
    void add_plain(const Axes& x, const std::string& tag, const std::optional<double>& value);
    void add_gigaflos(i64 samples, const std::string& tag, double value);
    void add_world_size(i64 iteration);
    i64 gigaflos(i64 samples) const;

    TensorBoardOptions options_;
    EventFile by_iteration_, by_samples_, by_tokens_, by_gigaflos_;
    bool first_ = true;
};

}  // namespace lm::metrics
