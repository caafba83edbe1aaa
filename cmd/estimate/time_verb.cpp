// SPDX-License-Identifier: Apache-2.0
// lm-estimate time: the time of a step on described GPUs, and the days that a training takes, on
// these GPUs or at a given throughput.
#include <cmath>
#include <memory>
#include <optional>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/shape.hpp"
#include "base/types.hpp"
#include "config/plan_warnings.hpp"
#include "config/rank_counts.hpp"
#include "cost/activation_plan.hpp"
#include "cost/formulas.hpp"
#include "cost/training_time.hpp"
#include "energy_report.hpp"
#include "figures.hpp"
#include "goodput_report.hpp"
#include "gpu_options.hpp"
#include "run_flags.hpp"
#include "step_picture.hpp"
#include "step_report.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

struct Flags {
    config::TrainFlags train;
    i64 micro_batch = 1;  // micro_batch to job_minutes are resolved from `train`
    std::optional<i64> eval_interval, save_interval;
    std::optional<double> job_minutes;
    std::optional<i64> gpus;
    std::optional<double> tflops;
    GpuFlags hardware;
    cli::Bytes allowance{cost::cuda_allowance_bytes};
    i64 eval_sets = 1;
    cli::Duration save_time;
    std::optional<double> hours_per_day;
    cli::Duration queue_gap;
    FailureFlags failures;
    EnergyFlags energy;
    OutputFlags output;
    PictureFlags picture;
    bool simulates() const { return !hardware.gpu.empty() || !hardware.hardware_file.empty(); }
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
    if (flags.train.model.given.contains("--eval-sets") && !flags.eval_interval)
        usage_error("--eval-sets", "needs --eval-interval");
    check_at_least("--eval-sets", flags.eval_sets, 1);
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

// Returns the training step of the plan. With --trainer megatron, assumes fp16 unless --bf16 is
// given, as in the published trainings with Megatron.
StepQuery step_query(const Flags& flags, const cost::TrainingPlan& plan) {
    check_at_least("--tensor-comm-sms", flags.train.device.tensor_comm_sms.value_or(0), 0);
    StepQuery query{.model = plan.model,
                    .parallel = plan.parallel,
                    .precision = resolve_precision(flags.train.precision, flags.train.megatron),
                    .attention = flags.train.device.attention(),
                    .micro_batch = plan.micro_batch,
                    .global_batch = plan.ramp.global_batch,
                    .overlaps = flags.train.data_parallel.overlaps(),
                    .tensor_comm_sms = flags.train.device.tensor_comm_sms,
                    .nvls = !flags.train.device.deterministic_mode,
                    .allowance_bytes = flags.allowance.value,
                    .is_megatron = is_megatron(flags.hardware),
                    .assumes_megatron = !flags.train.model.given.contains("--trainer"),
                    .gpu = resolve_hardware(flags.hardware),
                    .trainer = resolve_trainer(flags.hardware)};
    query.assumes_fp16 = query.is_megatron && query.precision.weights == DType::fp32;
    if (query.assumes_fp16) query.precision.weights = DType::fp16;
    query.parallel.zero_stage =
        config::resolve_zero_stage(flags.train.zero, flags.train.data_parallel);
    const i64 unit = checked_mul(query.micro_batch, query.parallel.dp);
    if (query.global_batch % unit != 0) {
        usage_error("--global-batch-size",
                    "{} is not a multiple of micro batch {} x {} data-parallel ranks = {}: use {}",
                    query.global_batch, query.micro_batch, query.parallel.dp, unit,
                    config::multiples_around(query.global_batch, unit));
    }
    config::require_equal_rows(query.parallel, query.micro_batch, query.model.seq_length);
    return query;
}

// Adds the figures of the whole training: its time (with failures too, if their flags are given),
// its energy and its cost.
void add_training(Printout& printout, std::vector<Figure> figures, const Flags& flags,
                  const cost::TrainingPlan& plan, i64 samples) {
    const std::vector<spec::RampStep> steps = ramp_steps(plan.ramp, samples);
    if (steps.empty()) {
        usage_error("--train-samples", "{} is less than the first batch of {}", samples,
                    plan.ramp.batch_at(0));
    }
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
    check(flags.failures, *flags.hardware.options);
    if (!flags.picture.path.empty() && !flags.simulates())
        usage_error("--plot", "needs --gpu or --hardware");
    flags.train = resolve_flags(flags.train);
    check_length(flags);
    flags.micro_batch = resolve_micro_batch(flags.train);
    // Evaluations count only when --eval-interval is given. The default interval of lm-train is not
    // used.
    const bool evaluates = flags.train.model.given.contains("--eval-interval");
    if (evaluates) flags.eval_interval = flags.train.validation.interval;
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
