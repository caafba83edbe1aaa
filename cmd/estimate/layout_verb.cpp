// SPDX-License-Identifier: Apache-2.0
// lm-estimate layout: the layouts of a training on N GPUs that fit into the GPUs' memory, with
// their simulated step times, fastest first, and the flags of the fastest layout.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/types.hpp"
#include "base/units.hpp"
#include "config/plan_warnings.hpp"
#include "config/train_flags.hpp"
#include "cost/layout_search.hpp"
#include "cost/memory.hpp"
#include "figures.hpp"
#include "gpu_options.hpp"
#include "io/program.hpp"
#include "picture.hpp"
#include "plot/scatter_chart.hpp"
#include "plot/style.hpp"
#include "run_flags.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

std::string name_of(const cost::Layout& layout) {
    return fmt::format("TP{} PP{} B{}", layout.parallel.tp, layout.parallel.pp, layout.micro_batch);
}

// Returns a line for each of the `n` fastest layouts: its name, step time and memory, and a bar
// of its speed relative to the fastest layout.
std::string text_of(const std::vector<cost::Layout>& fitting, size_t n) {
    constexpr double columns = 40;
    std::string text;
    for (size_t i = 0; i < std::min(n, fitting.size()); ++i) {
        const double share = fitting[0].time.total() / fitting[i].time.total();
        std::string bar;
        for (int column = 0; column < static_cast<int>(columns * share + 0.5); ++column) bar += "█";
        text +=
            fmt::format("{:<16} {:>10} {:>10}  {}\n", name_of(fitting[i]),
                        human_duration(fitting[i].time.total()), human_size(fitting[i].bytes), bar);
    }
    return text;
}

// Returns the sentence for a search in which no layout fits. `smallest`: the layout that needs
// least memory.
std::string no_fit_text(const cost::Layout& smallest, i64 memory_bytes) {
    return fmt::format("No layout fits: the smallest needs {}, {} too much",
                       human_size(smallest.bytes), human_size(smallest.bytes - memory_bytes));
}

// Returns the chart without dots.
plot::ScatterChart empty_chart(double memory_gib) {
    const std::string_view fits = plot::color_of(0), too_large = plot::alarm;
    return {.title = "Layouts",
            .x_label = "Memory of the fullest GPU (GiB)",
            .y_label = "Step time (s)",
            .kinds = {{"fastest that fits", plot::Symbol::best_dot, fits},
                      {"fits", plot::Symbol::dot, fits},
                      {"needs more memory", plot::Symbol::ring, too_large},
                      {"needs least memory", plot::Symbol::best_dot, too_large}},
            .dots = {},
            .limit = memory_gib,
            .limit_name = "GPU memory",
            .note = ""};
}

enum DotKind : size_t { best_kind, fits_kind, too_large_kind, least_kind };

// Returns the picture, with labels at the `n_labels` fastest layouts that fit; the fastest layout
// is emphasized. If none fits, the picture states it and emphasizes the layout that needs least
// memory. `memory_bytes` is the memory of a GPU.
Picture layout_picture(const cost::LayoutSearch& found, i64 memory_bytes, size_t n_labels) {
    constexpr double gib = 1 << 30;
    plot::ScatterChart chart = empty_chart(as_double(memory_bytes) / gib);
    const bool none_fits = found.fitting.empty();
    if (none_fits && !found.smallest) return {svg_of(chart), "no layout\n"};
    // The picture omits much slower or larger layouts, because they would compress the scale of the
    // other layouts.
    const cost::Layout& best_layout = none_fits ? *found.smallest : found.fitting[0];
    const double slowest_s = 3 * best_layout.time.total();
    const i64 largest = 3 * std::max(memory_bytes, none_fits ? best_layout.bytes : 0) / 2;
    const auto add = [&](const cost::Layout& layout, DotKind kind, const std::string& label) {
        if (layout.bytes > largest || layout.time.total() > slowest_s) return;
        chart.dots.push_back({as_double(layout.bytes) / gib, layout.time.total(), kind, label});
    };
    for (size_t i = 0; i < found.fitting.size(); ++i) {
        add(found.fitting[i], i == 0 ? best_kind : fits_kind,
            i < n_labels ? name_of(found.fitting[i]) : "");
    }
    std::string text = text_of(found.fitting, n_labels);
    if (none_fits) {
        add(best_layout, least_kind, name_of(best_layout));
        chart.note = no_fit_text(best_layout, memory_bytes);
        text = chart.note + "\n";
    }
    for (const cost::Layout& layout : found.too_large) {
        if (!none_fits || layout.bytes != best_layout.bytes) add(layout, too_large_kind, "");
    }
    return {svg_of(chart), std::move(text)};
}

