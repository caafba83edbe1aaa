// SPDX-License-Identifier: Apache-2.0
// lm-estimate time: the time of a step on described GPUs, and the days that a training takes, on
// these GPUs or at a given throughput.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/shape.hpp"
#include "base/types.hpp"
#include "base/units.hpp"
#include "config/plan_warnings.hpp"
#include "cost/activation_plan.hpp"
#include "cost/formulas.hpp"
#include "cost/step_time.hpp"
#include "cost/training_time.hpp"
#include "figures.hpp"
#include "goodput_report.hpp"
#include "gpu_options.hpp"
#include "picture.hpp"
#include "plot/gantt_chart.hpp"
#include "run_flags.hpp"
#include "step_report.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

struct EnergyFlags {
    std::optional<double> watts;
    std::optional<double> pue;
    std::string price;
    std::optional<double> carbon;
};

// The GPUs of a training and their time.
struct GpuTime {
    i64 n_gpus = 0;
    double running_s = 0;                  // without waiting in the queue
    std::optional<double> hardware_watts;  // power of a GPU and its share of the node
};

// The price of a GPU-hour or of a kWh.
struct Price {
    double value = 0;
    bool of_energy = false;
};

Price parse_price(std::string_view text) {
    const std::string_view number = text.substr(0, text.find('/'));
    std::string unit(text.substr(number.size()));
    std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool is_number =
        !number.empty() && number.find_first_not_of("0123456789.eE+-") == number.npos;
    const Price price{.value = is_number ? parse_number("--price", number) : 0,
                      .of_energy = unit == "/kwh"};
    if (!is_number || !(unit.empty() || unit == "/gpuh" || price.of_energy)) {
        usage_error("--price",
                    "expected a price such as 2.50 or 2.50/GPUh, or of energy, such as 0.15/kWh, "
                    "got {}",
                    text);
    }
    check_at_least("--price", price.value, 0);
    return price;
}

// Large amounts are printed without fractions.
Unit unit_of(double value) {
    return value >= 1000 ? Unit::count : Unit::plain;
}

void add_energy_options(cli::Options& options, EnergyFlags& flags) {
    options.group("Energy and cost");
    options.value(
        "--watts", &flags.watts, "W",
        "power of a GPU, including its share of the power of the node; default: from --gpu");
    options.value("--pue", &flags.pue, "X",
                  "energy of the computing centre / energy of its computers; default: 1");
    options.value(
        "--price", &flags.price, "P",
        "price of a GPU-hour, as 2.50 or 2.50/GPUh, or of energy, as 0.15/kWh, in any currency");
    options.value("--carbon", &flags.carbon, "G", "grams of CO2 equivalent per kWh");
}

// Throws Error(usage) for values out of range.
void check(const EnergyFlags& flags) {
    check_above_to("--watts", flags.watts, 0, 1e6);
    if (flags.pue) check_from_to("--pue", *flags.pue, 1, 10);
    check_at_least("--carbon", flags.carbon, 0);
    if (!flags.price.empty()) parse_price(flags.price);
}

