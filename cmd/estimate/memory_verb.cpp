// SPDX-License-Identifier: Apache-2.0
// lm-estimate memory: the memory plan that lm-train allocates, for every pipeline stage.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <span>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/shape.hpp"
#include "base/threads.hpp"
#include "base/types.hpp"
#include "base/units.hpp"
#include "config/plan_warnings.hpp"
#include "cost/memory.hpp"
#include "cost/nccl.hpp"
#include "figures.hpp"
#include "picture.hpp"
#include "plot/bar_chart.hpp"
#include "run_flags.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

struct StageMemory {
    cost::MemoryPlan plan;
    i64 nccl = 0;  // bytes
    i64 total() const { return plan.total() + nccl; }
};

// Returns a line for each stage: its number, a bar of block characters, and its bytes.
std::string text_of(std::span<const StageMemory> stages, i64 allowance, i64 largest) {
    constexpr double columns = 50;
    std::string text;
    for (size_t i = 0; i < stages.size(); ++i) {
        const i64 bytes = stages[i].total() + allowance;
        const auto n = static_cast<i64>(columns * as_double(bytes) / as_double(largest) + 0.5);
        std::string bar;
        for (i64 column = 0; column < n; ++column) bar += "█";
        const std::string padding(static_cast<size_t>(50 - n), ' ');
        text += fmt::format("stage {:>3}  {}{}  {:>10}\n", i, bar, padding, human_size(bytes));
    }
    return text;
}

// Returns a bar for each stage: the parts of its plan, NCCL and `allowance`. If `limit` is given, a
// line shows it. A rank fits when its bar ends below the line. All numbers are bytes.
Picture memory_picture(std::span<const StageMemory> stages, i64 allowance,
                       const std::optional<cli::Bytes>& limit) {
    i64 largest = limit ? std::max<i64>(1, limit->value) : 1;
    for (const StageMemory& stage : stages) {
        largest = std::max(largest, stage.total() + allowance);
    }
    const bool in_gib = largest >= i64{1} << 30;
    const double unit = in_gib ? 1 << 30 : 1 << 20;
    plot::BarChart chart{.title = "Memory of a rank of each pipeline stage",
                         .x_label = "Pipeline stage",
                         .y_label = in_gib ? "Memory per rank (GiB)" : "Memory per rank (MiB)",
                         .names = {},
                         .parts = {"weights", "masters", "gradients", "optimizer", "activations",
                                   "workspace", "NCCL", "allowance"},
                         .values = {},
                         .limit = std::nullopt,
                         .limit_name = "GPU memory"};
    if (limit) chart.limit = as_double(limit->value) / unit;
    for (size_t i = 0; i < stages.size(); ++i) {
        const cost::MemoryPlan& plan = stages[i].plan;
        chart.names.push_back(fmt::format("{}", i));
        std::vector<double>& bar = chart.values.emplace_back();
        for (const i64 bytes : {plan.weights, plan.masters, plan.gradients, plan.optimizer,
                                plan.activations, plan.workspace, stages[i].nccl, allowance}) {
            bar.push_back(as_double(bytes) / unit);
        }
    }
    return {svg_of(chart), text_of(stages, allowance, largest)};
}

struct Flags {
    config::TrainFlags train;
    std::optional<i64> n_micro_batches;
    std::optional<cli::Bytes> memory;
    std::optional<cli::Bytes> allowance;
    PictureFlags picture;
    OutputFlags output;
};

// Returns the plan of the tensor rank that needs most memory. Tensor ranks differ when heads or
// rows do not divide evenly.
cost::MemoryPlan largest_plan(const spec::ModelConfig& model, const spec::ParallelConfig& parallel,
                              const cost::StepShape& step, const spec::Precision& precision,
                              const cost::Processor& processor, i64 stage) {
    cost::MemoryPlan largest;
    i64 save_buffer = 0;
    for (i64 tp_rank = 0; tp_rank < parallel.tp; ++tp_rank) {
        const cost::MemoryPlan plan =
            plan_memory(model, parallel, step, precision, processor, tp_rank, stage);
        if (plan.total() > largest.total()) largest = plan;
        const i64 share = cost::checkpoint_share(model, parallel, precision, tp_rank, stage);
        save_buffer = std::max(save_buffer, share);
    }
    largest.save_buffer = save_buffer;
    return largest;
}

