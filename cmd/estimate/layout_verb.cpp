// SPDX-License-Identifier: Apache-2.0
// lm-estimate layout: the layouts of a training on N GPUs that fit into the GPUs' memory, with
// their step times, fastest first.
#include <memory>
#include <optional>

#include "base/as_double.hpp"
#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "cost/layout_search.hpp"
#include "cost/memory.hpp"
#include "figures.hpp"
#include "run_flags.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

using Granularity = spec::Recompute::Granularity;

struct Flags {
    config::TrainFlags train;
    std::optional<i64> gpus;
    std::optional<cli::Bytes> memory;
    cli::Bytes allowance{cost::cuda_allowance_bytes};
    double tflops = 150;
    i64 gpus_per_node = 8;
    cli::Bytes node_bandwidth{300'000'000'000};
    cli::Bytes network_bandwidth{25'000'000'000};
    OutputFlags output;
};

std::vector<Column> columns(bool has_training) {
    std::vector<Column> columns = {
        {"tp", "TP", Unit::plain,
         "divides heads, groups, MLP width and the GPUs of a node, whose links are fast"},
        {"pp", "PP", Unit::plain,
         "divides the layers as --pp-partition-method counts them, or the value of the flag"},
        {"dp", "DP", Unit::plain, "--gpus / (TP x PP); divides --global-batch-size"},
        {"micro_batch", "micro batch", Unit::plain, "divides --global-batch-size / DP; at most 64"},
        {"micro_batches", "in a step", Unit::plain, "--global-batch-size / (DP x micro batch)"},
        {"recompute", "recompute", Unit::plain,
         "--recompute-granularity: none, selective, or full with groups of one layer"},
        {"memory", "memory", Unit::bytes,
         "the largest rank as in lm-estimate memory, with NCCL and --allowance"},
        {"step", "step", Unit::seconds, "compute + tensor + bubble + data"},
        {"compute", "compute", Unit::seconds,
         "operations of the micro-batches on the slowest stage / (TP x --tflops), the same rate "
         "for "
         "all sizes; arXiv 2104.04473, equation 3"},
        {"tensor", "tensor", Unit::seconds,
         "4 all-reduces of B s h for each layer and micro-batch, 6 with full recomputation; each "
         "2 (TP - 1) / TP of the bytes / --node-bandwidth; arXiv 1909.08053, section 3"},
        {"bubble", "bubble", Unit::seconds,
         "(PP - 1) / micro-batches of compute and tensor, and the messages while the pipeline "
         "fills "
         "and drains; arXiv 2104.04473, section 2.2.1"},
        {"data", "data", Unit::seconds,
         "gradients in fp32, and weights with ZeRO stage 1, over DP rings at --network-bandwidth, "
         "within a node at --node-bandwidth; not overlapped; arXiv 1910.02054, section 7"},
        {"tokens_per_s", "tokens/s", Unit::count, "--global-batch-size x --seq-length / step"}};
    if (has_training) {
        columns.push_back({"training", "training", Unit::seconds,
                           "step x samples / --global-batch-size, without evaluations, saves and a "
                           "ramp (lm-estimate time includes them)"});
    }
    return columns;
}

// `samples`: the samples of the training, if the flags give its length.
std::vector<Value> row_of(const cost::LayoutQuery& query, const cost::Layout& layout,
                          std::optional<i64> samples) {
    const double step_s = layout.time.total();
    const double tokens = as_double(query.batch) * as_double(query.model.seq_length);
    std::vector<Value> row = {
        layout.parallel.tp,
        layout.parallel.pp,
        layout.parallel.dp,
        layout.micro_batch,
        layout.n_micro_batches,
        std::string(name_in(spec::recompute_granularities, layout.parallel.recompute.granularity)),
        layout.bytes,
        step_s,
        layout.time.compute_s,
        layout.time.tensor_s,
        layout.time.bubble_s,
        layout.time.data_s,
        tokens / step_s};
    if (samples) row.emplace_back(step_s * as_double(*samples) / as_double(query.batch));
    return row;
}

// Returns the recomputation granularity that the flags give, else all three.
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
    if (!flags.gpus) usage_error("--gpus", "is missing");
    check_at_least("--gpus", *flags.gpus, 1);
    if (!flags.memory)
        usage_error("--gpu-memory", "is missing: the memory of one GPU, such as 80GB");
    check_at_least("--gpus-per-node", flags.gpus_per_node, 1);
    check_above("--tflops", flags.tflops, 0);
    check_at_least("--node-bandwidth", flags.node_bandwidth.value, 1);
    check_at_least("--network-bandwidth", flags.network_bandwidth.value, 1);
    if (!flags.train.schedule.global_batch) usage_error("--global-batch-size", "is missing");
    check_at_least("--global-batch-size", *flags.train.schedule.global_batch, 1);
}

// Returns the query of the flags. A layout flag that is given restricts the search to its value.
cost::LayoutQuery resolve_query(const Flags& flags) {
    const config::ParallelFlags& given = flags.train.parallel;
    cost::LayoutQuery query;
    query.model = resolve_model(flags.train);
    config::ParallelFlags whole = given;
    whole.tensor = whole.pipeline = 1;
    if (whole.layers_per_virtual_stage) {
        note(
            "--num-layers-per-virtual-pipeline-stage: ignored: interleaved schedules are not "
            "tried");
        whole.layers_per_virtual_stage.reset();
    }
    query.parallel = resolve_parallel(whole, flags.train.model, query.model);
    query.parallel.sequence_parallel = given.sequence;
    query.parallel.zero_stage =
        config::resolve_zero_stage(flags.train.zero, flags.train.data_parallel);
    query.precision = resolve_precision(flags.train.precision);
    query.attention = flags.train.device.attention();
    query.gpu = {flags.tflops * 1e12, flags.gpus_per_node, as_double(flags.node_bandwidth.value),
                 as_double(flags.network_bandwidth.value)};
    query.n_gpus = *flags.gpus;
    query.memory_bytes = flags.memory->value;
    query.allowance_bytes = flags.allowance.value;
    query.batch = *flags.train.schedule.global_batch;
    const cli::Options& options = *flags.train.model.options;
    if (options.given("--tensor-model-parallel-size")) query.tp = given.tensor;
    if (options.given("--pipeline-model-parallel-size")) query.pp = given.pipeline;
    if (flags.train.schedule.micro_batch) query.micro_batch = resolve_micro_batch(flags.train);
    query.recomputes = recomputes_of(given, query.parallel.recompute);
    query.overlaps = flags.train.data_parallel.overlaps();
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

int run_layout(Flags flags) {
    flags.train = resolve_flags(flags.train);
    if (!flags.gpus) flags.gpus = flags.train.action.world_size;
    check(flags);
    const cost::LayoutQuery query = resolve_query(flags);
    const std::optional<i64> samples = training_samples(flags, query.model.seq_length);
    const cost::LayoutSearch found = search_layouts(query);
    if (found.n_tried == 0) {
        usage_error(
            "--gpus",
            "no valid TP x PP x DP layout for {} GPUs: TP must divide heads, groups and MLP "
            "width within a node, PP the {} layers, DP the batch of {}",
            query.n_gpus, query.model.n_layers, query.batch);
    }
    Printout printout;
    if (!found.fitting.empty()) {
        std::vector<std::vector<Value>> rows;
        for (const cost::Layout& layout : found.fitting) {
            rows.push_back(row_of(query, layout, samples));
        }
        printout.table("layout", columns(samples.has_value()), std::move(rows));
    }
    const cost::Layout& smallest = *found.smallest;
    printout.figures(
        "layouts",
        {{"tried", "layouts tried", Unit::count, found.n_tried,
          "layouts whose TP, PP, DP and micro batch satisfy the divisibility rules stated for "
          "these columns"},
         {"fitting", "layouts that fit", Unit::count, static_cast<i64>(found.fitting.size()),
          "memory <= --gpu-memory"},
         {"least_memory", "least memory", Unit::bytes, smallest.bytes, "of all layouts tried"},
         {"tflops", "TFLOP/s", Unit::plain, flags.tflops,
          "--tflops, the assumed speed of one GPU; A100s reach about 150 in published trainings "
          "(arXiv 2104.04473, table 1; BLOOM)"}});
    printout.print(flags.output);
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
         "512 \\\n    --gpus 64 --gpu-memory 80GB"});
    options.group("GPUs");
    options.value("--gpus", &flags->gpus, "N", "GPUs of the whole run; also --world-size");
    options.value("--gpus-per-node", &flags->gpus_per_node, "N", "GPUs in a node");
    options.value("--gpu-memory", &flags->memory, "SIZE", "memory of one GPU");
    options.value("--allowance", &flags->allowance, "SIZE",
                  "GPU memory besides lm-train's buffers: context, libraries, code");
    options.value("--tflops", &flags->tflops, "X",
                  "TFLOP/s that the matrix products of one GPU reach in training");
    options.value("--node-bandwidth", &flags->node_bandwidth, "SIZE",
                  "bytes per second between two GPUs of a node");
    options.value("--network-bandwidth", &flags->network_bandwidth, "SIZE",
                  "bytes per second from one GPU to another node");
    add_run_options(
        options, flags->train,
        {"Model", "--micro-batch-size", "--global-batch-size", "--train-samples", "--train-iters",
         "--train-tokens", "--fp16", "--bf16", "Parallel", "--use-distributed-optimizer",
         "--zero-stage", "--deepspeed_config", "--attention-backend"});
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