// Returns the figures: the GPU-hours; the energy if the power of the GPUs is known; money and CO2
// if their flags are given. Throws Error(usage) when a given flag needs the power and the power is
// not known.
std::vector<Figure> energy_figures(const EnergyFlags& flags, const GpuTime& time) {
    const double gpu_hours = as_double(time.n_gpus) * time.running_s / 3600;
    std::vector<Figure> figures{{"gpu_hours", "GPU-hours", unit_of(gpu_hours), gpu_hours,
                                 "--gpus x running time, without waiting in the queue"}};
    const std::optional<double> watts = flags.watts ? flags.watts : time.hardware_watts;
    const double kwh = gpu_hours * watts.value_or(0) * flags.pue.value_or(1) / 1000;
    if (watts) {
        figures.push_back(
            {"energy_kwh", "energy (kWh)", unit_of(kwh), kwh,
             fmt::format("GPU-hours x {:.4g} W x {:.3g} (--pue)", *watts, flags.pue.value_or(1))});
    }
    const auto need_watts = [&watts](const char* flag) {
        if (!watts)
            usage_error(flag,
                        "needs the power of a GPU: give --gpu, or --watts, the power of a GPU, "
                        "including its share of the power of the node");
    };
    if (flags.pue) need_watts("--pue");
    if (!flags.price.empty()) {
        const Price price = parse_price(flags.price);
        if (price.of_energy) need_watts("--price");
        const double cost = price.value * (price.of_energy ? kwh : gpu_hours);
        figures.push_back({"cost", "cost", unit_of(cost), cost,
                           price.of_energy ? "energy x --price" : "GPU-hours x --price"});
    }
    if (flags.carbon) {
        need_watts("--carbon");
        const double co2_kg = kwh * *flags.carbon / 1000;
        figures.push_back({"co2_kg", "CO2 (kg)", unit_of(co2_kg), co2_kg, "energy x --carbon"});
    }
    return figures;
}

// A simulated step.
struct StepPicture {
    std::vector<cost::PipelineEvent> events;  // the passes
    cost::StepTime time;
    std::vector<Figure> parts;  // the result of step_parts()
    i64 n_stages = 1;
};

// A kind of work of a stage. The letter stands for it on a terminal.
struct Work {
    const char* name;
    char letter;
};
enum WorkKind : size_t { forward, backward, reduction, optimizer, gather };
constexpr std::array<Work, 5> works = {{{"forward", 'F'},
                                        {"backward", 'B'},
                                        {"gradient reduction", 'R'},
                                        {"optimizer", 'O'},
                                        {"gather of weights", 'G'}}};

// Returns the spans of the step: passes, and the phases after the pipeline. Ascending in each row.
std::vector<plot::GanttSpan> spans_of(const StepPicture& step) {
    std::vector<plot::GanttSpan> spans;
    for (const cost::PipelineEvent& event : step.events) {
        spans.push_back({.row = static_cast<size_t>(event.stage),
                         .kind = event.is_forward ? forward : backward,
                         .start = event.start_s,
                         .end = event.end_s,
                         .label = fmt::format("{}", event.micro_batch)});
    }
    double start_s = step.time.pipeline_s();
    const auto add_phase = [&](WorkKind kind, double seconds, bool only_ends) {
        if (!(seconds > 0)) return;
        for (i64 stage = 0; stage < step.n_stages; ++stage) {
            if (only_ends && stage > 0 && stage + 1 < step.n_stages) continue;
            spans.push_back({.row = static_cast<size_t>(stage),
                             .kind = kind,
                             .start = start_s,
                             .end = start_s + seconds,
                             .label = ""});
        }
        start_s += seconds;
    };
    add_phase(reduction, step.time.reduce_s(), false);
    add_phase(reduction, step.time.tied_s, true);
    add_phase(optimizer, step.time.optimizer_s, false);
    add_phase(gather, step.time.gather_s, false);
    std::ranges::stable_sort(spans, {}, &plot::GanttSpan::row);
    return spans;
}

bool has_kind(const std::vector<plot::GanttSpan>& spans, size_t kind) {
    return std::ranges::any_of(spans, [kind](const auto& span) { return span.kind == kind; });
}

// Returns a line for each stage, and the meaning of the letters. The 68 characters of a line show
// the work of the stage from the start to the end of the step.
std::string text_of(const std::vector<plot::GanttSpan>& spans, const StepPicture& step) {
    constexpr size_t columns = 68;  // 79 with the name
    const double end_s = step.time.total();
    std::vector<std::string> lines(static_cast<size_t>(step.n_stages), std::string(columns, '.'));
    for (const plot::GanttSpan& span : spans) {
        const auto from = static_cast<size_t>(span.start / end_s * columns);
        const auto to = static_cast<size_t>(span.end / end_s * columns);
        for (size_t i = from; i < std::min(std::max(to, from + 1), columns); ++i) {
            lines[span.row][i] = works[span.kind].letter;
        }
    }
    std::string text;
    for (size_t stage = 0; stage < lines.size(); ++stage)
        text += fmt::format("stage {:>3}  {}\n", stage, lines[stage]);
    for (size_t kind = 0; kind < works.size(); ++kind) {
        if (has_kind(spans, kind))
            text += fmt::format("{} {}, ", works[kind].letter, works[kind].name);
    }
    return text + fmt::format(". idle\nstart to end: {}\n", human_duration(end_s));
}

