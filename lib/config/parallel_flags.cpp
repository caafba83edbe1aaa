// SPDX-License-Identifier: Apache-2.0
#include "config/parallel_flags.hpp"

#include <algorithm>
#include <cctype>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/nearest_name.hpp"
#include "base/problem_list.hpp"
#include "base/shape.hpp"
#include "config/field_json.hpp"

namespace lm::config {

namespace {

using io::OrderedJson;
using spec::PipelineBalance;
using spec::Recompute;

constexpr std::string_view tensor_flag = "--tensor-model-parallel-size";
constexpr std::string_view pipeline_flag = "--pipeline-model-parallel-size";
constexpr std::string_view virtual_flag = "--num-layers-per-virtual-pipeline-stage";
constexpr std::string_view partition_flag = "--pp-partition-method";
constexpr std::string_view granularity_flag = "--recompute-granularity";
constexpr const char too_small[] = "must be at least 1, got {}";

// Parses --pp-partition-method as Megatron-DeepSpeed scripts write it: in upper or lower case, with
// the types in any order.
PipelineBalance balance_of(std::string method) {
    std::ranges::transform(method, method.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    constexpr std::string_view other_uniform = "type:transformer";
    if (method == other_uniform) return PipelineBalance::layers;
    if (method == "type:embedding|transformer") return PipelineBalance::layers_and_embedding;
    std::vector<std::string> names;
    for (const auto balance : {PipelineBalance::layers, PipelineBalance::layers_and_embedding,
                               PipelineBalance::parameters}) {
        names.emplace_back(name_in(spec::pipeline_balances, balance));
        if (method == names.back()) return balance;
    }
    names.insert(names.begin() + 1, std::string(other_uniform));
    refuse_value(partition_flag, method, names);
}

constexpr std::string_view chunks_flag = "--num-virtual-stages-per-pipeline-rank";
constexpr std::string_view first_flag = "--decoder-first-pipeline-num-layers";
constexpr std::string_view last_flag = "--decoder-last-pipeline-num-layers";

PipelineBalance balance_of(const ParallelFlags& flags) {
    const PipelineBalance method = balance_of(flags.partition_method.value);
    const bool counts = flags.count_embedding || flags.count_loss;
    const std::string_view counting = flags.count_embedding
                                          ? "--account-for-embedding-in-pipeline-split"
                                          : "--account-for-loss-in-pipeline-split";
    const bool has_ends = flags.first_stage_layers || flags.last_stage_layers;
    if (counts && method != PipelineBalance::layers)
        usage_error(counting, "cannot be combined with {}: give one of the two", partition_flag);
    if (has_ends && (counts || method != PipelineBalance::layers)) {
        usage_error(flags.first_stage_layers ? first_flag : last_flag,
                    "cannot be combined with {}: give one of the two",
                    counts ? counting : partition_flag);
    }
    if (flags.count_embedding && flags.count_loss) return PipelineBalance::layers_and_embedding;
    if (flags.count_embedding) return PipelineBalance::embedding_and_layers;
    return flags.count_loss ? PipelineBalance::layers_and_head : method;
}

Recompute old_recompute(const ParallelFlags& flags) {
    if (!flags.recompute_granularity.empty() || flags.recompute_activations) {
        usage_error(flags.checkpoint_activations ? "--checkpoint-activations"
                                                 : "--activations-checkpoint-method",
                    "is the old name of {}: give only one of the two", granularity_flag);
    }
    const auto method = value_in(spec::recompute_methods, flags.checkpoint_method);
    return {Recompute::Granularity::full, method.value_or(Recompute::Method::uniform),
            flags.checkpoint_layers.value_or(1)};
}

std::vector<std::string> granularity_choices() {
    std::vector<std::string> names = names_in(spec::recompute_granularities);
    std::erase(names, name_in(spec::recompute_granularities, Recompute::Granularity::none));
    return names;
}

Recompute recompute_of(const ParallelFlags& flags) {
    using enum Recompute::Granularity;
    check_at_least("--checkpoint-num-layers", flags.checkpoint_layers, 1);
    check_at_least("--recompute-num-layers", flags.recompute_layers, 1);
    if (flags.checkpoint_activations || !flags.checkpoint_method.empty())
        return old_recompute(flags);
    const Recompute::Granularity given =
        value_in(spec::recompute_granularities, flags.recompute_granularity).value_or(none);
    if (flags.recompute_activations && given == full) {
        usage_error("--recompute-activations",
                    "cannot be combined with {} full: give one of the two", granularity_flag);
    }
    if (given == full) {
        const auto method = value_in(spec::recompute_methods, flags.recompute_method);
        return {full, method.value_or(Recompute::Method::uniform),
                flags.recompute_layers.value_or(1)};
    }
    if (!flags.recompute_method.empty()) {
        usage_error("--recompute-method", "needs {} full", granularity_flag);
    }
    if (flags.recompute_layers) {
        usage_error("--recompute-num-layers", "needs {} full", granularity_flag);
    }
    return {.granularity = flags.recompute_activations ? selective : given};
}

// Returns null for 0, which stands for a value that was not given.
OrderedJson json_or_null(i64 value) {
    return value > 0 ? OrderedJson(value) : OrderedJson();
}

bool is_full(const Recompute& recompute) {
    return recompute.granularity == Recompute::Granularity::full;
}

// Returns the number of chunks of a stage when each chunk has at most
// --num-layers-per-virtual-pipeline-stage layers.
i64 chunks_of(const ParallelFlags& flags, const spec::ModelConfig& model) {
    if (flags.virtual_stages) return *flags.virtual_stages;
    if (!flags.layers_per_virtual_stage) return 1;
    return ceil_div(model.n_layers, checked_mul(flags.pipeline, *flags.layers_per_virtual_stage));
}

}  // namespace

const Fields<ParallelFlags>& parallel_fields() {
    using S = ParallelFlags;
    static const FieldsIn<S, Block::parallel> fields = {
        {.option = "--tensor-model-parallel-size",
         .member = &S::tensor,
         .metavar = "N",
         .help = "ranks that share every layer",
         .block = Block::none},
        {.option = "--pipeline-model-parallel-size",
         .member = &S::pipeline,
         .metavar = "N",
         .help = "pipeline stages with parts of the layers",
         .block = Block::none},
        {.option = "--num-layers-per-virtual-pipeline-stage",
         .member = &S::layers_per_virtual_stage,
         .json = [](const Resolved& r) -> OrderedJson { return r.parallel.n_chunks; },
         .metavar = "N",
         .help = "divide each stage into chunks of at most N layers and interleave them: less idle "
                 "time, more messages",
         .name = "virtual_pipeline_chunks"},
        {.option = "--pp-partition-method",
         .member = &S::partition_method,
         .json = [](const Resolved& r) -> OrderedJson {
             return name_in(spec::pipeline_balances, r.parallel.balance);
         },
         .metavar = "METHOD",
         .help = "quantity to balance over the pipeline stages; uniform or type:transformer: "
                 "layers; type:transformer|embedding: layers, with the embedding and the head "
                 "counted as one layer each; parameters: elements of the tensors"},
        {.option = "--num-virtual-stages-per-pipeline-rank",
         .member = &S::virtual_stages,
         .metavar = "N",
         .help = "divide each stage into N chunks: another form of "
                 "--num-layers-per-virtual-pipeline-stage",
         .block = Block::none},
        {.option = "--sequence-parallel",
         .member = &S::sequence,
         .json = [](const Resolved& r) -> OrderedJson { return r.parallel.sequence_parallel; },
         .help = "also divide norms, dropout and their activations over the tensor ranks, by rows"},
        {.json = [](const Resolved& r) -> OrderedJson { return padded_vocab(r.model, r.parallel); },
         .name = "padded_vocab_size"},
    };
    return fields;
}

const Fields<ParallelFlags>& stage_fields() {
    using S = ParallelFlags;
    static const FieldsIn<S, Block::none> fields = {
        {.option = "--decoder-first-pipeline-num-layers",
         .member = &S::first_stage_layers,
         .json = [](const Resolved& r) -> OrderedJson {
             return json_or_null(r.parallel.first_stage_layers);
         },
         .metavar = "N",
         .help = "number of layers of the first stage; the other stages divide the remaining "
                 "layers equally",
         .block = Block::parallel,
         .name = "first_stage_layers"},
        {.option = "--decoder-last-pipeline-num-layers",
         .member = &S::last_stage_layers,
         .json = [](const Resolved& r) -> OrderedJson {
             return json_or_null(r.parallel.last_stage_layers);
         },
         .metavar = "N",
         .help = "number of layers of the last stage",
         .block = Block::parallel,
         .name = "last_stage_layers"},
        {.option = "--account-for-embedding-in-pipeline-split",
         .member = &S::count_embedding,
         .help = "count the embedding as a layer when the layers are divided over the stages"},
        {.option = "--account-for-loss-in-pipeline-split",
         .member = &S::count_loss,
         .help = "count the output projection and the loss as a layer; with "
                 "--account-for-embedding-in-pipeline-split, the same as "
                 "--pp-partition-method 'type:transformer|embedding'"},
    };
    return fields;
}

const Fields<ParallelFlags>& recompute_fields() {
    using S = ParallelFlags;
    static const FieldsIn<S, Block::none> fields = {
        {.option = "--recompute-granularity",
         .member = &S::recompute_granularity,
         .json = [](const Resolved& r) -> OrderedJson {
             return name_in(spec::recompute_granularities, r.parallel.recompute.granularity);
         },
         .help = "recompute activations in backward instead of storing them: selective (outputs of "
                 "norms and activation functions, cheap) or full (whole layers); the results are "
                 "bit-identical",
         .choices = granularity_choices(),
         .block = Block::parallel},
        {.option = "--recompute-method",
         .member = &S::recompute_method,
         .json = [](const Resolved& r) -> OrderedJson {
             const Recompute& recompute = r.parallel.recompute;
             if (!is_full(recompute)) return nullptr;
             return name_in(spec::recompute_methods, recompute.method);
         },
         .help = "layers that --recompute-granularity full recomputes; uniform (default): all "
                 "layers, from the stored input of each group of --recompute-num-layers layers; "
                 "block: the first --recompute-num-layers layers of each stage",
         .choices = names_in(spec::recompute_methods),
         .block = Block::parallel},
        {.option = "--recompute-num-layers",
         .member = &S::recompute_layers,
         .json = [](const Resolved& r) -> OrderedJson {
             const Recompute& recompute = r.parallel.recompute;
             if (!is_full(recompute)) return nullptr;
             return recompute.n_layers;
         },
         .metavar = "N",
         .help = "number of layers for --recompute-method; default: 1",
         .block = Block::parallel},
        {.option = "--recompute-activations",
         .member = &S::recompute_activations,
         .help = "the same as --recompute-granularity selective"},
        {.option = "--checkpoint-activations",
         .member = &S::checkpoint_activations,
         .help = "old name of --recompute-granularity full"},
        {.option = "--activations-checkpoint-method",
         .member = &S::checkpoint_method,
         .help = "old name of --recompute-granularity full --recompute-method",
         .choices = names_in(spec::recompute_methods)},
        {.option = "--checkpoint-num-layers,--activations-checkpoint-num-layers",
         .member = &S::checkpoint_layers,
         .metavar = "N",
         .help = "old name of --recompute-num-layers"},
    };
    return fields;
}

void add_parallel_options(cli::Options& options, ParallelFlags& flags) {
    options.group("Parallel");
    declare(options, parallel_fields(), flags);
    declare(options, stage_fields(), flags);
    declare(options, recompute_fields(), flags);
}

namespace {

template <typename... Args>
std::string problem(std::string_view flag, fmt::format_string<Args...> format, Args&&... args) {
    return fmt::format("{}: {}", flag, fmt::format(format, std::forward<Args>(args)...));
}

std::vector<std::string> size_problems(const ParallelFlags& flags, const spec::ModelConfig& model) {
    std::vector<std::string> problems;
    const auto cut = [&](i64 value, std::string_view what) {
        if (flags.tensor <= value) return;
        problems.push_back(problem(tensor_flag, "{} ranks exceed {} {}: use at most {}",
                                   flags.tensor.value, what, value, value));
    };
    if (flags.tensor < 1) problems.push_back(problem(tensor_flag, too_small, flags.tensor.value));
    if (flags.pipeline < 1)
        problems.push_back(problem(pipeline_flag, too_small, flags.pipeline.value));
    cut(model.n_heads, "--num-attention-heads");
    i64 n_groups = model.n_heads;  // of the layer with the fewest
    for (const spec::LayerConfig& layer : layer_kinds(model))
        n_groups = std::min(n_groups, layer.n_groups);
    if (n_groups != model.n_heads) cut(n_groups, "--num-query-groups");
    cut(model.ffn_hidden, "--ffn-hidden-size");
    // When the embedding and the head count as layers, each may be a whole stage.
    const i64 most = counted_layers(model, {.balance = balance_of(flags)});
    if (flags.pipeline > most) {
        problems.push_back(problem(pipeline_flag,
                                   "{} stages exceed --num-layers {}: use at most {}",
                                   flags.pipeline.value, model.n_layers, most));
    }
    return problems;
}

// Returns the problem with the numbers of layers of the first and the last stage, if there is one.
std::optional<std::string> ends_problem(const ParallelFlags& flags,
                                        const spec::ModelConfig& model) {
    if (!flags.first_stage_layers && !flags.last_stage_layers) return std::nullopt;
    const std::string_view flag = flags.first_stage_layers ? first_flag : last_flag;
    if (flags.pipeline < 2) return problem(flag, "needs {} of at least 2", pipeline_flag);
    const i64 first = flags.first_stage_layers.value_or(0);
    const i64 last = flags.last_stage_layers.value_or(0);
    if (first < (flags.first_stage_layers ? 1 : 0)) return problem(first_flag, too_small, first);
    if (last < (flags.last_stage_layers ? 1 : 0)) return problem(last_flag, too_small, last);
    const i64 n_others = flags.pipeline - (first > 0) - (last > 0);
    const i64 left = model.n_layers - first - last;
    if (left >= n_others && (n_others > 0 || left == 0)) return std::nullopt;
    return problem(
        flag,
        "leaves {} of {} layers (--num-layers) for the remaining stages, whose number is "
        "{}: choose numbers with which each stage has a layer and each layer a stage",
        left, model.n_layers, n_others);
}

std::optional<std::string> chunks_problem(const ParallelFlags& flags,
                                          const spec::ModelConfig& model) {
    if (flags.layers_per_virtual_stage && flags.virtual_stages)
        return problem(chunks_flag, "cannot be combined with {}: give one of the two",
                       virtual_flag);
    const auto& n = flags.virtual_stages ? flags.virtual_stages : flags.layers_per_virtual_stage;
    const std::string_view flag = flags.virtual_stages ? chunks_flag : virtual_flag;
    if (!n) return std::nullopt;
    if (*n < 1) return problem(flag, too_small, *n);
    if (flags.pipeline < 2 && (flags.layers_per_virtual_stage || *n > 1))
        return problem(flag, "needs {} of at least 2", pipeline_flag);
    const i64 n_chunks = chunks_of(flags, model);
    const i64 counted =
        model.n_layers + (flags.count_embedding ? 1 : 0) + (flags.count_loss ? 1 : 0);
    if (n_chunks * flags.pipeline <= counted) return std::nullopt;
    return problem(
        flag, "{} stages x {} chunks exceed --num-layers {}: use fewer stages or larger chunks",
        flags.pipeline.value, n_chunks, model.n_layers);
}

}  // namespace

std::vector<std::string> layout_problems(const ParallelFlags& flags,
                                         const spec::ModelConfig& model) {
    std::vector<std::string> problems = size_problems(flags, model);
    if (!problems.empty()) return problems;
    for (auto& found : {ends_problem(flags, model), chunks_problem(flags, model)}) {
        if (found) problems.push_back(*found);
    }
    return problems;
}

spec::ParallelConfig sizes_of(const ParallelFlags& flags) {
    return {.tp = flags.tensor, .pp = flags.pipeline};
}

spec::ParallelConfig resolve_parallel(const ParallelFlags& flags, const ModelFlags& model_flags,
                                      const spec::ModelConfig& model) {
    if (const auto problems = layout_problems(flags, model); !problems.empty()) {
        throw Error(Exit::usage, problems.front());
    }
    spec::ParallelConfig parallel = sizes_of(flags);
    parallel.vocab_divisible_by = model_flags.vocab_divisible_by;
    parallel.pad_vocab_to = model_flags.pad_vocab_to.value_or(0);
    parallel.sequence_parallel = flags.sequence && flags.tensor > 1;
    parallel.n_chunks = chunks_of(flags, model);
    if (flags.layers_per_virtual_stage && parallel.n_chunks == 1) {
        note("{}: ignored: no stage has more than {} layers", virtual_flag,
             *flags.layers_per_virtual_stage);
    }
    parallel.first_stage_layers = flags.first_stage_layers.value_or(0);
    parallel.last_stage_layers = flags.last_stage_layers.value_or(0);
    check_all(
        [&] {
            parallel.balance = balance_of(flags);
            (void)first_layer(model, parallel, 0);  // checks that no part is empty
        },
        [&] { parallel.recompute = recompute_of(flags); },
        [&] { (void)padded_vocab(model, parallel); });  // checks the padding
    return parallel;
}

void require_equal_rows(const spec::ParallelConfig& parallel, i64 micro_batch, i64 seq_length) {
    if (!parallel.sequence_parallel || micro_batch * seq_length % parallel.tp == 0) return;
    usage_error(
        "--sequence-parallel",
        "{} tensor ranks cannot divide the {} rows of a micro-batch equally (--seq-length {} x "
        "--micro-batch-size {}): change one of these two flags, or omit --sequence-parallel",
        parallel.tp, micro_batch * seq_length, seq_length, micro_batch);
}

const Fields<ZeroFlags>& zero_fields() {
    using S = ZeroFlags;
    static const FieldsIn<S, Block::none> fields = {
        {.option = "--zero-stage",
         .member = &S::stage,
         .json = [](const Resolved& r) -> OrderedJson { return r.parallel.zero_stage; },
         .metavar = "0|1",
         .help = "0: every data-parallel rank has the whole optimizer state; 1: each has its part",
         .block = Block::parallel},
        {.option = "--use-distributed-optimizer",
         .member = &S::distributed_optimizer,
         .help = "the same as --zero-stage 1"},
    };
    return fields;
}

const Fields<spec::DataParallelConfig>& data_parallel_fields() {
    using S = spec::DataParallelConfig;
    static const FieldsIn<S, Block::parallel> fields = {
        {.option = "--overlap-grad-reduce",
         .member = &S::overlap_grad_reduce,
         .help = "reduce gradients over data-parallel ranks during backward"},
        {.option = "--overlap-param-gather",
         .member = &S::overlap_param_gather,
         .help =
             "gather updated weights during the next forward; needs --use-distributed-optimizer"},
        {.option = "--ddp-bucket-size",
         .member = &S::bucket_elements,
         .metavar = "N",
         .help = "number of gradient elements that are reduced at a time; default: 40 million or 1 "
                 "million x data-parallel ranks, whichever is larger"},
    };
    return fields;
}

const Fields<RankCheckFlags>& rank_check_fields() {
    using S = RankCheckFlags;
    static const FieldsIn<S, Block::none> fields = {
        {.option = "--check-replicas,--check-weight-hash-across-dp-replicas-interval",
         .member = &S::check_replicas,
         .metavar = "N",
         .help = "every N iterations, compare the copies of weights and optimizer state on "
                 "different ranks, and stop when they differ; 0: never",
         .block = Block::parallel},
        {.option = "--no-node-check",
         .member = &S::node_check,
         .help = "start without comparing clocks, memory, limits, speed and network of the hosts",
         .block = Block::parallel,
         .name = "node_check",
         .clears = true},
        {.option = "--distributed-timeout-minutes",
         .member = &S::timeout_min,
         .metavar = "MINUTES",
         .help = "stop after waiting MINUTES for another rank, and name that rank"},
    };
    return fields;
}

void RankCheckFlags::check() const {
    check_all([&] { check_at_least("--check-replicas", check_replicas, 0); },
              [&] { check_above("--distributed-timeout-minutes", timeout_min, 0); });
}

int resolve_zero_stage(const ZeroFlags& zero, const spec::DataParallelConfig& data_parallel) {
    check_at_least("--ddp-bucket-size", data_parallel.bucket_elements, 1);
    const i64 stage = zero.stage.value_or(zero.distributed_optimizer ? 1 : 0);
    if (stage != 0 && stage != 1) {
        usage_error("--zero-stage", "{} is not supported: use 0 or 1", stage);
    }
    if (zero.distributed_optimizer && stage == 0) {
        usage_error("--use-distributed-optimizer",
                    "cannot be combined with --zero-stage 0: give one of the two");
    }
    if (data_parallel.overlap_param_gather && stage == 0) {
        usage_error("--overlap-param-gather",
                    "needs --use-distributed-optimizer: without it every rank updates all weights "
                    "itself");
    }
    return static_cast<int>(stage);
}

}  // namespace lm::config
