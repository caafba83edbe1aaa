// SPDX-License-Identifier: Apache-2.0
#include "config/schedule_flags.hpp"

#include <algorithm>
#include <limits>
#include <sstream>

#include "base/error.hpp"
#include "base/units.hpp"
#include "config/field_json.hpp"

namespace lm::config {
namespace {

using io::OrderedJson;

OrderedJson steps_json(const spec::BatchRamp& ramp, i64 seq_length) {
    OrderedJson steps;
    for (const spec::BatchFrom& step : ramp.steps) {
        steps.push_back(fmt::format("{}:{}", step.samples * seq_length, step.batch));
    }
    return steps;
}

OrderedJson ramp_json(const spec::BatchRamp& ramp) {
    if (ramp.start == 0 || !ramp.steps.empty()) return nullptr;
    return {ramp.start, ramp.increment, ramp.samples};
}

// Returns null when there is no `object`.
template <typename Object>
OrderedJson member_json(const std::optional<Object>& object, double Object::*member) {
    return object ? OrderedJson((*object).*member) : OrderedJson();
}

OrderedJson curriculum_json(const std::optional<spec::Curriculum>& curriculum) {
    if (!curriculum) return nullptr;
    OrderedJson json = {{"schedule", name_of(curriculum->kind)}};
    if (curriculum->kind == spec::Curriculum::Kind::fixed_discrete) {
        json["difficulties"] = curriculum->lengths;
        json["max_steps"] = curriculum->max_steps;
        return json;
    }
    json["min_difficulty"] = curriculum->min;
    json["max_difficulty"] = curriculum->max;
    json["total_steps"] = curriculum->total_steps;
    json["difficulty_step"] = curriculum->difficulty_step;
    json["root_degree"] = curriculum->root_degree;
    return json;
}

}  // namespace

const Fields<ScheduleFlags>& length_fields() {
    using S = ScheduleFlags;
    static const FieldsIn<S, Block::training> fields = {
        {.option = "--train-samples",
         .member = &S::train_samples,
         .json = [](const Resolved& r) -> OrderedJson { return r.schedule.end().samples; },
         .metavar = "N",
         .help = "length of the training in samples; or give --train-iters or --train-tokens",
         .on_resume = OnResume::sample_count},
        {.option = "--train-iters",
         .member = &S::train_iters,
         .metavar = "N",
         .help = "length of the training in iterations",
         .block = Block::none},
        {.option = "--train-tokens",
         .member = &S::train_tokens,
         .metavar = "N",
         .help = "length of the training in tokens",
         .block = Block::none},
        {.option = "--global-batch-size",
         .member = &S::global_batch,
         .json = [](const Resolved& r) -> OrderedJson { return r.schedule.ramp().global_batch; },
         .metavar = "N",
         .help = "sequences of one optimizer step; default in lm-train: the micro-batch size"},
        {.option = "--rampup-batch-size",
         .member = &S::rampup,
         .json = [](const Resolved& r) -> OrderedJson { return ramp_json(r.schedule.ramp()); },
         .metavar = "START INCREMENT SAMPLES",
         .help = "start with batches of START and add INCREMENT at a time, up to the global batch "
                 "size after SAMPLES samples"},
        {.option = "--step-batch-size-schedule",
         .member = &S::batch_steps,
         .json = [](const Resolved& r) -> OrderedJson {
             return steps_json(r.schedule.ramp(), r.model.seq_length);
         },
         .metavar = "TOKENS:BATCH ...",
         .help =
             "batch sizes, each with the number of consumed tokens from which it holds, such as "
             "0:384 200B:768 400B:1152; instead of --global-batch-size"},
        {.option = "--micro-batch-size",
         .member = &S::micro_batch,
         .json = [](const Resolved& r) -> OrderedJson { return r.micro_batch; },
         .metavar = "N",
         .help = "sequences that a rank computes at a time; lm-train requires it"},
    };
    return fields;
}

const Fields<ScheduleFlags>& rate_fields() {
    using S = ScheduleFlags;
    static const FieldsIn<S, Block::training, OnResume::schedule> fields = {
        {.option = "--lr",
         .member = &S::lr,
         .json = [](const Resolved& r) -> OrderedJson { return r.schedule.learning_rate().max; },
         .metavar = "RATE",
         .help = "highest learning rate; required"},
        {.option = "--min-lr",
         .member = &S::min_lr,
         .json = [](const Resolved& r) -> OrderedJson { return r.schedule.learning_rate().min; },
         .metavar = "RATE",
         .help = "learning rate at the end of the decay"},
        {.option = "--lr-decay-style",
         .member = &S::lr_decay_style,
         .json = [](const Resolved& r) -> OrderedJson {
             return name_of(r.schedule.learning_rate().style);
         },
         .help = "shape of the learning rate after the warm-up",
         .choices = names_in(spec::decay_styles)},
        {.option = "--lr-warmup-init",
         .member = &S::lr_warmup_init,
         .json = [](const Resolved& r) -> OrderedJson { return r.schedule.learning_rate().init; },
         .metavar = "RATE",
         .help = "learning rate at the start of the warm-up"},
        {.option = "--lr-warmup-samples",
         .member = &S::lr_warmup_samples,
         .json = [](const Resolved& r) -> OrderedJson {
             return r.schedule.learning_rate().warmup_samples;
         },
         .metavar = "N",
         .help = "length of the warm-up in samples"},
        {.option = "--lr-warmup-iters",
         .member = &S::lr_warmup_iters,
         .metavar = "N",
         .help = "length of the warm-up in iterations",
         .block = Block::none},
        {.option = "--lr-warmup-tokens",
         .member = &S::lr_warmup_tokens,
         .json = [](const Resolved& r) -> OrderedJson {
             const spec::LearningRate& rate = r.schedule.learning_rate();
             return rate.warmup_in_tokens ? OrderedJson(rate.warmup_tokens) : OrderedJson();
         },
         .metavar = "N",
         .help = "length of the warm-up in tokens"},
        {.option = "--lr-warmup-fraction",
         .member = &S::lr_warmup_fraction,
         .metavar = "F",
         .help = "length of the warm-up as a fraction of the decay",
         .block = Block::none},
        {.option = "--decoupled-lr",
         .member = &S::decoupled_lr,
         .json = [](const Resolved& r) -> OrderedJson {
             return member_json(r.schedule.decoupled(), &spec::RateRange::max);
         },
         .metavar = "RATE",
         .help = "highest learning rate of the word embedding and the output projection, if it "
                 "differs from --lr"},
        {.option = "--decoupled-min-lr",
         .member = &S::decoupled_min_lr,
         .json = [](const Resolved& r) -> OrderedJson {
             return member_json(r.schedule.decoupled(), &spec::RateRange::min);
         },
         .metavar = "RATE",
         .help = "learning rate of --decoupled-lr at the end of the decay; default: --min-lr"},
    };
    return fields;
}

const Fields<ScheduleFlags>& decay_fields() {
    using S = ScheduleFlags;
    static const FieldsIn<S, Block::training, OnResume::schedule> fields = {
        {.option = "--lr-decay-samples",
         .member = &S::lr_decay_samples,
         .json = [](const Resolved& r) -> OrderedJson {
             return r.schedule.learning_rate().decay_samples;
         },
         .metavar = "N",
         .help = "samples after which --min-lr is reached; default: the whole training",
         .on_resume = OnResume::decay_end},
        {.option = "--lr-decay-iters",
         .member = &S::lr_decay_iters,
         .metavar = "N",
         .help = "iterations after which --min-lr is reached",
         .block = Block::none},
        {.option = "--lr-decay-tokens",
         .member = &S::lr_decay_tokens,
         .json = [](const Resolved& r) -> OrderedJson {
             return r.schedule.learning_rate().decay_tokens;
         },
         .metavar = "N",
         .help = "tokens after which --min-lr is reached",
         .on_resume = OnResume::decay_end},
        {.option = "--lr-wsd-decay-style",
         .member = &S::lr_wsd_decay_style,
         .json = [](const Resolved& r) -> OrderedJson {
             const spec::LearningRate& rate = r.schedule.learning_rate();
             if (rate.style != spec::DecayStyle::wsd) return nullptr;
             return name_of(rate.anneal);
         },
         .help = "shape of the last phase of --lr-decay-style WSD",
         .choices = names_in(spec::anneal_styles)},
        {.option = "--lr-wsd-decay-samples",
         .member = &S::lr_wsd_decay_samples,
         .json = [](const Resolved& r) -> OrderedJson {
             return r.schedule.learning_rate().anneal_samples;
         },
         .metavar = "N",
         .help = "length of the last phase of --lr-decay-style WSD in samples"},
        {.option = "--lr-wsd-decay-iters",
         .member = &S::lr_wsd_decay_iters,
         .metavar = "N",
         .help = "length of the last phase of --lr-decay-style WSD in iterations",
         .block = Block::none},
    };
    return fields;
}

const Fields<ScheduleFlags>& weight_decay_fields() {
    using S = ScheduleFlags;
    static const FieldsIn<S, Block::training, OnResume::schedule> fields = {
        {.option = "--start-weight-decay",
         .member = &S::start_weight_decay,
         .json = [](const Resolved& r) -> OrderedJson {
             return member_json(r.schedule.weight_decay(), &spec::GrowingWeightDecay::start);
         },
         .metavar = "W",
         .help =
             "weight decay at the start, with a --weight-decay-incr-style that is not constant"},
        {.option = "--end-weight-decay",
         .member = &S::end_weight_decay,
         .json = [](const Resolved& r) -> OrderedJson {
             return member_json(r.schedule.weight_decay(), &spec::GrowingWeightDecay::end);
         },
         .metavar = "W",
         .help = "weight decay at the end of the training"},
        {.option = "--weight-decay-incr-style",
         .member = &S::weight_decay_style,
         .json = [](const Resolved& r) -> OrderedJson {
             const auto& growing = r.schedule.weight_decay();
             return name_in(spec::weight_decay_styles,
                            growing ? growing->style : spec::WeightDecayStyle::constant);
         },
         .help = "growth of the weight decay over the samples of the training",
         .choices = names_in(spec::weight_decay_styles)},
    };
    return fields;
}

const Fields<CurriculumFlags>& curriculum_fields() {
    using S = CurriculumFlags;
    static const FieldsIn<S, Block::none> fields = {
        {.option = "--curriculum-learning-type",
         .member = &S::type,
         .json = [](const Resolved& r) -> OrderedJson {
             return curriculum_json(r.schedule.curriculum());
         },
         .help = "train on the first tokens of each sample, and use more tokens as the training "
                 "proceeds",
         .choices = {"seqlen"},
         .block = Block::training,
         .on_resume = OnResume::schedule},
        {.option = "--curriculum-schedule",
         .member = &S::schedule,
         .help = "growth of the sequence length over the iterations",
         .choices = names_in(spec::curriculum_kinds)},
        {.option = "--curriculum-min-difficulty",
         .member = &S::min_difficulty,
         .metavar = "N",
         .help = "tokens of a sequence at the start"},
        {.option = "--curriculum-max-difficulty",
         .member = &S::max_difficulty,
         .metavar = "N",
         .help = "tokens of a sequence at the end; default: the sequence length"},
        {.option = "--curriculum-total-steps",
         .member = &S::total_steps,
         .metavar = "N",
         .help = "iterations until the sequences have their full length"},
        {.option = "--curriculum-difficulty-step",
         .member = &S::difficulty_step,
         .metavar = "N",
         .help = "round the tokens of a sequence to a multiple of N"},
        {.option = "--curriculum-root-degree",
         .member = &S::root_degree,
         .metavar = "N",
         .help = "degree of the root of fixed_root"},
        {.option = "--curriculum-difficulties",
         .member = &S::difficulties,
         .metavar = "N ...",
         .help = "tokens of a sequence in each stage of fixed_discrete"},
        {.option = "--curriculum-max-steps",
         .member = &S::max_steps,
         .metavar = "N ...",
         .help = "last iteration of each stage of fixed_discrete, except the final stage"},
    };
    return fields;
}

namespace {

constexpr std::string_view steps_flag = "--step-batch-size-schedule";

// Returns the batch ramp of --step-batch-size-schedule. As in Megatron, blanks or commas separate
// the entries, which need not be sorted.
spec::BatchRamp stepped_ramp(const ScheduleFlags& flags, i64 seq_length) {
    if (flags.global_batch)
        usage_error(steps_flag, "cannot be combined with --global-batch-size: give one of the two");
    if (!flags.rampup.empty())
        usage_error(steps_flag, "cannot be combined with --rampup-batch-size: give one of the two");
    if (seq_length < 1) usage_error(steps_flag, "needs --seq-length");
    spec::BatchRamp ramp;
    std::string text = fmt::format("{}", fmt::join(flags.batch_steps, " "));
    std::erase_if(text, [](char c) { return c == '\'' || c == '"'; });
    std::ranges::replace(text, ',', ' ');
    std::istringstream entries(text);
    for (std::string entry; entries >> entry;) {
        const size_t colon = entry.find(':');
        if (colon == entry.npos) usage_error(steps_flag, "expected TOKENS:BATCH, got '{}'", entry);
        ramp.steps.push_back({parse_count(steps_flag, entry.substr(0, colon)) / seq_length,
                              parse_count(steps_flag, entry.substr(colon + 1))});
    }
    if (ramp.steps.empty()) usage_error(steps_flag, "is empty");
    std::ranges::sort(ramp.steps, {}, &spec::BatchFrom::samples);
    ramp.global_batch = ramp.steps.back().batch;
    if (ramp.steps.size() == 1) {
        ramp.check();
        ramp.steps.clear();
        return ramp;
    }
    ramp.start = ramp.steps.front().batch;
    ramp.samples = ramp.steps.back().samples - 1;
    ramp.check();
    return ramp;
}

}  // namespace

spec::BatchRamp batch_ramp(const ScheduleFlags& flags, i64 seq_length) {
    if (!flags.batch_steps.empty()) return stepped_ramp(flags, seq_length);
    constexpr std::string_view flag = "--rampup-batch-size";
    spec::BatchRamp ramp{.global_batch =
                             flags.global_batch.value_or(flags.micro_batch.value_or(0))};
    const std::vector<i64>& numbers = flags.rampup;
    if (!numbers.empty()) {
        if (numbers.size() != 3) {
            usage_error(flag, "expected the 3 values START INCREMENT SAMPLES, got {}",
                        numbers.size());
        }
        if (numbers[0] < 1) {
            usage_error(flag, "the first batch size must be at least 1, got {}", numbers[0]);
        }
        if (numbers[2] < 1)
            usage_error(flag, "the ramp must last for at least 1 sample, got {}", numbers[2]);
        if (numbers[0] != ramp.global_batch) {
            ramp.start = numbers[0];
            ramp.increment = numbers[1];
            ramp.samples = numbers[2];
        }
    }
    ramp.check();
    return ramp;
}

i64 training_samples(const ScheduleFlags& flags, const spec::BatchRamp& ramp, i64 seq_length) {
    if (!flags.train_samples && !flags.train_iters && !flags.train_tokens) {
        usage_error("--train-samples",
                    "give one of --train-samples, --train-iters, --train-tokens");
    }
    if (flags.train_samples && flags.train_iters) {
        usage_error("--train-iters",
                    "cannot be combined with --train-samples: give one of the two");
    }
    if (flags.train_tokens && seq_length == 0) usage_error("--train-tokens", "needs --seq-length");
    i64 samples = flags.train_samples.value_or(std::numeric_limits<i64>::max());
    if (flags.train_iters) samples = spec::samples_after(ramp, *flags.train_iters);
    if (flags.train_tokens) {
        // The training consumes the whole batch that contains the last token.
        const i64 needed = ceil_div(*flags.train_tokens, seq_length);
        const i64 whole = spec::count_iterations(ramp, needed);
        const i64 before = spec::samples_after(ramp, whole);
        const i64 taken = before < needed ? spec::samples_after(ramp, whole + 1) : before;
        samples = std::min(samples, taken);
    }
    return samples;
}

}  // namespace lm::config