std::vector<plot::GanttShare> shares_of(const StepPicture& step) {
    std::vector<plot::GanttShare> shares;
    for (size_t i = 0; i + 1 < step.parts.size(); ++i) {
        const double value = std::get<double>(step.parts[i].value);
        if (!(value > 1e-9 * step.time.total())) continue;  // rounding gives a bubble of 1e-16 s
        shares.push_back(
            {step.parts[i].label, value,
             fmt::format("{}, {:.1f} %", human_duration(value), 100 * value / step.time.total())});
    }
    return shares;
}

// Returns the picture. Its time axis ends at time.total(). After the pipeline, all stages reduce
// gradients, compute the optimizer and gather weights at the same time.
Picture step_picture(const StepPicture& step) {
    plot::GanttChart chart{.title = "One training step",
                           .x_label = "Time (s)",
                           .row_heading = "Stage",
                           .n_rows = static_cast<size_t>(step.n_stages),
                           .kinds = {},
                           .spans = spans_of(step),
                           .end = step.time.total(),
                           .end_label = "end: " + human_duration(step.time.total()),
                           .label_note = "numbers: micro-batches",
                           .shares = shares_of(step),
                           .shares_heading = "Time of the busiest stage"};
    for (const Work& work : works) chart.kinds.emplace_back(work.name);
    std::string text = text_of(chart.spans, step);
    return {svg_of(chart), std::move(text)};
}

struct Flags {
    config::TrainFlags train;
    i64 micro_batch = 1;  // micro_batch to job_minutes are resolved from `train`
    std::optional<i64> eval_interval, save_interval;
    std::optional<double> job_minutes;
    std::optional<i64> gpus;
    std::optional<double> tflops;
    GpuFlags hardware;
    cli::Bytes allowance{cost::cuda_allowance_bytes};
    cli::WithDefault<i64> eval_sets = 1;
    cli::Duration save_time;
    std::optional<double> hours_per_day;
    cli::Duration queue_gap;
    FailureFlags failures;
    EnergyFlags energy;
    OutputFlags output;
    PictureFlags picture;
    bool simulates() const {
        return !hardware.gpu.value.empty() || !hardware.hardware_file.empty();
    }
    bool has_length() const {
        const config::ScheduleFlags& schedule = train.schedule;
        return schedule.train_samples || schedule.train_iters || schedule.train_tokens;
    }
};

void add_calendar(std::vector<Figure>& figures, const Flags& flags, double running) {
    double calendar = running;
    if (flags.job_minutes && !flags.failures.given()) {
        const double jobs = std::ceil(running / (*flags.job_minutes * 60));
        figures.push_back({"jobs", "jobs", Unit::count, static_cast<i64>(jobs),
                           "running time / --exit-duration-in-mins, rounded up"});
        const double gaps = (jobs - 1) * flags.queue_gap.seconds;
        add_seconds(figures, "queue", "waiting in the queue", gaps, "(jobs - 1) x --queue-gap");
        calendar += gaps;
    }
    if (flags.hours_per_day) {
        calendar *= 24 / *flags.hours_per_day;
    }
    add_seconds(figures, "calendar", "calendar time", calendar,
                "running and waiting, x 24 / --hours-per-day");
}