std::vector<Column> columns() {
    return {
        {"pp_rank", "stage", Unit::plain, ""},
        {"layers", "layers", Unit::plain,
         "uniform: floor(L (r+1) / PP) - floor(L r / PP) for stage r; otherwise by "
         "--pp-partition-method"},
        {"weights", "weights", Unit::bytes,
         "4 bytes (2 with --bf16 or --fp16) x the rank's elements; each tensor is padded to a "
         "multiple of 32 elements"},
        {"masters", "masters", Unit::bytes,
         "fp32 copies of 16-bit weights: 4 bytes x elements; with ZeRO stage 1 / data-parallel "
         "ranks"},
        {"gradients", "gradients", Unit::bytes, "accumulated in fp32: 4 bytes x elements"},
        {"optimizer", "optimizer", Unit::bytes,
         "Adam's two fp32 moments: 8 bytes x elements; with ZeRO stage 1 / data-parallel ranks"},
        {"activations", "activations", Unit::bytes,
         "lm-train's activation table: stored activations of a layer x layers x micro-batches in "
         "flight, and the larger of the scratch of forward and of backward; 1F1B has min(PP - "
         "stage, micro-batches) in flight (arXiv 2104.04473, section 2.2), the interleaved "
         "schedule more"},
        {"workspace", "workspace", Unit::bytes,
         "on the CPU, partial sums, plus the blocks of matrix products or of attention for each "
         "thread (--threads); on a GPU, the most that one operation needs: at least 32 MiB for "
         "cuBLASLt"},
        {"total", "total", Unit::bytes, "the sum; lm-train allocates exactly these bytes"},
        {"save_buffer", "save buffer", Unit::bytes,
         "with --save, host memory in addition to the total: the copy of the rank's part of a "
         "checkpoint, weights + masters + moments / data-parallel ranks (lm-train "
         "--async-save-buffer)"}};
}

std::vector<Value> row_of(i64 stage, i64 n_layers, const cost::MemoryPlan& plan) {
    return {stage,          n_layers,         plan.weights,   plan.masters, plan.gradients,
            plan.optimizer, plan.activations, plan.workspace, plan.total(), plan.save_buffer};
}

bool on_gpu(const Flags& flags) {
    return flags.train.device.choice == "cuda" ||
           (flags.train.device.choice == "auto" && flags.memory);
}

cost::Processor processor_of(const Flags& flags, i64 n_threads) {
    return {n_threads, on_gpu(flags), flags.train.device.attention()};
}

// Returns the memory that a rank needs in addition to the buffers of the plan.
i64 allowance_of(const Flags& flags) {
    if (flags.allowance) return flags.allowance->value;
    return on_gpu(flags) ? cost::cuda_allowance_bytes : i64{100} << 20;
}

void add_verdict(Printout& printout, const Flags& flags, const StageMemory& largest, bool fits) {
    std::vector<Figure> figures = {
        {"largest", "largest rank", Unit::bytes, largest.plan.total(),
         "the stage with the most memory"},
        {"allowance", "allowance", Unit::bytes, allowance_of(flags),
         "--allowance: memory in addition to the buffers; default: on the CPU 100 MiB for "
         "libraries, code and the loader of a process, on a GPU 2 GiB for the driver's context, "
         "libraries and kernels"}};
    if (largest.nccl > 0) {
        figures.insert(
            figures.begin() + 1,
            {"nccl", "NCCL", Unit::bytes, largest.nccl,
             "an estimate: two connections of 10 MiB for each channel of a group, which has at "
             "most 24 channels, or 16 for the tied embedding; 2 connections for each link of a "
             "pipeline"});
    }
    if (flags.memory) {
        figures.push_back({"memory", "memory", Unit::bytes, flags.memory->value, "--gpu-memory"});
        figures.push_back(
            {"fits", "fits", Unit::plain, fits, "largest rank + NCCL + allowance <= memory"});
    }
    printout.figures("verdict", std::move(figures));
}

spec::ParallelConfig resolve_with_note(const config::TrainFlags& flags,
                                       const spec::ModelConfig& model) {
    const spec::ParallelConfig parallel = resolve_ranks(flags, model);
    if (parallel.zero_stage == 1 && !flags.action.world_size) {
        warn("without --world-size, one replica is assumed, which holds the whole optimizer state");
    }
    return parallel;
}