using Granularity = spec::Recompute::Granularity;

// The options that every layout sets itself, and the number of ranks, which the launcher sets.
constexpr std::array set_by_layout = {"--tensor-model-parallel-size",
                                      "--pipeline-model-parallel-size",
                                      "--micro-batch-size",
                                      "--num-virtual-stages-per-pipeline-rank",
                                      "--num-layers-per-virtual-pipeline-stage",
                                      "--sequence-parallel",
                                      "--recompute-granularity",
                                      "--recompute-method",
                                      "--recompute-num-layers",
                                      "--recompute-activations",
                                      "--checkpoint-activations",
                                      "--checkpoint-num-layers",
                                      "--use-distributed-optimizer",
                                      "--zero-stage",
                                      "--world-size"};

constexpr std::array of_hardware = {
    "--gpu",     "--hardware", "--gpus-per-node",     "--node-bandwidth",
    "--network", "--nics",     "--network-bandwidth", "--allowance"};

bool contains(const auto& names, const std::string& name) {
    return std::ranges::find(names, name) != names.end();
}

// Returns `text` as one word for a shell, in quotes where these are necessary.
std::string word_of(const std::string& text) {
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./:,=+%@";
    const bool is_plain = !text.empty() && text.find_first_not_of(plain) == text.npos;
    return is_plain ? text : io::shell_quoted(text);
}

std::string words_of(const cli::Options::Occurrence& option) {
    // A value that begins with a dash could be read as an option.
    if (option.values.size() == 1 && option.values[0].starts_with('-'))
        return fmt::format("{}={}", option.name, word_of(option.values[0]));
    std::string text = option.name;
    for (const std::string& value : option.values) text += " " + word_of(value);
    return text;
}

std::set<std::string> names_of_lm_train() {
    cli::Options options("lm-train", "");
    config::TrainFlags flags;
    config::add_train_options(options, flags);
    std::set<std::string> names;
    for (const cli::Option& option : options.table()) names.insert(option.name());
    return names;
}

void add_recompute(std::vector<std::string>& words, const spec::Recompute& recompute) {
    if (recompute.granularity == Granularity::none) return;
    words.push_back(fmt::format("--recompute-granularity {}",
                                name_in(spec::recompute_granularities, recompute.granularity)));
    if (recompute.granularity != Granularity::full) return;
    words.push_back(
        fmt::format("--recompute-method {}", name_in(spec::recompute_methods, recompute.method)));
    if (recompute.n_layers != 1)
        words.push_back(fmt::format("--recompute-num-layers {}", recompute.n_layers));
}