// Adds the figures of a training with failures to `printout`. Returns its running time, and its
// time including the waiting in the queue.
GoodputReport add_goodput(Printout& printout, const Flags& flags, const cost::TrainingTime& time) {
    std::optional<double> job_s;
    if (flags.job_minutes) job_s = *flags.job_minutes * 60;
    GoodputReport report =
        report_goodput(flags.failures, {.n_gpus = *flags.gpus,
                                        .work_s = time.steps_s + time.evaluations_s,
                                        .step_s = time.full_iteration_s,
                                        .save_interval = flags.save_interval,
                                        .save_s = flags.save_time.seconds,
                                        .job_s = job_s,
                                        .queue_s = flags.queue_gap.seconds});
    printout.figures("goodput", std::move(report.figures));
    return report;
}

// Adds the operations of an iteration, counted as in the logs of Megatron. The value of --tflops
// refers to this count.
void add_megatron_flops(std::vector<Figure>& figures, const cost::TrainingPlan& plan) {
    const i64 vocab = padded_vocab(plan.model, plan.parallel);
    figures.push_back(
        {"iteration_flops", "operations per iteration (Megatron)", Unit::plain,
         cost::iteration_flops(plan.model, vocab, plan.ramp.global_batch, plan.model.seq_length,
                               cost::recomputed_share(plan.model, plan.parallel)),
         "Megatron's formula: 24 B s L h^2 k (1 + s/(6h) + V/(16 L h)), k = 3, or 4 with "
         "full recomputation, in between when --recompute-method block recomputes a part of the "
         "layers; 32 instead of 24 for a gated MLP; arXiv 2104.04473, equation 3, and "
         "Megatron-DeepSpeed's log"});
}

void add_steps(std::vector<Figure>& figures, const Flags& flags, const cost::TrainingPlan& plan,
               const std::vector<spec::RampStep>& steps, const cost::TrainingTime& seconds) {
    const i64 samples = steps.back().consumed_after();
    const double tokens = as_double(checked_mul(samples, plan.model.seq_length));
    const double n_parameters = as_double(count_parameters(plan.model).total());
    figures.push_back({"iterations", "iterations", Unit::count, cost::n_iterations(steps),
                       "counted as in lm-estimate batch"});
    figures.push_back({"samples", "samples", Unit::count, samples, ""});
    figures.push_back(
        {"tokens", "tokens", Unit::count, static_cast<i64>(tokens), "samples x --seq-length"});
    if (!plan.simulated_s) {
        add_seconds(figures, "iteration", "one iteration", seconds.full_iteration_s,
                    "operations by Megatron's formula / (--gpus x --tflops), at the full batch");
    }
    add_seconds(
        figures, "steps", "all steps", seconds.steps_s,
        "the sum over all batches of the ramp; a smaller batch has a larger pipeline bubble");
    if (!flags.tflops) return;
    add_seconds(
        figures, "rule", "rule of thumb",
        cost::training_seconds(n_parameters, tokens, as_double(*flags.gpus), *flags.tflops,
                               cost::recomputed_share(plan.model, plan.parallel)),
        "6 T P / (n X), 8 with full recomputation: T tokens, P parameters, n GPUs, X throughput; "
        "BigScience's README and arXiv 2104.04473, equation 4");
}