// Returns the number of micro-batches of a full batch if the batch size is given, else a number
// that fills the pipeline.
i64 n_micro_batches_of(const Flags& flags, const spec::ParallelConfig& parallel, i64 micro_batch) {
    if (flags.n_micro_batches) {
        check_at_least("--micro-batches", *flags.n_micro_batches, 1);
        return *flags.n_micro_batches;
    }
    const std::optional<i64> global_batch = flags.train.schedule.global_batch;
    if (!global_batch) return 2 * parallel.pp;
    return whole_micro_batches(*global_batch, micro_batch, parallel.dp);
}

int run(Flags flags) {
    check(flags.picture, flags.output);
    flags.train = resolve_flags(flags.train);
    const i64 micro_batch = resolve_micro_batch(flags.train);
    const spec::ModelConfig model = resolve_model(flags.train);
    const spec::ParallelConfig parallel = resolve_with_note(flags.train, model);
    config::warn_of_model(flags.train.model, model, parallel);
    const spec::Precision precision =
        resolve_precision(flags.train.precision, flags.train.megatron);
    const i64 n_threads = flags.train.device.threads.value_or(available_cores());
    check_at_least("--threads", n_threads, 1);
    const cost::NcclUse nccl = resolve_nccl(flags.train);
    const cost::StepShape step{.micro_batch = micro_batch,
                               .seq_length = model.seq_length,
                               .n_micro_batches = n_micro_batches_of(flags, parallel, micro_batch)};
    config::require_equal_rows(parallel, step.micro_batch, step.seq_length);
    StageMemory largest;
    std::vector<std::vector<Value>> rows;
    std::vector<StageMemory> stages;
    for (i64 stage = 0; stage < parallel.pp; ++stage) {
        const cost::MemoryPlan plan =
            largest_plan(model, parallel, step, precision, processor_of(flags, n_threads), stage);
        rows.push_back(row_of(stage, stage_layers(model, parallel, stage), plan));
        stages.push_back(
            {plan, on_gpu(flags) ? cost::nccl_bytes(model, parallel, stage, nccl) : 0});
        if (stages.back().total() > largest.total()) largest = stages.back();
    }
    const bool fits = !flags.memory || largest.total() + allowance_of(flags) <= flags.memory->value;
    const Exit code = fits ? Exit::done : Exit::answer_is_no;
    if (!flags.picture.path.empty()) {
        draw(flags.picture, memory_picture(stages, allowance_of(flags), flags.memory));
        if (flags.picture.replaces_figures()) return static_cast<int>(code);
    }
    Printout printout;
    printout.table("rank", columns(), std::move(rows));
    add_verdict(printout, flags, largest, fits);
    printout.print(flags.output);
    return static_cast<int>(code);
}

}  // namespace

void add_memory_verb(cli::Options& program) {
    const auto flags = std::make_shared<Flags>();
    cli::Options& options = program.verb(
        "memory", "print the bytes that a rank of lm-train allocates, by kind and pipeline stage",
        [flags] { return run(*flags); });
    options.examples(
        {"lm-estimate memory --model 7.5b --bf16 --tensor-model-parallel-size 8 --gpu-memory 80GB",
         "lm-estimate memory --model gpt2-124m --micro-batch-size 4 --json"});
    options.group("Step");
    options.value("--micro-batches", &flags->n_micro_batches, "N",
                  "micro-batches of a step in one pipeline; default: from --global-batch-size, "
                  "else 2 x pipeline stages");
    options.group("Verdict");
    options.value(
        "--gpu-memory", &flags->memory, "SIZE",
        "memory of one GPU; exit code 1 when the largest rank and the allowance need more");
    options.value(
        "--allowance", &flags->allowance, "SIZE",
        "memory in addition to lm-train's buffers: context, libraries, code; default: 100MiB, or "
        "2GiB on a GPU");
    add_picture_options(options, flags->picture, "the memory of each stage as stacked bars");
    add_run_options(options, flags->train,
                    {"Model", "--micro-batch-size", "--global-batch-size", "--fp16", "--bf16",
                     "Parallel", "--use-distributed-optimizer", "--zero-stage",
                     "--deepspeed_config", "--device", "--attention-backend",
                     "--deterministic-mode", "--tensor-comm-sms", "--threads", "--world-size"});
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
