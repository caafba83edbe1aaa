// SPDX-License-Identifier: Apache-2.0
// lm-estimate layout: the layouts of a training on N GPUs that fit into the GPUs' memory, with
// their step times, fastest first. The search covers TP, PP, DP, micro-batch size and
// recomputation.
#include <algorithm>
#include <memory>
#include <optional>
#include <tuple>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cost/memory.hpp"
#include "cost/nccl.hpp"
#include "cost/step_time.hpp"
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

double as_double(i64 n) {
    return static_cast<double>(n);
}

// The values that all layouts share.
struct Task {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;
    spec::Precision precision;
    cost::GpuNode gpu;
    i64 n_gpus = 0;
    i64 batch = 0;
    std::optional<i64> tp, pp, micro_batch;  // none: the search tries all values
    std::vector<spec::Recompute> recomputes;
    std::optional<i64> samples;  // samples of the training
    bool overlaps = false;
};

struct Candidate {
    spec::ParallelConfig parallel;
    i64 micro_batch = 1;
    i64 n_micro_batches = 1;
    i64 bytes = 0;  // memory of the rank that needs most, with NCCL and the allowance
    cost::StepTime time;
};

std::vector<i64> divisors(i64 n, i64 most) {
    std::vector<i64> all;
    for (i64 d = 1; d <= std::min(n, most); ++d) {
        if (n % d == 0) all.push_back(d);
    }
    return all;
}

bool tensor_ranks_fit(const Task& task, i64 tp) {
    const spec::ModelConfig& model = task.model;
    return task.n_gpus % tp == 0 && task.gpu.n_gpus % tp == 0 && model.n_heads % tp == 0 &&
           model.n_groups % tp == 0 && model.ffn_hidden % tp == 0 &&
           task.parallel.pad_vocab_to % tp == 0;
}

// Returns true when all stages have the same number of layers. --pp-partition-method may count the
// embedding and the head as a layer each.
bool stages_are_alike(const Task& task, i64 pp) {
    const bool counts_ends = task.parallel.balance == spec::PipelineBalance::layers_and_embedding;
    return (task.model.n_layers + (counts_ends ? 2 : 0)) % pp == 0;
}

bool stages_fit(const Task& task, i64 pp) {
    if (task.pp) return pp == *task.pp && pp <= task.model.n_layers;
    return pp <= task.model.n_layers && (pp == 1 || stages_are_alike(task, pp));
}

i64 bytes_of(const Flags& flags, const Task& task, const Candidate& candidate) {
    const cost::StepShape step{.micro_batch = candidate.micro_batch,
                               .seq_length = task.model.seq_length,
                               .n_micro_batches = candidate.n_micro_batches};
    const cost::Processor processor{1, true, flags.train.device.attention()};
    i64 largest = 0;
    for (i64 stage = 0; stage < candidate.parallel.pp; ++stage) {
        // Skips the stages between the second and the last: they need no more memory than the
        // second, because they have the same layers and fewer micro-batches in flight.
        const bool is_second_again = stage > 1 && stage < candidate.parallel.pp - 1 &&
                                     task.parallel.balance != spec::PipelineBalance::parameters &&
                                     stages_are_alike(task, candidate.parallel.pp);
        if (is_second_again) continue;
        // All sizes divide evenly, so all tensor ranks need the same memory.
        const cost::MemoryPlan plan =
            plan_memory(task.model, candidate.parallel, step, task.precision, processor, 0, stage);
        const i64 nccl =
            cost::nccl_bytes(candidate.parallel, stage, task.overlaps, !task.model.untied_head);
        largest = std::max(largest, plan.total() + nccl);
    }
    return largest + flags.allowance.value;
}

struct Found {
    std::vector<Candidate> fitting;
    i64 n_tried = 0;
    std::optional<Candidate> smallest;
};

void try_candidate(const Flags& flags, const Task& task, Candidate candidate, Found& found) {
    const bool equal_rows =
        candidate.micro_batch * task.model.seq_length % candidate.parallel.tp == 0;
    if (candidate.parallel.sequence_parallel && !equal_rows) return;
    ++found.n_tried;
    candidate.bytes = bytes_of(flags, task, candidate);
    if (!found.smallest || candidate.bytes < found.smallest->bytes) found.smallest = candidate;
    if (candidate.bytes > flags.memory->value) return;
    candidate.time = step_time(task.model, candidate.parallel,
                               {candidate.micro_batch, candidate.n_micro_batches,
                                task.model.seq_length, size_of(task.precision.weights)},
                               task.gpu);
    found.fitting.push_back(std::move(candidate));
}

// Tries every micro-batch size up to 64 that divides the batch of a replica.
void try_grid(const Flags& flags, const Task& task, i64 tp, i64 pp, Found& found) {
    constexpr i64 most = 64;
    spec::ParallelConfig parallel = task.parallel;
    parallel.tp = tp;
    parallel.pp = pp;
    parallel.dp = task.n_gpus / (tp * pp);
    parallel.sequence_parallel = task.parallel.sequence_parallel && tp > 1;
    if (task.batch % parallel.dp != 0) return;
    const i64 share = task.batch / parallel.dp;
    for (const i64 micro_batch : divisors(share, task.micro_batch.value_or(most))) {
        if (task.micro_batch && micro_batch != *task.micro_batch) continue;
        for (const spec::Recompute& recompute : task.recomputes) {
            parallel.recompute = recompute;
            try_candidate(flags, task, {parallel, micro_batch, share / micro_batch, 0, {}}, found);
        }
    }
}