// Returns the plan and the number of samples of the training.
std::pair<cost::TrainingPlan, i64> resolve_plan(const Flags& flags) {
    if (!flags.gpus) usage_error("--gpus", "is missing: give the number of GPUs of the run");
    if (flags.simulates() && flags.tflops)
        usage_error("--tflops", "cannot be given with --gpu or --hardware: give one of the two");
    if (!flags.simulates() && !flags.tflops) {
        usage_error("--gpu",
                    "is missing: give --gpu, --hardware or --tflops (TFLOP/s of one GPU, from a "
                    "log or from lm-train --benchmark)");
    }
    if (flags.tflops) check_above("--tflops", *flags.tflops, 0);
    check_at_least("--gpus", *flags.gpus, 1);
    check_at_least("--eval-interval", flags.eval_interval, 1);
    check_at_least("--save-interval", flags.save_interval, 1);
    check_above_to("--hours-per-day", flags.hours_per_day, 0, 24);
    check_above_to("--exit-duration-in-mins", flags.job_minutes, 0, 1e9);
    if (flags.save_time.seconds > 0 && !flags.save_interval && !flags.failures.given()) {
        usage_error("--save-time",
                    "needs --save-interval, or one of --mttf, --failures and --failure-times");
    }
    if (flags.eval_sets.given && !flags.eval_interval)
        usage_error("--eval-sets", "needs --eval-interval");
    check_at_least("--eval-sets", flags.eval_sets.value, 1);
    if (flags.queue_gap.seconds > 0 && !flags.job_minutes) {
        usage_error("--queue-gap", "needs --exit-duration-in-mins, the duration of a job");
    }
    if (flags.save_interval && flags.save_time.seconds <= 0) {
        note(
            "--save-interval: the time of saves is not counted: give --save-time, the duration of "
            "one save");
    }
    cost::TrainingPlan plan{.micro_batch = flags.micro_batch,
                            .flops_per_s = as_double(*flags.gpus) * flags.tflops.value_or(0) * 1e12,
                            .eval_interval = flags.eval_interval,
                            .eval_iters = flags.train.validation.iters * flags.eval_sets,
                            .save_interval = flags.save_interval,
                            .save_s = flags.save_time.seconds};
    plan.model = resolve_model(flags.train);
    plan.parallel = resolve_parallel(flags.train.parallel, flags.train.model, plan.model);
    i64 samples = 0;
    if (flags.has_length() || !flags.simulates()) {
        const BatchSchedule schedule = resolve_schedule(flags.train, plan.model.seq_length);
        plan.ramp = schedule.ramp;
        samples = schedule.samples;
    } else {
        require_batch(flags.train.schedule);
        plan.ramp = config::batch_ramp(flags.train.schedule, plan.model.seq_length);
    }
    const i64 model_ranks = plan.parallel.ranks_per_replica();
    if (*flags.gpus % model_ranks != 0) {
        usage_error(
            "--gpus",
            "{} is not a multiple of the {} ranks that hold the model once (tensor x pipeline)",
            *flags.gpus, model_ranks);
    }
    plan.data_parallel = plan.parallel.dp = *flags.gpus / model_ranks;
    return {plan, samples};
}

// Throws Error(usage) for tensor ranks with unequal parts, which lm-train can have and Megatron-LM
// refuses.
void require_equal_parts(const spec::ModelConfig& model, i64 tp) {
    const auto check = [tp](i64 n, const char* flag) {
        if (n % tp == 0) return;
        usage_error(
            "--tensor-model-parallel-size",
            "{} ranks do not divide {} {}, as Megatron-LM requires: use a divisor of {}, or "
            "--trainer lm-train",
            tp, flag, n, n);
    };
    check(model.n_heads, "--num-attention-heads");
    for (const spec::LayerConfig& layer : layer_kinds(model))
        check(layer.n_groups, "--num-query-groups");
    check(model.ffn_hidden, "--ffn-hidden-size");
}

// Returns the training step of the plan. With --trainer megatron, assumes fp16 unless --bf16 is
// given, as in the published trainings with Megatron.
StepQuery step_query(const Flags& flags, const cost::TrainingPlan& plan) {
    const cost::NcclUse nccl = resolve_nccl(flags.train);
    StepQuery query{.model = plan.model,
                    .parallel = plan.parallel,
                    .precision = resolve_precision(flags.train.precision, flags.train.megatron),
                    .attention = flags.train.device.attention(),
                    .micro_batch = plan.micro_batch,
                    .global_batch = plan.ramp.global_batch,
                    .nccl = nccl,
                    .allowance_bytes = flags.allowance.value,
                    .is_megatron = is_megatron(flags.hardware),
                    .assumes_megatron = !flags.hardware.trainer.given,
                    .gpu = resolve_hardware(flags.hardware),
                    .trainer = resolve_trainer(flags.hardware)};
    query.assumes_fp16 = query.is_megatron && query.precision.weights == DType::fp32;
    if (query.is_megatron) require_equal_parts(query.model, query.parallel.tp);
    if (query.assumes_fp16) query.precision.weights = DType::fp16;
    query.parallel.zero_stage =
        config::resolve_zero_stage(flags.train.zero, flags.train.data_parallel);
    query.n_micro_batches =
        whole_micro_batches(query.global_batch, query.micro_batch, query.parallel.dp);
    config::require_equal_rows(query.parallel, query.micro_batch, query.model.seq_length);
    return query;
}

