// SPDX-License-Identifier: Apache-2.0
// lm-estimate layout: the layouts of a training on N GPUs that fit into the GPUs' memory, with
// their simulated step times, fastest first, and the flags of the fastest layout.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <memory>
#include <optional>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/types.hpp"
#include "config/plan_warnings.hpp"
#include "cost/layout_search.hpp"
#include "cost/memory.hpp"
#include "figures.hpp"
#include "gpu_options.hpp"
#include "layout_flags.hpp"
#include "layout_picture.hpp"
#include "run_flags.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

using Granularity = spec::Recompute::Granularity;

constexpr size_t n_layout_keys = 4;  // TP, PP, DP and micro batch name a layout

struct Flags {
    config::TrainFlags train;
    std::optional<i64> gpus;
    std::optional<cli::Bytes> memory;
    cli::Bytes allowance{cost::cuda_allowance_bytes};
    GpuFlags hardware;
    i64 top = 10;
    bool all = false;
    PictureFlags picture;
    OutputFlags output;
};

// Returns the columns of the table. Only JSON has a column with the flags of each layout; the text
// states the flags of the fastest layout below the table.
std::vector<Column> columns(bool has_training, bool json) {
    std::vector<Column> columns = {
        {"tp", "TP", Unit::plain,
         "divides heads, groups, MLP width and the GPUs of a node, whose links are fast"},
        {"pp", "PP", Unit::plain, "at most the layers; stages divide them as lm-train does"},
        {"dp", "DP", Unit::plain, "--gpus / (TP x PP); divides --global-batch-size"},
        {"micro_batch", "micro batch", Unit::plain, "divides --global-batch-size / DP; at most 64"},
        {"chunks", "chunks", Unit::plain,
         "--num-virtual-stages-per-pipeline-rank: more than 1 is the interleaved schedule"},
        {"recompute", "recompute", Unit::plain,
         "--recompute-granularity: none, selective, or full with groups of one layer"},
        {"zero", "ZeRO", Unit::plain, "--zero-stage"},
        {"memory", "memory", Unit::bytes,
         "the largest rank as in lm-estimate memory, with NCCL and --allowance"},
        {"step", "step", Unit::seconds,
         "compute + tensor + bubble + data; lm-estimate time --explain has all parts"},
        {"tokens_per_s", "tokens/s", Unit::count, "--global-batch-size x --seq-length / step"},
        {"micro_batches", "in a step", Unit::plain,
         "micro-batches: --global-batch-size / (DP x micro batch)"},
        {"compute", "compute", Unit::seconds,
         "products, attention, other operations and waiting for the host, on the busiest stage"},
        {"tensor", "tensor", Unit::seconds,
         "4 all-reduces of B s h for each layer and micro-batch, 6 with full recomputation; arXiv "
         "1909.08053, section 3"},
        {"bubble", "bubble", Unit::seconds,
         "idle time in the pipeline schedule, and messages between stages that do not overlap "
         "with computation"},
        {"data", "data", Unit::seconds,
         "rings over gradients, and over weights with ZeRO stage 1 (arXiv 1910.02054, section 7), "
         "and the optimizer"}};
    if (has_training) {
        columns.push_back({"training", "training", Unit::seconds,
                           "step x samples / --global-batch-size, without evaluations, saves and a "
                           "ramp (lm-estimate time includes them)"});
    }
    if (json) columns.push_back({"flags", "flags", Unit::plain, "the flags of lm-train"});
    return columns;
}

bool assumes_fp16(const Flags& flags) {
    return is_megatron(flags.hardware) &&
           resolve_precision(flags.train.precision, flags.train.megatron).weights == DType::fp32;
}

// Returns the flags of lm-train for a layout.
std::string flags_of(const Flags& flags, const cost::LayoutQuery& query,
                     const cost::Layout& layout) {
    return train_flags(*flags.hardware.options, query, layout) +
           (assumes_fp16(flags) ? " --fp16" : "");
}

