// SPDX-License-Identifier: Apache-2.0
#include "train/start/plan_text.hpp"

#include <dnnl.h>
#include <fmt/format.h>
#include <gnu/libc-version.h>

#include <algorithm>
#include <functional>
#include <ranges>

#include "base/hash.hpp"
#include "base/host_list.hpp"
#include "base/launcher.hpp"
#include "base/printable.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "comm/operation.hpp"
#include "cost/formulas.hpp"
#include "cost/nccl.hpp"
#include "parallel/grid.hpp"
#include "spec/schedule_summary.hpp"
#include "train/save/save_room.hpp"

namespace lm::train {
namespace {

template <typename... Args>
void line(std::string& plan, std::string_view what, fmt::format_string<Args...> format,
          Args&&... args) {
    plan += fmt::format(" > {:<12} {}\n", what,
                        printable(fmt::format(format, std::forward<Args>(args)...)));
}

// Returns "rope positions, RMSNorm, swiglu, 8 key-value groups, untied head, no biases" for layers
// like `layer`.
std::string kind_text(const spec::ModelConfig& model, const spec::LayerConfig& layer) {
    // Names all properties of a layer, so that a new one does not compile until it has a text.
    const auto& [n_groups, position, rotary, window, activation, parallel_residual, shared_norm,
                 norms] = layer;
    const bool none = position == spec::PositionEmbedding::none;
    std::string text(none ? "no" : name_of(position));
    if (is_rotary(position)) {
        if (model.rotary_percent != 1) text += fmt::format(" {}", model.rotary_percent);
        if (model.rotary_interleaved) text += " interleaved";
        const spec::RotaryScaling& scaling = rotary.scaling;
        if (scaling.rule != spec::RotaryRule::none)
            text += fmt::format(" scaled by {} ({})", scaling.factor, name_of(scaling.rule));
        if (rotary.base != model.rotary_base) text += fmt::format(" of base {}", rotary.base);
    }
    text += fmt::format(" positions, {}{}, {}", name_of(model.normalization),
                        model.norm_1p ? "-1p" : "", name_of(activation));
    if (n_groups != model.n_heads) {
        text += fmt::format(", {} key-value group{}", n_groups, n_groups == 1 ? "" : "s");
    }
    if (window > 0) text += fmt::format(", window of {} keys", window);
    if (model.embedding_norm) text += ", embedding norm";
    if (norms != spec::NormPlacement::pre) text += fmt::format(", {} norms", name_of(norms));
    if (model.qk_norm) text += ", norms of query and key";
    if (model.joint_qk_norm) text += " over all heads";
    if (!model.norm_bias) text += ", norms without bias";
    if (parallel_residual) text += ", parallel residual";
    if (shared_norm) text += " with one norm";
    const auto factor = [&](const char* what, double value, double absent) {
        if (value != absent) text += fmt::format(", {} times {}", what, value);
    };
    factor("embedding", model.embedding_scale, 1);
    factor("attention scores", model.attention_scale, 0);
    factor("branches", model.residual_scale, 1);
    factor("logits", model.logit_scale, 1);
    text += model.untied_head ? ", untied head" : ", tied head";
    if (!model.linear_bias)
        text += model.qkv_bias ? ", biases of query, key and value" : ", no biases";
    return text;
}

std::string ranks_where(const spec::ParallelConfig& parallel,
                        const std::function<bool(const spec::Coordinates&)>& holds) {
    const i64 n_ranks = parallel.n_ranks();
    std::vector<int> ranks;
    for (i64 rank = 0; rank < n_ranks; ++rank) {
        if (holds(spec::coordinates_of(parallel, rank))) {
            ranks.push_back(static_cast<int>(rank));
        }
    }
    return comm::ranks_text(ranks, static_cast<int>(n_ranks));
}

// Returns "7" or "0-5".
std::string span_text(i64 begin, i64 end) {
    if (end <= begin) return "none";
    return end - begin == 1 ? fmt::format("{}", begin) : fmt::format("{}-{}", begin, end - 1);
}

std::string stage_text(const spec::ModelConfig& model, const spec::ParallelConfig& parallel,
                       i64 stage) {
    std::string text;
    for (i64 chunk = 0; chunk < parallel.n_chunks; ++chunk) {
        const spec::ModelPart part = spec::model_part(model, parallel, stage, chunk);
        if (part.embedding) text += "embedding, ";
        text += fmt::format("layer{} {}, ", part.end_layer - part.first_layer == 1 ? "" : "s",
                            span_text(part.first_layer, part.end_layer));
        if (part.head) text += "head, ";
    }
    return text.substr(0, text.size() - 2);
}

// Returns the heads of a tensor rank, "0-3". Layers with other numbers of groups may divide their
// heads differently: "0-3 or 0-7".
std::string heads_text(const spec::ModelConfig& model, const spec::ParallelConfig& parallel,
                       i64 tp) {
    std::vector<std::string> spans;
    for (const spec::LayerConfig& layer : spec::layer_kinds(model)) {
        const spec::HeadShare heads = spec::head_share(model, layer, parallel, tp);
        const std::string span = span_text(heads.first_head, heads.first_head + heads.n_heads);
        if (std::ranges::find(spans, span) == spans.end()) spans.push_back(span);
    }
    return fmt::format("{}", fmt::join(spans, " or "));
}

i64 fullest_bytes(const RunConfig& config, i64 stage) {
    const TrainerConfig& trainer = config.trainer;
    const cost::StepShape step{trainer.micro_batch, trainer.model.seq_length,
                               trainer.n_micro_batches};
    i64 most = 0;
    for (i64 tp = 0; tp < trainer.parallel.tp; ++tp) {
        most = std::max(most, cost::plan_memory(trainer.model, trainer.parallel, step,
                                                trainer.precision, trainer.processor(), tp, stage)
                                  .total());
    }
    return most;
}

struct LayoutLine {
    std::string what;  // label: "stage 0"
    std::string text;  // "ranks 0-3 of 8: embedding, layers 0-5; 1.2 GiB"
};

// Returns the lines of the layout. Layers, heads and rows count from 0, as in tensor names. The
// line of a stage states the size of the largest memory plan among its tensor ranks.
std::vector<LayoutLine> describe_layout(const RunConfig& config) {
    const spec::ModelConfig& model = config.trainer.model;
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    std::vector<LayoutLine> lines;
    for (i64 stage = 0; stage < parallel.pp; ++stage) {
        lines.push_back(
            {fmt::format("stage {}", stage),
             fmt::format("{}: {}; {}",
                         ranks_where(parallel, [stage](const auto& at) { return at.pp == stage; }),
                         stage_text(model, parallel, stage),
                         human_size(fullest_bytes(config, stage)))});
    }
    for (i64 tp = 0; parallel.tp > 1 && tp < parallel.tp; ++tp) {
        const spec::TensorShare share = spec::tensor_share(model, parallel, tp);
        i64 first_ffn = 0;
        for (i64 before = 0; before < tp; ++before) {
            first_ffn += spec::tensor_share(model, parallel, before).ffn;
        }
        lines.push_back(
            {fmt::format("tensor {}", tp),
             fmt::format("{}: heads {}, ffn {}, vocabulary {}",
                         ranks_where(parallel, [tp](const auto& at) { return at.tp == tp; }),
                         heads_text(model, parallel, tp),
                         span_text(first_ffn, first_ffn + share.ffn),
                         span_text(share.vocab_start, share.vocab_start + share.n_vocab))});
    }
    return lines;
}

void add_model(std::string& plan, const spec::ModelConfig& model,
               const spec::ParallelConfig& parallel) {
    const i64 total = spec::count_parameters(model).total();
    line(plan, "model", "{} parameters ({}): {} layers, hidden {}, {} heads, ffn {}, sequence {}",
         total, human_count(static_cast<double>(total)), model.n_layers, model.hidden,
         model.n_heads, model.ffn_hidden, model.seq_length);
    const std::vector<spec::LayerConfig> kinds = spec::layer_kinds(model);
    for (const spec::LayerConfig& kind : kinds) {
        const std::string of =
            kinds.size() > 1 ? fmt::format("{} layers: ", spec::count_layers(model, kind)) : "";
        line(plan, "architecture", "{}{}", of, kind_text(model, kind));
    }
    line(plan, "vocabulary", "{}, in memory {}", model.vocab_size,
         spec::padded_vocab(model, parallel));
}

void add_curriculum(std::string& plan, const spec::Schedule& schedule) {
    if (!schedule.curriculum()) return;
    i64 full = 1;  // first iteration with the final sequence length
    for (i64 step = i64{1} << 40; step > 0; step /= 2) {
        if (!schedule.curriculum()->finished(full + step - 1)) full += step;
    }
    const i64 reached = std::min(full, schedule.total_iterations() + 1);
    line(plan, "curriculum",
         "{}: sequences of {} tokens at first, {} from iteration {} on, after {} tokens",
         name_of(schedule.curriculum()->kind), schedule.seq_length({}),
         schedule.seq_length({.iteration = reached - 1}), reached,
         schedule.after(reached - 1).tokens);
}

// Returns "0.002 after a warm-up of 40 samples, falls to 0.0002 at sample 784".
std::string rate_text(const spec::LearningRate& rate) {
    const bool in_tokens = rate.warmup_in_tokens;
    const double n = in_tokens ? rate.warmup_tokens : rate.warmup_samples;
    const std::string warmup =
        n > 0 ? fmt::format("after a warm-up of {:.0f} {}", n, in_tokens ? "tokens" : "samples")
              : "without warm-up";
    const std::string begin = fmt::format("{:g} {}, ", rate.max, warmup);
    if (rate.style == spec::DecayStyle::constant) return begin + "then constant";
    if (rate.decay_tokens > 0)
        return begin + fmt::format("falls to {:g} at token {:.0f}", rate.min, rate.decay_tokens);
    const bool may_stay_above = rate.style == spec::DecayStyle::inverse_square_root;
    return begin + fmt::format("falls to {}{:g} at sample {:.0f}",
                               may_stay_above ? "at least " : "", rate.min, rate.decay_samples);
}

void add_schedule(std::string& plan, const RunConfig& config) {
    const spec::Counters& end = config.schedule.end();
    const spec::BatchRamp& ramp = config.schedule.ramp();
    const std::string_view unreached = config.schedule.unreached_limit();
    line(plan, "training", "{} iterations, {} samples, {} tokens{}", end.iteration, end.samples,
         end.tokens, unreached.empty() ? "" : fmt::format("; {} is not reached", unreached));
    const auto stages = ramp.stages();
    const i64 micro = config.trainer.micro_batch;
    const i64 dp = config.trainer.parallel.dp;
    if (stages.size() > 1) {
        line(plan, "batch", "{} to {} in {} stages, micro-batch {}", stages.front().batch,
             ramp.global_batch, stages.size(), micro);
    } else if (ramp.global_batch % (micro * dp) != 0) {  // reported as a problem elsewhere
        line(plan, "batch", "{} samples", ramp.global_batch);
    } else {
        const i64 n = ramp.global_batch / (micro * dp);
        line(plan, "batch", "{} samples, {} micro-batch{} of {}{}", ramp.global_batch, n,
             n == 1 ? "" : "es", micro, dp > 1 ? " on each replica" : "");
    }
    line(plan, "learning rate", "{}", rate_text(config.schedule.learning_rate()));
    add_curriculum(plan, config.schedule);
}

void add_ranks(std::string& plan, const RunConfig& config) {
    const spec::ParallelConfig& p = config.trainer.parallel;
    if (p.n_ranks() == 1) return;
    std::string layers;
    if (p.pp > 1) {
        i64 least = config.trainer.model.n_layers;
        i64 most = 0;
        for (i64 stage = 0; stage < p.pp; ++stage) {
            const i64 n = spec::stage_layers(config.trainer.model, p, stage);
            least = std::min(least, n);
            most = std::max(most, n);
        }
        layers = least == most ? fmt::format("; {} layers in each stage", most)
                               : fmt::format("; {} to {} layers in a stage", least, most);
    }
    line(plan, "ranks", "{} = {}{}", p.n_ranks(), spec::sizes_text(p), layers);
    if (!config.action.dry_run) return;
    for (const LayoutLine& each : describe_layout(config)) line(plan, each.what, "{}", each.text);
}

// Adds the lines of --dry-run only: each stage of the ramp, and the learning rate at its key
// points.
void add_schedule_details(std::string& plan, const RunConfig& config) {
    const spec::Schedule& schedule = config.schedule;
    for (const std::string& text : spec::describe_ramp(schedule)) line(plan, "ramp", "{}", text);
    std::string sizes;
    for (const i64 size :
         spec::fitting_dp_sizes(schedule.ramp(), config.trainer.micro_batch, 4096)) {
        sizes += fmt::format(" {}", size);
    }
    line(plan, "ranks", "data-parallel sizes that fit every batch:{}", sizes);
    for (const spec::RatePoint& point : spec::key_rates(schedule)) {
        line(plan, "rate", "{:.3E} at the {}: iteration {}, {} samples", point.rate, point.what,
             point.done.iteration, point.done.samples);
    }
    for (const config::IterationRange& range : config.skipped) {
        line(plan, "skipped", "iterations {} to {}: their samples are consumed without training",
             range.first, range.last);
    }
}

void add_data(std::string& plan, const RunConfig& config, const data::DataSets& data) {
    const auto describe = [&plan](std::string_view name, const data::SampleSource& source, i64 n) {
        for (const std::string& text : data::describe_use(name, source, n))
            line(plan, "data", "{}", text);
    };
    if (!data.train) return;  // the data has a problem that is reported elsewhere
    describe("train", *data.train, config.schedule.end().samples);
    for (const data::NamedSource& set : data.valid) {
        describe(set.name, *set.source, config.validation_samples());
    }
    for (const data::NamedSource& set : data.test) {
        describe(set.name, *set.source, config.validation_samples());
    }
    if (data.valid.empty() && config.validation_samples() > 0) {
        line(plan, "validation", "none: the data for it is empty, see --split");
    } else if (!data.valid.empty()) {
        line(plan, "validation", "{} samples of each set every {} iterations",
             config.validation_samples(), config.validation.interval.value);
    }
    if (!data.test.empty()) {
        line(plan, "test", "{} samples of each set at the end", config.validation_samples());
    }
}

// Returns the plan of the pipeline stage with the most memory.
cost::MemoryPlan largest_memory_plan(const RunConfig& config) {
    const TrainerConfig& trainer = config.trainer;
    cost::MemoryPlan largest;
    for (i64 stage = 0; stage < trainer.parallel.pp; ++stage) {
        TrainerConfig full = trainer;  // `trainer` with the full batch of the ramp
        full.n_micro_batches = trainer.micro_batches_of(config.schedule.ramp().global_batch);
        const cost::MemoryPlan plan = memory_plan(full, 0, stage);
        if (plan.total() > largest.total()) largest = plan;
    }
    return largest;
}

void add_memory(std::string& plan, const RunConfig& config) {
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    const i64 ranks = parallel.n_ranks();
    const cost::MemoryPlan memory = largest_memory_plan(config);
    const i64 nccl = config.trainer.cuda ? cost::nccl_bytes(config.trainer.model, parallel, 0,
                                                            config.trainer.nccl_use())
                                         : 0;
    const std::string masters =
        memory.masters > 0 ? fmt::format("masters {}, ", human_size(memory.masters)) : "";
    const std::string saves = memory.save_buffer > 0 ? fmt::format("; {} of host memory for saves",
                                                                   human_size(memory.save_buffer))
                                                     : "";
    line(plan, "memory",
         "{}{}: weights {}, {}gradients {}, optimizer {}, activations {}, workspace {}{}{}",
         human_size(memory.total()), ranks > 1 ? " on the fullest rank" : "",
         human_size(memory.weights), masters, human_size(memory.gradients),
         human_size(memory.optimizer), human_size(memory.activations), human_size(memory.workspace),
         nccl > 0 ? fmt::format("; plus about {} for NCCL", human_size(nccl)) : "", saves);
}

void add_checkpoints(std::string& plan, const RunConfig& config) {
    const config::CheckpointFlags& flags = config.checkpoints;
    if (flags.save.empty()) return line(plan, "checkpoints", "none (no --save)");
    const i64 last = last_iteration(config);
    const i64 saves = spec::count_saves(config.saves.ranges, last);
    const i64 each = cost::checkpoint_size(config.trainer.model, config.trainer.precision).total();
    const std::string text =
        fmt::format("{} of {} each in {}", saves, human_size(each), flags.save);
    const StepCount most = steps_on_disk(config.saves, 0, last);
    if (most.kept == saves)
        return line(plan, "checkpoints", "{}, {} in all", text, human_size(saves * each));
    line(plan, "checkpoints", "{}; at most {} are kept, {} during a save: {}", text, most.kept,
         most.on_disk, human_size(most.on_disk * each));
}

std::string launcher_name() {
    const Launched launched = launched_by(
        {Launcher::open_mpi, Launcher::pmi, Launcher::pmix, Launcher::torchrun, Launcher::slurm});
    const std::string job = slurm_job().empty() ? "" : fmt::format(", Slurm job {}", slurm_job());
    switch (launched.by) {
        case Launcher::none:
            return "no launcher" + job;
        case Launcher::open_mpi:
            return "mpirun" + job;
        case Launcher::pmi:
            return (launched.in_slurm_step ? "srun --mpi=pmi2" : "mpiexec") + job;
        case Launcher::pmix:
            return "srun --mpi=pmix" + job;
        case Launcher::torchrun:
            return "torchrun" + job;
        case Launcher::slurm:
            return "srun" + job;
    }
    return "";
}

}  // namespace

std::string describe_plan(const RunConfig& config, const data::DataSets& data) {
    std::string plan;
    add_model(plan, config.trainer.model, config.trainer.parallel);
    add_ranks(plan, config);
    add_schedule(plan, config);
    if (config.action.dry_run) add_schedule_details(plan, config);
    add_data(plan, config, data);
    add_memory(plan, config);
    add_checkpoints(plan, config);
    return plan;
}

std::string describe_start(const std::string& joined, const std::vector<std::string>& hosts) {
    std::vector<std::string> names = hosts;
    std::ranges::sort(names);
    names.erase(std::unique(names.begin(), names.end()), names.end());
    std::string text;
    line(text, "program", "lm-train {}", version());
    line(text, "started by", "{}: {}", launcher_name(), joined);
    line(text, "hosts", "{}: {}", names.size(), host_list(names));
    const dnnl_version_t& dnnl = *dnnl_version();
    line(text, "libraries", "glibc {}, oneDNN {}.{}.{}, fmt {}.{}.{}", gnu_get_libc_version(),
         dnnl.major, dnnl.minor, dnnl.patch, FMT_VERSION / 10000, FMT_VERSION / 100 % 100,
         FMT_VERSION % 100);
    return text;
}

std::string describe_cuda(const std::string& libraries) {
    return fmt::format(" > {:<12} {}\n", "GPU software", libraries);
}

std::string describe_devices(const device::Device& device, comm::Group& world) {
    std::string name = device.name();  // "cuda:3 (NVIDIA H100)": the index differs between ranks
    if (const size_t index = name.find(':'); index < name.find(" (")) {
        name.erase(index, name.find(" (") - index);
    }
    i64 own = static_cast<i64>(hash64(name) >> 1);
    i64 first = own;
    world.broadcast({&first, DType::int64, {1}}, 0);
    i64 n_others = own != first ? 1 : 0;
    world.all_reduce({&n_others, DType::int64, {1}});
    const std::string others =
        n_others > 0
            ? fmt::format("rank 0; {} of {} ranks have another device", n_others, world.size())
            : "each rank";
    return fmt::format(" > {:<12} {} on {}\n", "devices", name, others);
}

std::string describe_memory(const device::Device& device, comm::Group& world) {
    i64 own = device.allocated_bytes();
    std::vector<i64> all(static_cast<size_t>(world.size()));
    world.all_gather({&own, DType::int64, {1}}, {all.data(), DType::int64, {world.size()}});
    const auto most = std::ranges::max_element(all);
    return fmt::format(" > {:<12} {} ({} bytes) on rank {}, the largest of all ranks\n",
                       "allocated", human_size(*most), *most, most - all.begin());
}

}  // namespace lm::train