// Adds the figures of the whole training: its time (with failures too, if their flags are given),
// its energy and its cost.
void add_training(Printout& printout, std::vector<Figure> figures, const Flags& flags,
                  const cost::TrainingPlan& plan, i64 samples) {
    const std::vector<spec::RampStep> steps = resolve_steps(plan.ramp, samples);
    const cost::TrainingTime seconds = cost::training_time(plan, steps);
    add_steps(figures, flags, plan, steps, seconds);
    if (flags.eval_interval) {
        add_seconds(figures, "evaluations", "evaluations", seconds.evaluations_s,
                    "iterations / --eval-interval x --eval-iters x --eval-sets x the "
                    "forward part of an iteration (1/3, 1/4 with full recomputation)");
        config::warn_of_evaluations(seconds.evaluations_s / seconds.running_s());
    }
    if (flags.save_interval) {
        add_seconds(figures, "saves", "saves", seconds.saves_s,
                    "iterations / --save-interval x --save-time");
    }
    add_seconds(figures, "running", "running time", seconds.running_s(),
                "steps, evaluations and saves");
    GoodputReport report{.running_s = seconds.running_s(), .total_s = seconds.running_s()};
    Printout after;
    if (flags.failures.given()) report = add_goodput(after, flags, seconds);
    if (flags.hours_per_day || flags.job_minutes) add_calendar(figures, flags, report.total_s);
    printout.figures("time", std::move(figures));
    printout.append(std::move(after));
    std::optional<double> watts;
    if (flags.simulates()) watts = resolve_hardware(flags.hardware).watts;
    printout.figures("energy",
                     energy_figures(flags.energy, {*flags.gpus, report.running_s, watts}));
}

// Throws Error(usage) for a flag about the whole training when no flag gives its length.
void check_length(const Flags& flags) {
    if (flags.has_length()) return;
    const char* flag = nullptr;
    if (flags.failures.given()) flag = flags.failures.source();
    if (flags.hours_per_day) flag = "--hours-per-day";
    if (flags.energy.watts) flag = "--watts";
    if (flags.energy.pue) flag = "--pue";
    if (!flags.energy.price.empty()) flag = "--price";
    if (flags.energy.carbon) flag = "--carbon";
    if (flag != nullptr)
        usage_error(flag,
                    "needs the length of the training: give --train-tokens, --train-samples or "
                    "--train-iters");
}