// Returns all flags of lm-train for a layout: the flags of the command line (the model, the batch,
// the precision, ...) in their order, then the flags that the search has set.
std::string train_flags(const cli::Options& options, const cost::LayoutQuery& query,
                        const cost::Layout& layout) {
    static const std::set<std::string> of_lm_train = names_of_lm_train();
    std::vector<std::string> words;
    for (const cli::Options::Occurrence& option : options.occurrences()) {
        if (of_lm_train.contains(option.name) && !contains(set_by_layout, option.name))
            words.push_back(words_of(option));
    }
    const spec::ParallelConfig& parallel = layout.parallel;
    words.push_back(fmt::format(
        "--tensor-model-parallel-size {} --pipeline-model-parallel-size {} --micro-batch-size {}",
        parallel.tp, parallel.pp, layout.micro_batch));
    if (parallel.n_chunks > 1)
        words.push_back(
            fmt::format("--num-virtual-stages-per-pipeline-rank {}", parallel.n_chunks));
    // The search has chosen another division of the layers than the command line states.
    if (parallel.balance != query.parallel.balance)
        words.emplace_back("--pp-partition-method 'type:transformer|embedding'");
    if (parallel.sequence_parallel) words.emplace_back("--sequence-parallel");
    add_recompute(words, parallel.recompute);
    if (parallel.zero_stage == 1) words.emplace_back("--use-distributed-optimizer");
    return fmt::format("{}", fmt::join(words, " "));
}

// Returns the flags that lm-estimate time needs for the same step in addition to train_flags(): the
// GPUs, their hardware and the trainer.
std::string time_flags(const cost::LayoutQuery& query, const GpuFlags& flags) {
    std::vector<std::string> words = {fmt::format("--gpus {}", query.n_gpus)};
    if (flags.hardware_file.empty()) words.push_back("--gpu " + flags.gpu.value);
    for (const cli::Options::Occurrence& option : flags.options->occurrences()) {
        if (contains(of_hardware, option.name) && option.name != "--gpu")
            words.push_back(words_of(option));
    }
    words.push_back("--trainer " + flags.trainer.value);
    return fmt::format("{}", fmt::join(words, " "));
}

using Granularity = spec::Recompute::Granularity;

constexpr size_t n_layout_keys = 4;  // TP, PP, DP and micro batch name a layout
constexpr size_t n_described = 7;    // with chunks, recomputation and ZeRO stage

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
    if (given.tensor.given) query.tp = given.tensor;
    if (given.pipeline.given) query.pp = given.pipeline;
    if (flags.train.schedule.micro_batch) query.micro_batch = resolve_micro_batch(flags.train);
    query.recomputes = recomputes_of(given, query.parallel.recompute);
    const int zero_stage = config::resolve_zero_stage(flags.train.zero, flags.train.data_parallel);
    if (zero_stage > 0 || flags.train.zero.stage) query.zero_stages = {zero_stage};
    if (given.virtual_stages) {
        query.n_chunks = {*given.virtual_stages};
    } else if (!given.layers_per_virtual_stage) {
        query.n_chunks = {1, 2, 4};
    }
    const bool divides = given.first_stage_layers || given.last_stage_layers ||
                         given.count_embedding || given.count_loss || given.partition_method.given;
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
    query.nccl = resolve_nccl(flags.train);
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
    // The formulas of the first columns are those of the table of layouts.
    std::vector<Column> kinds = columns(false, false);
    kinds.resize(n_described);
    for (Column& column : kinds) column.formula.clear();
    kinds.insert(kinds.end(), {{"step", "step", Unit::seconds, "faster than all layouts that fit"},
                               {"memory", "needs", Unit::bytes, "memory of the largest rank"},
                               {"missing", "too much", Unit::bytes, "needs - --gpu-memory"}});
    if (json) kinds.push_back({"flags", "flags", Unit::plain, "the flags of lm-train"});
    std::vector<std::vector<Value>> rows;
    for (const cost::Layout& layout : found.rejected) {
        std::vector<Value>& row = rows.emplace_back(row_of(flags, query, layout, std::nullopt));
        row.resize(n_described);
        row.insert(row.end(),
                   {layout.time.total(), layout.bytes, layout.bytes - query.memory_bytes});
        if (json) row.emplace_back(flags_of(flags, query, layout));
    }
    printout.table("rejected", std::move(kinds), std::move(rows), n_layout_keys);
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
        {"trainer", "trainer", Unit::plain, flags.hardware.trainer.value,
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