// Returns the row of a layout. `samples`: the samples of the training; nullopt when no flag gives
// its length.
std::vector<Value> row_of(const Flags& flags, const cost::LayoutQuery& query,
                          const cost::Layout& layout, std::optional<i64> samples) {
    const cost::StepTime& time = layout.time;
    const double step_s = time.total();
    const double tokens = as_double(query.batch) * as_double(query.model.seq_length);
    std::vector<Value> row = {
        layout.parallel.tp,
        layout.parallel.pp,
        layout.parallel.dp,
        layout.micro_batch,
        layout.parallel.n_chunks,
        std::string(name_in(spec::recompute_granularities, layout.parallel.recompute.granularity)),
        i64{layout.parallel.zero_stage},
        layout.bytes,
        step_s,
        tokens / step_s,
        layout.n_micro_batches,
        time.busiest.total() - time.busiest.tensor_s,
        time.busiest.tensor_s,
        std::max(0.0, time.bubble_s + time.messages_s),  // rounding may give -1e-16
        time.data_s + time.optimizer_s};
    if (samples) row.emplace_back(step_s * as_double(*samples) / as_double(query.batch));
    if (flags.output.json) row.emplace_back(flags_of(flags, query, layout));
    return row;
}

// Returns the recomputation granularities to try: the granularity that the flags give, else all
// three.
std::vector<spec::Recompute> recomputes_of(const config::ParallelFlags& flags,
                                           const spec::Recompute& given) {
    const bool is_given = flags.recompute_activations || flags.checkpoint_activations ||
                          !flags.recompute_granularity.empty();
    if (is_given) return {given};
    return {{.granularity = Granularity::none},
            {.granularity = Granularity::selective},
            {.granularity = Granularity::full}};
}

void check(const Flags& flags) {
    if (!flags.gpus) usage_error("--gpus", "is missing: give the number of GPUs of the run");
    check_at_least("--gpus", *flags.gpus, 1);
    check_at_least("--top", flags.top, 1);
    if (!flags.train.schedule.global_batch) refuse_missing_batch();
    check_at_least("--global-batch-size", *flags.train.schedule.global_batch, 1);
}

// Sets the values that the search tries: for each size the value of its flag, or all values when
// the flag is not given.
void set_tried(cost::LayoutQuery& query, const Flags& flags) {
    const config::ParallelFlags& given = flags.train.parallel;
    const cli::GivenNames& names = flags.train.model.given;
    if (names.contains("--tensor-model-parallel-size")) query.tp = given.tensor;
    if (names.contains("--pipeline-model-parallel-size")) query.pp = given.pipeline;
    if (flags.train.schedule.micro_batch) query.micro_batch = resolve_micro_batch(flags.train);
    query.recomputes = recomputes_of(given, query.parallel.recompute);
    const int zero_stage = config::resolve_zero_stage(flags.train.zero, flags.train.data_parallel);
    if (zero_stage > 0 || names.contains("--zero-stage")) query.zero_stages = {zero_stage};
    if (given.virtual_stages) {
        query.n_chunks = {*given.virtual_stages};
    } else if (!given.layers_per_virtual_stage) {
        query.n_chunks = {1, 2, 4};
    }
    const bool divides = given.first_stage_layers || given.last_stage_layers ||
                         given.count_embedding || given.count_loss ||
                         names.contains("--pp-partition-method");
    query.balances = {query.parallel.balance};
    if (!divides) query.balances.push_back(spec::PipelineBalance::layers_and_embedding);
}