int run_time(Flags flags) {
    check(flags.picture, flags.output);
    check(flags.energy);
    check(flags.failures);
    if (!flags.picture.path.empty() && !flags.simulates())
        usage_error("--plot", "needs --gpu or --hardware");
    flags.train = resolve_flags(flags.train);
    check_length(flags);
    flags.micro_batch = resolve_micro_batch(flags.train);
    // Evaluations count only when --eval-interval is given. The default interval of lm-train is not
    // used.
    const config::ValidationFlags& validation = flags.train.validation;
    if (validation.interval.given) flags.eval_interval = validation.interval;
    flags.save_interval = flags.train.checkpoints.save_interval;
    flags.job_minutes = flags.train.stopping.exit_duration_min;
    if (!flags.gpus) flags.gpus = flags.train.action.world_size;
    auto [plan, samples] = resolve_plan(flags);
    config::warn_of_model(flags.train.model, plan.model, plan.parallel);
    Printout printout;
    std::vector<Figure> figures;
    std::vector<Figure> parts;
    if (flags.simulates()) {
        const StepQuery query = step_query(flags, plan);
        std::vector<cost::PipelineEvent> events;
        const bool draws = !flags.picture.path.empty();
        const cost::StepTime time = simulate(query, query.global_batch, draws ? &events : nullptr);
        figures = step_figures(query, time);
        parts = step_parts(query, time);
        if (draws)
            draw(flags.picture, step_picture({std::move(events), time, parts, query.parallel.pp}));
        plan.simulated_s = [query](i64 batch) { return simulate(query, batch).total(); };
    } else {
        figures.push_back(model_flops_figure(plan.model));
    }
    add_megatron_flops(figures, plan);
    if (samples > 0) {
        add_training(printout, std::move(figures), flags, plan, samples);
    } else {
        printout.figures("time", std::move(figures));
    }
    if (flags.output.explain && !parts.empty()) printout.sum("part", std::move(parts));
    if (!flags.picture.replaces_figures()) printout.print(flags.output);
    return 0;
}

void add_overhead_options(cli::Options& options, Flags& flags) {
    options.group("Overheads");
    options.value("--eval-sets", &flags.eval_sets, "N", "validation sets");
    options.value("--save-time", &flags.save_time, "TIME",
                  "time that the training stops for one save");
    options.value("--hours-per-day", &flags.hours_per_day, "H",
                  "hours of a day in which the machine is available");
    options.value("--queue-gap", &flags.queue_gap, "TIME", "waiting time between two jobs");
    add_failure_options(options, flags.failures);
    add_energy_options(options, flags.energy);
}

}  // namespace

void add_time_verb(cli::Options& program) {
    const auto flags = std::make_shared<Flags>();
    cli::Options& options = program.verb(
        "time",
        "print the time of a step and of a training, on described GPUs or at a given throughput",
        [flags] { return run_time(*flags); });
    options.examples(
        {"lm-estimate time --model bloom-176b --tensor-model-parallel-size 4 "
         "--pipeline-model-parallel-size 12 \\\n"
         "    --pp-partition-method 'type:transformer|embedding' --recompute-granularity full "
         "--recompute-method uniform \\\n"
         "    --micro-batch-size 2 --global-batch-size 2048 --gpus 384 --gpu a100 --explain",
         "lm-estimate time --model gpt3-13b --global-batch-size 1024 --train-tokens 300B --gpus "
         "256 --tflops 100",
         "lm-estimate time --model llama-70b --global-batch-size 1024 --train-tokens 2T --gpus "
         "1024 --tflops 400 \\\n"
         "    --mttf 7.9h --save-time 40s --restart-time 15m --watts 1275 --price 2.50 --carbon "
         "50"});
    options.group("Speed");
    options.value("--gpus", &flags->gpus, "N", "GPUs of the whole run; default: --world-size");
    options.value(
        "--tflops", &flags->tflops, "X",
        "throughput of one GPU as training logs print it: TFLOP/s including recomputation");
    add_gpu_options(options, flags->hardware, "", "megatron");
    options.value(
        "--allowance", &flags->allowance, "SIZE",
        "GPU memory in addition to the buffers of --trainer lm-train: context, libraries, code");
    add_overhead_options(options, *flags);
    add_run_options(
        options, flags->train,
        {"Model", "--micro-batch-size", "--global-batch-size", "--rampup-batch-size",
         "--train-samples", "--train-iters", "--train-tokens", "Parallel", "--fp16", "--bf16",
         "--use-distributed-optimizer", "--zero-stage", "--deepspeed_config", "--save-interval",
         "--exit-duration-in-mins", "--eval-interval", "--eval-iters"});
    add_picture_options(
        options, flags->picture,
        "the schedule of one step, one row for each stage, and the parts of its time");
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
