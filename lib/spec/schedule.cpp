// SPDX-License-Identifier: Apache-2.0
#include "spec/schedule.hpp"

#include <algorithm>
#include <limits>
#include <set>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/problem_list.hpp"
#include "base/shape.hpp"

namespace lm::spec {
namespace {

constexpr i64 unbounded = std::numeric_limits<i64>::max();

// Throws Error(usage) when more than one of these options is given.
void check_one(std::initializer_list<std::pair<const char*, bool>> given) {
    const char* first = nullptr;
    for (const auto& [option, is_given] : given) {
        if (!is_given) continue;
        if (first != nullptr)
            usage_error(option, "cannot be combined with {}: give one of the two", first);
        first = option;
    }
}

std::optional<RateRange> decoupled_range(const ScheduleRequest& r) {
    if (!r.decoupled_lr) {
        if (r.decoupled_min_lr) usage_error("--decoupled-min-lr", "needs --decoupled-lr");
        return std::nullopt;
    }
    return RateRange{*r.decoupled_lr, r.decoupled_min_lr.value_or(r.min_lr)};
}

std::optional<GrowingWeightDecay> growing_decay(const ScheduleRequest& r, double samples) {
    constexpr std::string_view start_flag = "--start-weight-decay";
    if (r.weight_decay_style == WeightDecayStyle::constant) {
        if (r.start_weight_decay || r.end_weight_decay)
            usage_error(start_flag, "needs --weight-decay-incr-style linear or cosine");
        return std::nullopt;
    }
    if (!r.start_weight_decay || !r.end_weight_decay) {
        usage_error("--weight-decay-incr-style",
                    "needs --start-weight-decay and --end-weight-decay");
    }
    check_at_least(start_flag, *r.start_weight_decay, 0);
    if (!(*r.end_weight_decay >= *r.start_weight_decay)) {
        usage_error("--end-weight-decay", "{} is below {} {}", *r.end_weight_decay, start_flag,
                    *r.start_weight_decay);
    }
    return GrowingWeightDecay{*r.start_weight_decay, *r.end_weight_decay, r.weight_decay_style,
                              samples};
}

}  // namespace

void ScheduleRequest::check() const {
    check_all([&] { check_at_least("--seq-length", seq_length, 1); },
              [&] { check_at_least("--train-samples", train_samples, 1); },
              [&] { check_at_least("--train-iters", train_iters, 1); },
              [&] { check_at_least("--train-tokens", train_tokens, 1); },
              [&] { check_at_least("--lr-warmup-samples", warmup_samples, 0); },
              [&] { check_at_least("--lr-warmup-iters", warmup_iters, 0); },
              [&] { check_at_least("--lr-decay-samples", decay_samples, 1); },
              [&] { check_at_least("--lr-decay-iters", decay_iters, 1); },
              [&] { check_at_least("--lr-decay-tokens", decay_tokens, 1); },
              [&] {
                  if (!train_samples && !train_iters && !train_tokens) {
                      usage_error("--train-samples",
                                  "the length of the training is missing: give --train-samples, "
                                  "--train-iters or --train-tokens");
                  }
              },
              [&] {
                  check_one({{"--train-samples", train_samples.has_value()},
                             {"--train-iters", train_iters.has_value()}});
              },
              [&] {
                  check_one({{"--lr-warmup-samples", warmup_samples.value_or(0) != 0},
                             {"--lr-warmup-iters", warmup_iters.value_or(0) != 0},
                             {"--lr-warmup-tokens", warmup_tokens.has_value()},
                             {"--lr-warmup-fraction", warmup_fraction.has_value()}});
              },
              [&] {
                  check_one({{"--lr-decay-samples", decay_samples.has_value()},
                             {"--lr-decay-iters", decay_iters.has_value()},
                             {"--lr-decay-tokens", decay_tokens.has_value()}});
              },
              [&] {
                  check_one({{"--lr-wsd-decay-samples", anneal_samples.has_value()},
                             {"--lr-wsd-decay-iters", anneal_iters.has_value()}});
              },
              [&] { check_below_one("--lr-warmup-fraction", warmup_fraction.value_or(0)); },
              [&] {
                  if (!lr) usage_error("--lr", "the maximum learning rate is missing");
                  LearningRate{.max = *lr, .min = min_lr, .init = warmup_init}.check_rates();
              },
              [&] {
                  if (const auto range = decoupled_range(*this)) range->check();
              },
              [&] { (void)growing_decay(*this, 0); },
              [&] {
                  if (curriculum) curriculum->check(seq_length);
              });
}

Schedule::Schedule(const ScheduleRequest& request, std::vector<PastBatches> past)
    : request_(request), past_(std::move(past)) {
    request_.ramp.check();
    request_.check();
    end_ = run(unbounded);
    if (end_.iteration == 0) {
        usage_error("--train-samples", "{} is less than the first batch of {} samples",
                    request_.train_samples.value_or(0), batch({}));
    }
    set_rate();
}

i64 Schedule::seq_length(const Counters& done) const {
    return request_.curriculum ? request_.curriculum->seq_length(done.iteration + 1)
                               : request_.seq_length;
}

std::vector<i64> Schedule::seq_lengths(i64 iterations) const {
    if (!request_.curriculum) return {request_.seq_length};
    std::set<i64> lengths;
    for (i64 i = iterations + 1; i <= end_.iteration; ++i) {
        lengths.insert(request_.curriculum->seq_length(i));
        if (request_.curriculum->finished(i)) break;
    }
    return {lengths.begin(), lengths.end()};
}

Counters Schedule::next(const Counters& done) const {
    const i64 samples = batch(done);
    return {done.iteration + 1, done.samples + samples, done.tokens + samples * seq_length(done)};
}

// Returns what next() does, also for an iteration of a past part.
Counters Schedule::next_of_all(const Counters& done) const {
    const auto part = std::ranges::find_if(
        past_, [&](const PastBatches& p) { return done.iteration < p.until.iteration; });
    if (part == past_.end()) return next(done);
    // What a part has consumed is known at its end, also when its ramp does not explain it.
    if (done.iteration + 1 == part->until.iteration) return part->until;
    const i64 samples = part->ramp.batch_at(done.samples);
    return {done.iteration + 1, done.samples + samples, done.tokens + samples * seq_length(done)};
}

bool Schedule::finished(const Counters& done) const {
    return (request_.train_samples && done.samples + batch(done) > *request_.train_samples) ||
           (request_.train_iters && done.iteration >= *request_.train_iters) ||
           (request_.train_tokens && done.tokens >= *request_.train_tokens);
}

std::string_view Schedule::unreached_limit() const {
    if (!request_.train_tokens || (!request_.train_iters && !request_.train_samples)) return "";
    if (end_.tokens < *request_.train_tokens) return "--train-tokens";
    if (request_.train_iters) return end_.iteration < *request_.train_iters ? "--train-iters" : "";
    return end_.samples + batch(end_) > *request_.train_samples ? "" : "--train-samples";
}

// Returns the number of iterations from `done` to the end of the run if batch size and sequence
// length do not change in these iterations, else 0. run() adds these iterations at once.
i64 Schedule::steady_iterations(const Counters& done) const {
    if (!past_.empty() && done.iteration < past_.back().until.iteration) return 0;
    if (!ramp().is_full(done.samples)) return 0;
    if (request_.curriculum && !request_.curriculum->finished(done.iteration + 1)) return 0;
    const i64 samples = batch(done);
    i64 left = unbounded;
    if (request_.train_samples)
        left = std::min(left, (*request_.train_samples - done.samples) / samples);
    if (request_.train_iters) left = std::min(left, *request_.train_iters - done.iteration);
    if (request_.train_tokens) {
        left = std::min(left,
                        ceil_div(*request_.train_tokens - done.tokens, samples * seq_length(done)));
    }
    return left;
}

Counters Schedule::run(i64 max_iterations) const {
    Counters done;
    while (done.iteration < max_iterations && !finished(done)) {
        const i64 steady = std::min(steady_iterations(done), max_iterations - done.iteration);
        if (steady > 0) {
            const i64 samples = checked_mul(steady, batch(done));
            return {done.iteration + steady, done.samples + samples,
                    done.tokens + checked_mul(samples, seq_length(done))};
        }
        done = next_of_all(done);
    }
    return done;
}

// Returns the number of samples of the first `iterations` iterations. These may be more iterations
// than the run has, because the decay may be longer than the run.
i64 Schedule::samples_after_unbounded(i64 iterations) const {
    Counters begin;
    for (const auto& [ramp, until] : past_) {
        if (iterations < until.iteration) {
            const i64 samples = samples_after(ramp, iterations - begin.iteration, begin.samples);
            return std::min(samples, until.samples);
        }
        begin = until;
    }
    return samples_after(request_.ramp, iterations - begin.iteration, begin.samples);
}

// Returns the number of iterations that consume at most the first `samples` samples, without a
// limit as samples_after_unbounded().
i64 Schedule::whole_iterations(i64 samples) const {
    Counters begin;
    for (const auto& [ramp, until] : past_) {
        if (samples < until.samples) {
            const i64 n = begin.iteration + count_iterations(ramp, samples, begin.samples);
            return std::min(n, until.iteration);
        }
        begin = until;
    }
    return begin.iteration + count_iterations(request_.ramp, samples, begin.samples);
}

double Schedule::in_samples(std::optional<i64> samples, std::optional<i64> iterations) const {
    if (samples) return static_cast<double>(*samples);
    return iterations ? static_cast<double>(samples_after_unbounded(*iterations)) : 0.0;
}

// Returns the number of tokens consumed at the first iteration after which at least `samples`
// samples are consumed.
double Schedule::tokens_after(double samples) const {
    if (!request_.curriculum) return samples * static_cast<double>(request_.seq_length);
    Counters done;
    while (static_cast<double>(done.samples) < samples) done = next_of_all(done);
    return static_cast<double>(done.tokens);
}

// Returns the length of the WSD annealing in samples. As Megatron-LM's lr_wsd_decay_iters, the flag
// counts the last iterations of the decay, not the first of the training, whose batches may be
// smaller.
double Schedule::anneal_samples() const {
    if (request_.anneal_samples) return static_cast<double>(*request_.anneal_samples);
    constexpr std::string_view flag = "--lr-wsd-decay-iters";
    if (!request_.anneal_iters) {
        usage_error("--lr-wsd-decay-samples", "is needed by --lr-decay-style WSD");
    }
    const i64 n = *request_.anneal_iters;
    const i64 end =
        request_.decay_iters.value_or(whole_iterations(static_cast<i64>(rate_.decay_samples)));
    if (n < 1 || n > end) {
        usage_error(flag,
                    "{} iterations are not between 1 and the {} iterations of the whole decay", n,
                    end);
    }
    return static_cast<double>(samples_after_unbounded(end) - samples_after_unbounded(end - n));
}

void Schedule::set_rate() {
    const ScheduleRequest& request = request_;
    rate_.max = *request.lr;
    rate_.min = request.min_lr;
    rate_.init = request.warmup_init;
    rate_.style = request.decay_style;
    rate_.anneal = request.anneal_style;
    const bool decay_given = request.decay_samples || request.decay_iters;
    // Megatron's default is the value of --train-samples, even if this is not a whole number of
    // batches.
    rate_.decay_samples = decay_given ? in_samples(request.decay_samples, request.decay_iters)
                                      : static_cast<double>(planned_samples());
    rate_.warmup_samples = request.warmup_fraction
                               ? *request.warmup_fraction * rate_.decay_samples
                               : in_samples(request.warmup_samples, request.warmup_iters);
    if (request.warmup_tokens) {
        rate_.warmup_in_tokens = true;
        rate_.warmup_tokens = static_cast<double>(*request.warmup_tokens);
    }
    if (request.decay_tokens) rate_.decay_tokens = static_cast<double>(*request.decay_tokens);
    if (request.decay_style == DecayStyle::wsd) rate_.anneal_samples = anneal_samples();
    set_learning_rate(rate_, decoupled_range(request));
    set_weight_decay(growing_decay(request, static_cast<double>(planned_samples())));
}

void Schedule::set_learning_rate(const LearningRate& rate,
                                 const std::optional<RateRange>& decoupled) {
    rate_ = rate;
    if (!rate_.warmup_in_tokens)
        rate_.warmup_tokens = rate_.decay_tokens > 0 ? tokens_after(rate_.warmup_samples) : 0;
    rate_.check();
    if (decoupled) decoupled->check();
    decoupled_ = decoupled;
}

void Schedule::set_weight_decay(const std::optional<GrowingWeightDecay>& growing) {
    weight_decay_ = growing;
}

UpdateRates Schedule::rates(i64 stepped_samples, i64 stepped_tokens) const {
    UpdateRates rates{.lr = rate(stepped_samples, stepped_tokens)};
    if (decoupled_) {
        LearningRate decoupled = rate_;
        decoupled.max = decoupled_->max;
        decoupled.min = decoupled_->min;
        rates.decoupled_lr = decoupled.at(stepped_samples, stepped_tokens);
    }
    if (weight_decay_) rates.weight_decay = weight_decay_->at(stepped_samples);
    return rates;
}

}  // namespace lm::spec
