// SPDX-License-Identifier: Apache-2.0
#include "schedule.hpp"

#include "base/error.hpp"

namespace lm::estimate {
namespace {

spec::BatchRamp ramp_of(const ScheduleFlags& flags) {
    if (!flags.global_batch) usage_error("--global-batch-size", "must be given");
    spec::BatchRamp ramp{.global_batch = *flags.global_batch};
    if (!flags.ramp.empty()) {
        if (flags.ramp.size() != 3) {
            usage_error("--rampup-batch-size", "takes three values: start, increment, samples");
        }
        if (flags.train_iters) {
            usage_error("--rampup-batch-size", "needs --train-samples, not --train-iters");
        }
        ramp.start = flags.ramp[0];
        ramp.increment = flags.ramp[1];
        ramp.samples = flags.ramp[2];
        if (ramp.start == 0) usage_error("--rampup-batch-size", "start must be at least 1");
    }
    ramp.check();
    return ramp;
}

i64 samples_of(const ScheduleFlags& flags, i64 global_batch, i64 seq_length) {
    const int given = flags.train_samples.has_value() + flags.train_iters.has_value() +
                      flags.train_tokens.has_value();
    if (given != 1) {
        usage_error("--train-samples",
                    "give one of --train-samples, --train-iters, --train-tokens");
    }
    if (flags.train_samples) return *flags.train_samples;
    if (flags.train_iters) return checked_mul(*flags.train_iters, global_batch);
    if (seq_length == 0) usage_error("--train-tokens", "needs --seq-length");
    return ceil_div(*flags.train_tokens, seq_length);
}

}  // namespace

void at_least_one(std::string_view flag, i64 value) {
    if (value < 1) usage_error(flag, "{} is not at least 1", value);
}

void add_schedule_options(cli::Options& options, ScheduleFlags& flags) {
    options.group("Schedule");
    options.value("--global-batch-size", &flags.global_batch, "N", "sequences in a step");
    options.values("--rampup-batch-size", &flags.ramp, "START INCREMENT SAMPLES",
                   "begin with START sequences and add INCREMENT at a time over SAMPLES samples");
    options.value("--train-samples", &flags.train_samples, "N", "sequences to train on");
    options.value("--train-iters", &flags.train_iters, "N", "or steps");
    options.value("--train-tokens", &flags.train_tokens, "N", "or tokens");
}

Schedule resolve_schedule(const ScheduleFlags& flags, i64 seq_length) {
    const spec::BatchRamp ramp = ramp_of(flags);
    return {ramp, samples_of(flags, ramp.global_batch, seq_length)};
}

}  // namespace lm::estimate