Found find(const Flags& flags, const Task& task) {
    Found found;
    for (const i64 tp : divisors(task.gpu.n_gpus, task.gpu.n_gpus)) {
        if ((task.tp && tp != *task.tp) || !tensor_ranks_fit(task, tp)) continue;
        for (const i64 pp : divisors(task.n_gpus / tp, task.model.n_layers)) {
            if (!stages_fit(task, pp)) continue;
            try_grid(flags, task, tp, pp, found);
        }
    }
    // Faster layouts come first; among layouts with the same time, less recomputation, then less
    // memory.
    const auto key = [](const Candidate& c) {
        return std::tuple(c.time.total(), c.parallel.recompute.granularity, c.bytes);
    };
    std::ranges::stable_sort(found.fitting, {}, key);
    return found;
}

std::string name_of(const spec::Recompute& recompute) {
    switch (recompute.granularity) {
        case Granularity::none:
            return "none";
        case Granularity::selective:
            return "selective";
        case Granularity::full:
            break;
    }
    return "full";
}

std::vector<Column> columns(const Task& task) {
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
    if (task.samples) {
        columns.push_back({"training", "training", Unit::seconds,
                           "step x samples / --global-batch-size, without evaluations, saves and a "
                           "ramp (lm-estimate time includes them)"});
    }
    return columns;
}

std::vector<Value> row_of(const Task& task, const Candidate& c) {
    const double step_s = c.time.total();
    const double tokens = as_double(task.batch) * as_double(task.model.seq_length);
    std::vector<Value> row = {c.parallel.tp,     c.parallel.pp,
                              c.parallel.dp,     c.micro_batch,
                              c.n_micro_batches, name_of(c.parallel.recompute),
                              c.bytes,           step_s,
                              c.time.compute_s,  c.time.tensor_s,
                              c.time.bubble_s,   c.time.data_s,
                              tokens / step_s};
    if (task.samples) {
        row.emplace_back(step_s * as_double(*task.samples) / as_double(task.batch));
    }
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
    if (!flags.gpus) usage_error("--gpus", "must be given");
    at_least_one("--gpus", *flags.gpus);
    if (!flags.memory) usage_error("--gpu-memory", "must be given: the memory of one GPU");
    at_least_one("--gpus-per-node", flags.gpus_per_node);
    if (!(flags.tflops > 0)) usage_error("--tflops", "must be positive, but is {}", flags.tflops);
    at_least_one("--node-bandwidth", flags.node_bandwidth.value);
    at_least_one("--network-bandwidth", flags.network_bandwidth.value);
    if (!flags.train.schedule.global_batch) usage_error("--global-batch-size", "must be given");
    at_least_one("--global-batch-size", *flags.train.schedule.global_batch);
}

Task resolve_task(const Flags& flags) {
    const config::ParallelFlags& given = flags.train.parallel;
    Task task;
    task.model = resolve_model(flags.train);
    config::ParallelFlags whole = given;
    whole.tensor = whole.pipeline = 1;
    if (whole.layers_per_virtual_stage) {
        note(
            "--num-layers-per-virtual-pipeline-stage: ignored: interleaved schedules are not "
            "tried");
        whole.layers_per_virtual_stage.reset();
    }
    task.parallel = resolve_parallel(whole, flags.train.model, task.model);
    task.parallel.sequence_parallel = given.sequence;
    task.parallel.zero_stage =
        config::resolve_zero_stage(flags.train.zero, flags.train.data_parallel);
    task.precision = resolve_precision(flags.train.precision);
    task.gpu = {flags.tflops * 1e12, flags.gpus_per_node, as_double(flags.node_bandwidth.value),
                as_double(flags.network_bandwidth.value)};
    task.n_gpus = *flags.gpus;
    task.batch = *flags.train.schedule.global_batch;
    const cli::Options& options = *flags.train.model.options;
    if (options.given("--tensor-model-parallel-size")) task.tp = given.tensor;
    if (options.given("--pipeline-model-parallel-size")) task.pp = given.pipeline;
    if (flags.train.schedule.micro_batch) task.micro_batch = resolve_micro_batch(flags.train);
    task.recomputes = recomputes_of(given, task.parallel.recompute);
    const config::ScheduleFlags& schedule = flags.train.schedule;
    if (schedule.train_samples || schedule.train_iters || schedule.train_tokens) {
        task.samples = resolve_schedule(flags.train, task.model.seq_length).samples;
    }
    task.overlaps = flags.train.data_parallel.overlaps();
    return task;
}

int run_layout(Flags flags) {
    flags.train = resolve_flags(flags.train);
    if (!flags.gpus) flags.gpus = flags.train.action.world_size;
    check(flags);
    const Task task = resolve_task(flags);
    const Found found = find(flags, task);
    if (found.n_tried == 0) {
        usage_error(
            "--gpus",
            "no valid TP x PP x DP layout for {} GPUs: TP must divide heads, groups and MLP "
            "width within a node, PP the {} layers, DP the batch of {}",
            task.n_gpus, task.model.n_layers, task.batch);
    }
    Printout printout;
    if (!found.fitting.empty()) {
        std::vector<std::vector<Value>> rows;
        for (const Candidate& candidate : found.fitting) rows.push_back(row_of(task, candidate));
        printout.table("layout", columns(task), std::move(rows));
    }
    const Candidate& smallest = *found.smallest;
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
    add_run_options(
        options, flags->train,
        {"Model", "--micro-batch-size", "--global-batch-size", "--train-samples", "--train-iters",
         "--train-tokens", "--fp16", "--bf16", "Parallel", "--use-distributed-optimizer",
         "--zero-stage", "--deepspeed_config", "--attention-backend"});
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
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