// Returns the query that the flags describe. A given layout flag restricts the search to the value
// of the flag.
cost::LayoutQuery resolve_query(const Flags& flags) {
    const config::ParallelFlags& given = flags.train.parallel;
    cost::LayoutQuery query;
    query.model = resolve_model(flags.train);
    config::ParallelFlags whole = given;
    whole.tensor = whole.pipeline = 1;
    whole.virtual_stages.reset();
    if (whole.layers_per_virtual_stage) {
        note(
            "--num-layers-per-virtual-pipeline-stage: ignored: give "
            "--num-virtual-stages-per-pipeline-rank");
        whole.layers_per_virtual_stage.reset();
    }
    query.parallel = resolve_parallel(whole, flags.train.model, query.model);
    query.parallel.sequence_parallel = given.sequence;
    query.precision = resolve_precision(flags.train.precision, flags.train.megatron);
    query.is_megatron = is_megatron(flags.hardware);
    if (assumes_fp16(flags)) query.precision.weights = DType::fp16;
    query.attention = flags.train.device.attention();
    query.gpu = resolve_hardware(flags.hardware);
    query.trainer = resolve_trainer(flags.hardware);
    query.n_gpus = *flags.gpus;
    query.memory_bytes = flags.memory ? flags.memory->value : query.gpu.memory_bytes;
    query.allowance_bytes = flags.allowance.value;
    query.batch = *flags.train.schedule.global_batch;
    query.overlaps = flags.train.data_parallel.overlaps();
    check_at_least("--tensor-comm-sms", flags.train.device.tensor_comm_sms.value_or(0), 0);
    query.tensor_comm_sms = flags.train.device.tensor_comm_sms;
    query.nvls = !flags.train.device.deterministic_mode;
    query.all_variants = flags.all;
    const bool all_dots = flags.all || !flags.picture.path.empty();
    query.n_wanted = all_dots ? std::numeric_limits<size_t>::max() : static_cast<size_t>(flags.top);
    set_tried(query, flags);
    return query;
}

// Returns the samples of the training; nullopt when no flag gives its length.
std::optional<i64> training_samples(const Flags& flags, i64 seq_length) {
    const config::ScheduleFlags& schedule = flags.train.schedule;
    if (!schedule.train_samples && !schedule.train_iters && !schedule.train_tokens) {
        return std::nullopt;
    }
    return resolve_schedule(flags.train, seq_length).samples;
}

// Adds the layouts that would be faster than every layout that fits, each with the limit that it
// exceeds.
void add_rejected(Printout& printout, const Flags& flags, const cost::LayoutQuery& query,
                  const cost::LayoutSearch& found) {
    const bool json = flags.output.json;
    std::vector<Column> columns = {
        {"tp", "TP", Unit::plain, ""},
        {"pp", "PP", Unit::plain, ""},
        {"dp", "DP", Unit::plain, ""},
        {"micro_batch", "micro batch", Unit::plain, ""},
        {"chunks", "chunks", Unit::plain, ""},
        {"recompute", "recompute", Unit::plain, ""},
        {"zero", "ZeRO", Unit::plain, ""},
        {"step", "step", Unit::seconds, "faster than all layouts that fit"},
        {"memory", "needs", Unit::bytes, "memory of the largest rank"},
        {"missing", "too much", Unit::bytes, "needs - --gpu-memory"}};
    if (json) columns.push_back({"flags", "flags", Unit::plain, "the flags of lm-train"});
    std::vector<std::vector<Value>> rows;
    for (const cost::Layout& layout : found.rejected) {
        std::vector<Value>& row = rows.emplace_back();
        row = {layout.parallel.tp,
               layout.parallel.pp,
               layout.parallel.dp,
               layout.micro_batch,
               layout.parallel.n_chunks,
               std::string(
                   name_in(spec::recompute_granularities, layout.parallel.recompute.granularity)),
               i64{layout.parallel.zero_stage},
               layout.time.total(),
               layout.bytes,
               layout.bytes - query.memory_bytes};
        if (json) row.emplace_back(flags_of(flags, query, layout));
    }
    printout.table("rejected", std::move(columns), std::move(rows), n_layout_keys);
}

