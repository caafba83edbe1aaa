// SPDX-License-Identifier: Apache-2.0
// StepGuard judges each step by its loss and its gradient norm, before the weights change. It
// detects values that are not finite (--on-nan), and values far above their recent range
// (--on-spike). It repeats a step to find the layer, rank and samples of the first value that is
// not finite.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "comm/group.hpp"
#include "data/sampling/datasets.hpp"
#include "train/config/run_config.hpp"
#include "train/log/training_log.hpp"
#include "train/resume/refused_iterations.hpp"
#include "train/step/guard_memory.hpp"
#include "train/step/trainer.hpp"

namespace lm::train {

// The number of fp16 overflows in a row at which the training stops. 128 halvings reduce the
// largest fp32 number to less than 1, so a longer series has another cause than the loss
// scale.
constexpr i64 max_overflows_in_a_row = 150;
// The number of steps in a row with values that are not finite at which the training stops with any
// --on-nan, because a series of bad documents is shorter, and weights that are not finite never
// recover.
constexpr i64 max_non_finite_in_a_row = 50;

// On a GPU without --deterministic-mode, a relative difference of up to this amount between two
// results of one step counts as rounding, because the order of the additions in a backward pass of
// cuDNN differs from run to run. A fault with a smaller effect is then not detected.
constexpr double rounding_tolerance = 1e-3;
// Returns whether the results `a` and `b` of two computations of one step count as equal.
// `repeats_bits`: a repeated step computes the same bits, so only equal bits count as equal.
// Otherwise a difference within rounding_tolerance is allowed.
bool same_result(double a, double b, bool repeats_bits);

// Two data-parallel ranks have computed the losses of the samples of the second one. The pair i
// consists of the ranks i and (i + 1) % dp.
enum class ReplicaPair { equal, different, first_not_finite, second_not_finite };
// Returns the data-parallel rank that computes wrong results: the only one that has a value that is
// not finite where the other rank of its pair has a finite one, or else the only one that is in
// each pair that differs. Returns nullopt when the pairs do not show which rank is wrong, for
// example two finite losses of two ranks.
std::optional<i64> wrong_replica(const std::vector<ReplicaPair>& pairs);

class StepGuard {
  public:
    // The reaction of the loop to a step.
    enum class Verdict {
        update,     // update the weights
        drop,       // keep the weights; the learning rate does not advance
        skip,       // keep the weights, as if the batch were in --skip-train-iteration-range
        stop,       // save the state from before the step, then stop
        roll_back,  // load the last checkpoint, and skip the batches up to that of this step
        ended       // a stop signal has ended the step: keep the weights, then stop
    };
    // All references outlive this object. newest_step() finishes a pending save, and returns on
    // rank 0 the newest step of --save that this run has saved or loaded, or nullopt if there is
    // none. newest_step() is collective.
    using NewestStep = std::function<std::optional<i64>()>;
    StepGuard(const RunConfig& config, const data::DataSets& data, comm::Group& world,
              Trainer& trainer, TrainingLog& log, NewestStep newest_step = {})
        : config_(config),
          data_(data),
          world_(world),
          trainer_(trainer),
          log_(log),
          newest_step_(std::move(newest_step)) {}

    // The step to judge. `first_sample`: the index of the first sample of its global batch.
    struct Step {
        i64 iteration = 0;
        i64 first_sample = 0;
        TrainingLog::BatchSize batch;
    };
    // Call it before compute_gradients().
    void begin(i64 iteration);
    // Judges the result of compute_gradients(). Sets result.overflow after an fp16 overflow. If a
    // spike is repeated for --rerun-suspect, sets `result` to the result whose gradients the
    // trainer then holds. Throws JointError(failure) when one rank computes wrong results from
    // samples for which another rank computes other results, because its host is faulty. Throws
    // JointError(self_stopped) for a value that is not finite with --on-nan stop, at the 50th such
    // step in a row, and at the 150th fp16 overflow in a row. Collective.
    Verdict judge(const Step& step, StepResult& result);
    // Returns the description of the last suspicious step, which the message of a stop contains.
    const std::string& reason() const { return reason_; }
    // Returns the message of --on-spike stop. `iteration`: the iteration of the spike.
    std::string spike_stop_text(i64 iteration) const;
    const GuardMemory& memory() const { return memory_; }
    // Sets the memory to the memory in a checkpoint.
    void restore(const GuardMemory& memory) { memory_ = memory; }
    // Returns the range of the iterations `first` to `last`. Call it after the verdict skip or
    // roll_back on iteration `last`.
    RefusedRange refused(i64 first, i64 last, bool rolled_back) const;
    // Call it when the run skips the last iteration of a refused range without computing the step.
    // Sets the memory as the verdict on that step did.
    void skip_refused(const RefusedRange& range);

  private:
    Verdict judge_overflow(const Step& step, StepResult& result);
    std::string other_cause(const Step& step, const StepResult& result);
    Verdict judge_non_finite(const Step& step, const StepResult& result, const std::string& found);
    Verdict judge_spike(const Step& step, StepResult& result, const Spike& spike);
    void stop_at_overflows(const Step& step, const StepResult& result) const;
    void stop_at_non_finite(const Step& step) const;
    std::string remedy(i64 iteration) const;
    Verdict act(config::Reaction reaction, std::string_view flag, Verdict go_on);
    StepResult repeat(const Step& step, i64 dp_shift, double loss_scale);
    std::string origin(const Step& step, const StepResult& result, double loss_scale);
    std::string compare_ranks(const Step& step, const std::vector<double>& losses,
                              double loss_scale);
    bool same(const StepResult& a, const StepResult& b) const;
    bool same(double a, double b) const;
    std::vector<double> local_losses();
    void stop_at_wrong_rank() const;
    std::string first_of_all(const std::optional<NonFinite>& own);

    const RunConfig& config_;
    const data::DataSets& data_;
    comm::Group& world_;
    Trainer& trainer_;
    TrainingLog& log_;
    NewestStep newest_step_;
    GuardMemory memory_;
    bool last_was_spike_ = false;  // the last suspicious step was a spike; false: not finite
    optim::LossScaleState scale_before_;
    std::string reason_;
    std::string wrong_rank_;  // "rank 1 on n2", which computes wrong results; empty: none
};

}  // namespace lm::train
