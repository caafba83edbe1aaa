// SPDX-License-Identifier: Apache-2.0
// The length of a training run, and the batch size, sequence length and learning rate of each
// iteration, all pure functions of the counters. The flags may count in samples, iterations or
// tokens; Schedule converts everything to samples once. A number of iterations becomes the samples
// that these iterations consume, wherever they are in a batch ramp.
#pragma once

#include <optional>
#include <vector>

#include "base/types.hpp"
#include "spec/batch_ramp.hpp"
#include "spec/curriculum.hpp"
#include "spec/learning_rate.hpp"

namespace lm::spec {

// Training progress: the iterations done, and the samples and tokens consumed. Skipped steps are
// included.
struct Counters {
    i64 iteration = 0;
    i64 samples = 0;
    i64 tokens = 0;
    bool operator==(const Counters&) const = default;
};

// The iterations up to `until` of a training that has changed its batch ramp since: they began
// where the previous part ended, and their batches followed `ramp`.
struct PastBatches {
    BatchRamp ramp;
    Counters until;
    bool operator==(const PastBatches&) const = default;
};

// The values of the flags, each in the unit in which the flag counts.
struct ScheduleRequest {
    i64 seq_length = 0;
    BatchRamp ramp;
    // The run ends at the first of these limits. At least one must be given, and at most one of
    // train_samples and train_iters.
    std::optional<i64> train_samples, train_iters, train_tokens;

    std::optional<double> lr;
    double min_lr = 0, warmup_init = 0;
    DecayStyle decay_style = DecayStyle::linear;
    // --decoupled-lr, --decoupled-min-lr: for the word embedding and the output projection
    std::optional<double> decoupled_lr, decoupled_min_lr;
    // --start-weight-decay, --end-weight-decay: both are given unless the style is constant
    std::optional<double> start_weight_decay, end_weight_decay;
    WeightDecayStyle weight_decay_style = WeightDecayStyle::constant;
    std::optional<i64> warmup_samples, warmup_iters, warmup_tokens;  // at most one, or
                                                                     // warmup_fraction
    std::optional<double> warmup_fraction;  // warm-up as a fraction of the decay
    std::optional<i64> decay_samples, decay_iters, decay_tokens;  // at most one of the three
    std::optional<i64> anneal_samples, anneal_iters;              // WSD: exactly one of the two
    AnnealStyle anneal_style = AnnealStyle::exponential;

    std::optional<Curriculum> curriculum;

    // Throws Error(usage) with all problems of the values; the constructor of Schedule, which
    // calls this, finds those that depend on the length of the training.
    void check() const;
};

class Schedule {
  public:
    // Throws Error(usage) naming the invalid flag. `past`: the parts of the training before its
    // last change of the ramp, in order.
    explicit Schedule(const ScheduleRequest& request, std::vector<PastBatches> past = {});
    // Returns the schedule of a resumed run with the same flags. Throws as the constructor does.
    Schedule with_past(std::vector<PastBatches> past) const {
        return Schedule(request_, std::move(past));
    }
    const std::vector<PastBatches>& past() const { return past_; }

    // batch() and seq_length() return the batch size and sequence length of the iteration after
    // `done`.
    i64 batch(const Counters& done) const { return ramp().batch_at(done.samples); }
    i64 seq_length(const Counters& done) const;
    // rate() and rates() return the rates of the next iteration. stepped_samples and stepped_tokens
    // count the samples and tokens of the optimizer steps so far, without skipped steps.
    double rate(i64 stepped_samples, i64 stepped_tokens) const {
        return rate_.at(stepped_samples, stepped_tokens);
    }
    UpdateRates rates(i64 stepped_samples, i64 stepped_tokens) const;
    // Returns the counters after the next iteration.
    Counters next(const Counters& done) const;

    // Returns whether the run ends at `done`: the rest of train_samples is less than a batch, or
    // the run has reached train_iters or train_tokens.
    bool finished(const Counters& done) const;
    // end() returns the counters at the end of the run. after() returns the counters after
    // `iteration` iterations, or end() when the run is shorter.
    const Counters& end() const { return end_; }
    Counters after(i64 iteration) const { return run(iteration); }
    // Returns the value of --train-samples, or if the flag is not given, the number of samples that
    // the run consumes. A run may consume fewer samples than --train-samples.
    i64 planned_samples() const { return request_.train_samples.value_or(end_.samples); }
    i64 total_iterations() const { return end_.iteration; }
    // Returns the flag of a limit that the run does not reach because it reaches another limit
    // first. Returns an empty text when there is no such flag.
    std::string_view unreached_limit() const;

    const BatchRamp& ramp() const { return request_.ramp; }
    const LearningRate& learning_rate() const { return rate_; }
    // Returns the highest and the lowest rate of the word embedding and the output projection;
    // nullopt when they have the rates of the other tensors.
    const std::optional<RateRange>& decoupled() const { return decoupled_; }
    const std::optional<GrowingWeightDecay>& weight_decay() const { return weight_decay_; }
    // set_learning_rate() replaces the rates and computes warmup_tokens. It throws Error(usage) for
    // invalid rates. set_weight_decay() replaces the growth of the weight decay.
    void set_learning_rate(const LearningRate& rate, const std::optional<RateRange>& decoupled);
    void set_weight_decay(const std::optional<GrowingWeightDecay>& growing);
    const std::optional<Curriculum>& curriculum() const { return request_.curriculum; }
    // Returns the different sequence lengths of the iterations after the first `iterations`,
    // ascending.
    std::vector<i64> seq_lengths(i64 iterations) const;

  private:
    Counters next_of_all(const Counters& done) const;
    Counters run(i64 max_iterations) const;
    i64 steady_iterations(const Counters& done) const;
    double in_samples(std::optional<i64> samples, std::optional<i64> iterations) const;
    void set_rate();
    double anneal_samples() const;
    double tokens_after(double samples) const;
    i64 samples_after_unbounded(i64 iterations) const;
    i64 whole_iterations(i64 samples) const;

    ScheduleRequest request_;
    std::vector<PastBatches> past_;
    Counters end_;
    LearningRate rate_;
    std::optional<RateRange> decoupled_;
    std::optional<GrowingWeightDecay> weight_decay_;
};

}  // namespace lm::spec