int run_layout(Flags flags) {
    check(flags.picture, flags.output);
    flags.train = resolve_flags(flags.train);
    if (!flags.gpus) flags.gpus = flags.train.action.world_size;
    check(flags);
    const cost::LayoutQuery query = resolve_query(flags);
    const std::optional<i64> samples = training_samples(flags, query.model.seq_length);
    cost::LayoutSearch found = search_layouts(query);
    if (found.n_tried == 0) {
        usage_error("--gpus",
                    "no valid TP x PP x DP layout for {} GPUs: TP must divide the GPUs of a node, "
                    "the heads, the key-value groups and the MLP width; PP must be at most the "
                    "number of layers, {}; DP must divide the batch of {}",
                    query.n_gpus, query.model.n_layers, query.batch);
    }
    if (!found.fitting.empty())
        config::warn_of_model(flags.train.model, query.model, found.fitting.front().parallel);
    if (!flags.picture.path.empty()) {
        draw(flags.picture, layout_picture(found, query.memory_bytes, 5));
        const auto top = static_cast<size_t>(flags.top);
        if (!flags.all && found.fitting.size() > top) found.fitting.resize(top);
    }
    Printout printout;
    if (!found.fitting.empty()) {
        std::vector<std::vector<Value>> rows;
        for (const cost::Layout& layout : found.fitting) {
            rows.push_back(row_of(flags, query, layout, samples));
        }
        printout.table("layout", columns(samples.has_value(), flags.output.json), std::move(rows),
                       n_layout_keys, true);
    }
    if (!found.rejected.empty()) add_rejected(printout, flags, query, found);
    std::vector<Figure> figures = {
        {"tried", "layouts tried", Unit::count, found.n_tried,
         "layouts whose TP, PP, DP and micro batch satisfy the divisibility rules stated for these "
         "columns"},
        {"gpu", "GPU", Unit::plain, query.gpu.name,
         "--gpu or --hardware: the description of the GPU and its node"},
        {"trainer", "trainer", Unit::plain, flags.hardware.trainer,
         "set by --trainer, whose default in lm-estimate time differs"},
        {"dtype", assumes_fp16(flags) ? "format (assumed: no --bf16, --fp16)" : "format",
         Unit::plain, std::string(name_of(query.precision.weights)),
         "weights and activations: --bf16 or --fp16; without them, --trainer megatron assumes "
         "fp16, and --trainer lm-train fp32"},
        {"time_flags", "for lm-estimate time", Unit::plain, time_flags(query, flags.hardware),
         "with these flags and the flags of a layout, lm-estimate time prints the same step and "
         "memory"}};
    if (found.smallest) {
        figures.push_back({"least_memory", "least memory", Unit::bytes, found.smallest->bytes,
                           "of all layouts tried"});
    }
    printout.figures("layouts", std::move(figures));
    if (!found.fitting.empty()) {
        printout.figures(
            "fastest", {{"flags", "lm-train", Unit::flags, flags_of(flags, query, found.fitting[0]),
                         "the flags of the fastest layout; add those of the data and "
                         "of the schedule"}});
    }
    if (!flags.picture.replaces_figures()) printout.print(flags.output);
    return static_cast<int>(found.fitting.empty() ? Exit::answer_is_no : Exit::done);
}

}  // namespace

void add_layout_verb(cli::Options& program) {
    const auto flags = std::make_shared<Flags>();
    cli::Options& options = program.verb(
        "layout",
        "list the layouts of a training that fit into the memory of the GPUs, fastest first",
        [flags] { return run_layout(*flags); });
    options.examples(
        {"lm-estimate layout --model 7.5b --bf16 --use-distributed-optimizer --global-batch-size "
         "512 \\\n    --gpus 64",
         "lm-estimate layout --model bloom-176b --bf16 --global-batch-size 2048 --gpus 384 --gpu "
         "h100 --top 3"});
    options.group("GPUs");
    options.value("--gpus", &flags->gpus, "N", "GPUs of the whole run; default: --world-size");
    options.value("--gpu-memory", &flags->memory, "SIZE", "memory of one GPU; default: from --gpu");
    options.value("--allowance", &flags->allowance, "SIZE",
                  "GPU memory in addition to lm-train's buffers: context, libraries, code");
    options.value("--top", &flags->top, "N",
                  "number of layouts to print, one for each TP, PP and micro-batch size");
    options.flag("--all", &flags->all, "print every layout that fits");
    add_gpu_options(options, flags->hardware, "a100", "lm-train");
    add_run_options(
        options, flags->train,
        {"Model", "--micro-batch-size", "--global-batch-size", "--train-samples", "--train-iters",
         "--train-tokens", "--fp16", "--bf16", "Parallel", "--use-distributed-optimizer",
         "--zero-stage", "--deepspeed_config", "--attention-backend"});
    add_picture_options(options, flags->picture, "step time against memory, a dot for each layout");
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
