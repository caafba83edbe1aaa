// SPDX-License-Identifier: Apache-2.0
#include "train/resume/resume.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <functional>
#include <system_error>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/problem_list.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/format/model_json.hpp"
#include "ckpt/history/steps.hpp"
#include "config/rank_counts.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/output_place.hpp"
#include "io/path.hpp"
#include "parallel/together.hpp"
#include "train/config/run_json.hpp"
#include "train/resume/changes.hpp"
#include "train/resume/load_choice.hpp"
#include "train/resume/local_restore.hpp"
#include "train/resume/past_batches.hpp"

namespace lm::train {
namespace {

constexpr std::tuple counter_fields{std::pair{"iteration", &spec::Counters::iteration},
                                    std::pair{"samples", &spec::Counters::samples},
                                    std::pair{"tokens", &spec::Counters::tokens}};

using metrics::IntervalSums;
constexpr std::tuple interval_fields{std::pair{"iterations", &IntervalSums::n},
                                     std::pair{"stepped", &IntervalSums::stepped},
                                     std::pair{"not_finite", &IntervalSums::not_finite},
                                     std::pair{"loss", &IntervalSums::loss},
                                     std::pair{"elapsed_s", &IntervalSums::elapsed_s},
                                     std::pair{"samples", &IntervalSums::samples},
                                     std::pair{"tokens", &IntervalSums::tokens},
                                     std::pair{"flops", &IntervalSums::flops},
                                     std::pair{"model_flops", &IntervalSums::model_flops}};

constexpr std::tuple origin_fields{std::pair{"path", &Origin::path},
                                   std::pair{"run_id", &Origin::run_id}};

using optim::LossScaleState;
constexpr std::tuple loss_scale_fields{
    std::pair{"scale", &LossScaleState::scale},
    std::pair{"steps_since_overflow", &LossScaleState::steps_since_overflow},
    std::pair{"hysteresis_left", &LossScaleState::hysteresis_left}};

constexpr std::string_view start_of_scale = "initial_loss_scale";

// Restores the loss scale of a checkpoint. `state`: the state object of the checkpoint's manifest.
// If --initial-loss-scale was changed, prints a note that the new value has no effect.
void restore_scale(const RunConfig& config, const io::Json& state,
                   const optim::LossScaleState& scale, Trainer& trainer) {
    trainer.restore(scale);
    const auto saved = state.find("schedule");
    if (!trainer.loss_scaler().dynamic() || saved == state.end()) return;
    const auto initial = saved->find(start_of_scale);
    if (initial == saved->end() || *initial == config.trainer.loss_scale.initial) return;
    note("--initial-loss-scale: ignored: resuming with the checkpoint's loss scale of {}",
         scale.scale);
}

bool loads_optimizer(const config::CheckpointFlags& flags) {
    return !flags.finetune && !flags.no_load_optim;
}

Progress resume(const RunConfig& config, const ckpt::Checkpoint& checkpoint, Trainer& trainer) {
    const ckpt::Manifest& manifest = checkpoint.manifest();
    const bool with_optimizer = loads_optimizer(config.checkpoints);
    if (config.checkpoints.finetune) {
        note("{}: weights loaded; starting at iteration 0", checkpoint.path());
        Progress fresh;
        fresh.origin = origin_of(checkpoint);
        return fresh;
    }
    note("{}: resuming after iteration {}, {} samples", checkpoint.path(),
         manifest.counters.iteration, manifest.counters.consumed_samples);
    if (config.checkpoints.no_load_optim) {
        note(
            "--no-load-optim: the optimizer state starts anew, and the learning rate continues at "
            "sample {} of its schedule, where Megatron-LM would repeat the warm-up",
            manifest.counters.consumed_samples);
    }
    Progress progress{.done = {.iteration = manifest.counters.iteration,
                               .samples = manifest.counters.consumed_samples,
                               .tokens = manifest.counters.consumed_tokens},
                      .stepped = {},
                      .loaded = ckpt::tip_of(manifest)};
    const io::Json state = io::parse_json(manifest.state, checkpoint.path());
    const auto stepped = state.find("stepped");
    progress.stepped = progress.done;
    if (stepped != state.end())
        io::read_object(progress.stepped, *stepped, counter_fields, checkpoint.path());
    if (const auto found = state.find("loss_scale"); found != state.end() && with_optimizer) {
        LossScaleState scale;
        io::read_object(scale, *found, loss_scale_fields, checkpoint.path());
        restore_scale(config, state, scale, trainer);
    }
    if (const auto origin = state.find(origin_key); origin != state.end()) {
        progress.origin.emplace();
        io::read_object(*progress.origin, *origin, origin_fields, checkpoint.path());
    }
    if (const auto interval = state.find("interval"); interval != state.end()) {
        io::read_object(progress.interval, *interval, interval_fields, checkpoint.path());
    }
    if (const auto guard = state.find("guard"); guard != state.end()) {
        progress.guard = guard_memory_from(*guard, checkpoint.path());
    }
    return progress;
}

// Runs `body` on all ranks. When a rank finds the checkpoint corrupt, returns on all ranks the
// description of the damage; otherwise an empty text. When --load names one step, throws an error
// with the damage instead of returning it, because no other step may be loaded. Collective.
std::string damage_found_by(const std::function<void()>& body, const RunConfig& config,
                            comm::Group& world) {
    const bool may_try_another = !ckpt::is_step(config.checkpoints.load);
    std::string damage;
    parallel::together(world, [&] {
        try {
            body();
        } catch (const ckpt::DamageError& error) {
            if (!may_try_another) throw;
            damage = world.size() == 1
                         ? error.what()
                         : fmt::format("{}: {}", own_place(world.rank()), error.what());
        }
    });
    return parallel::first_text(world, damage);
}

ckpt::Share share_of(const comm::Group& world) {
    return {world.rank(), world.size()};
}

// The checkpoint that was chosen for all ranks. Each rank has checked a share of the checkpoint's
// files.
struct Chosen {
    std::optional<ckpt::Checkpoint> checkpoint;
    std::vector<i64> damaged;  // iterations of the corrupt steps so far; set on rank 0 only
    std::string damage;        // description of the damage of `checkpoint`; empty: not corrupt
    bool tried_local = false;  // restore_local_step() was called in place of a corrupt step
};

// Calls `choose_one` on rank 0 and opens on all ranks the checkpoint that it returns. Rank 0 reads
// the manifest and sends its text to the other ranks. Collective.
void choose(const RunConfig& config, comm::Group& world, Chosen& chosen,
            const std::function<std::optional<ckpt::Checkpoint>()>& choose_one) {
    std::string path;
    std::string manifest;
    parallel::together(world, [&] {
        if (world.rank() != 0) return;
        chosen.checkpoint = choose_one();
        if (!chosen.checkpoint) return;
        path = chosen.checkpoint->path();
        manifest = ckpt::read_step_file(fmt::format("{}/{}", path, ckpt::manifest_file));
    });
    path = parallel::broadcast_text(world, path);
    manifest = parallel::broadcast_text(world, manifest);
    const auto open_share = [&] {
        if (world.rank() == 0 || path.empty()) return;
        chosen.checkpoint = ckpt::Checkpoint::open(path, share_of(world), manifest);
    };
    chosen.damage = damage_found_by(open_share, config, world);
}

// Returns whether another run has replaced the chosen step or set it aside since rank 0 read its
// manifest. Two runs of one directory overlap when a job is started again before its last task has
// ended. Collective.
bool replaced_meanwhile(comm::Group& world, const Chosen& chosen) {
    std::string replaced;
    parallel::together(world, [&] {
        if (world.rank() != 0 || chosen.checkpoint->is_current()) return;
        replaced = chosen.checkpoint->path();
        note("{}: another run replaced it while this run read it: choosing a step again", replaced);
    });
    return !parallel::broadcast_text(world, replaced).empty();
}

// Chooses another step until chosen.damage is empty. Calls `check` on rank 0 for each chosen step;
// `check` throws when the run cannot resume from the step. Collective.
void choose_undamaged(const RunConfig& config, comm::Group& world, Chosen& chosen,
                      const std::function<void(const ckpt::Checkpoint&)>& check) {
    while (!chosen.damage.empty()) {
        if (replaced_meanwhile(world, chosen)) {
            chosen.damage.clear();
        } else if (world.rank() == 0) {
            chosen.damaged.push_back(chosen.checkpoint->manifest().counters.iteration);
        }
        if (!chosen.damage.empty() && !chosen.tried_local) {
            std::erase(chosen.damaged, restore_local_step(config, world, chosen.damaged));
            chosen.tried_local = true;
        }
        choose(config, world, chosen, [&] {
            auto other = ckpt::open_other(config.checkpoints.load, chosen.damaged, chosen.damage,
                                          share_of(world));
            check(other);
            return std::optional(std::move(other));
        });
    }
}

// Returns `value`, a field of the model's JSON object, in the form of its flag's argument.
std::string text_of(const config::ResumeRule& rule, const io::OrderedJson& value) {
    if (rule.clears) return value.get<bool>() ? "false" : "true";
    return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace

void check_writable(const config::CheckpointFlags& checkpoints,
                    const config::LoggingFlags& logging) {
    const auto check = [&](std::string_view flag, const std::string& path, bool directory) {
        if (path.empty()) return;
        if (io::exists(path) && io::is_directory(path) != directory) {
            usage_error(flag, "{}: {}", path, directory ? "is not a directory" : "is a directory");
        }
        // The run creates a missing directory, so the nearest existing parent has to be writable.
        // The directory of a file must exist, or be below --save, where the run creates it.
        io::refuse_file_as_parent(path);
        if (!directory && !io::is_below(path, checkpoints.save))
            io::require_parent(path, fmt::format("{}: {}", flag, path));
        std::error_code ignored;
        auto at = std::filesystem::absolute(path, ignored);
        while (!std::filesystem::exists(at, ignored) && at.has_relative_path())
            at = at.parent_path();
        if (::access(at.c_str(), W_OK) != 0)
            run_error(flag, "{}: {} cannot be written: {}", path, at.string(),
                      std::system_category().message(errno));
        if (!directory || io::is_directory(path)) return;
        if (const auto reason = io::why_no_new_directory(at.string()); !reason.empty())
            run_error(flag, "{}: no directory can be created in {}: {}", path, at.string(), reason);
    };
    check("--save", checkpoints.save, true);
    check("--local-save", checkpoints.local_save, true);
    check("--tensorboard-dir", logging.tensorboard_dir, true);
    check("--codecarbon-dir", logging.codecarbon_dir, true);
    check("--log-file", logging.file, false);
    check("--log-json", logging.json, false);
    check("--status-file", logging.status_file, false);
    std::error_code ignored;
    for (const std::string& path : {logging.file, logging.json}) {
        if (std::filesystem::exists(path, ignored)) (void)io::Fd(io::checked::append_to(path));
    }
    // Directories that the run creates in --save. A link would lead out of it.
    for (const char* name : {"autotune", "flight-recorder"}) {
        const std::string path = fmt::format("{}/{}", checkpoints.save, name);
        if (!checkpoints.save.empty() && std::filesystem::is_symlink(path, ignored))
            run_error(path, "is a symbolic link, expected a directory: remove it");
    }
    // Each write replaces the file, and its last content is read at the end.
    const std::string& status_file = logging.status_file;
    struct stat status {};
    if (status_file.empty() || ::stat(status_file.c_str(), &status) != 0) return;
    if (!S_ISREG(status.st_mode))
        usage_error("--status-file", "{}: is a {}, expected a regular file", status_file,
                    io::checked::kind_of(status.st_mode));
    (void)io::open_read(status_file);
}

void note_fresh_start(const std::string& load) {
    if (load.empty()) return;
    note("{}: {}: starting from iteration 0", load,
         io::exists(load) ? "contains no checkpoint" : "does not exist yet");
}

namespace {

std::optional<ckpt::Checkpoint> find_start(const config::CheckpointFlags& checkpoints,
                                           const config::LoggingFlags& logging,
                                           const std::string& autotune, const ckpt::Share& share) {
    return find_checkpoint(
        checkpoints,
        {logging.file, logging.json, logging.status_file, logging.tensorboard_dir, autotune},
        share);
}

}  // namespace

std::optional<ckpt::Checkpoint> find_start(const RunConfig& config, const ckpt::Share& share) {
    return find_start(config.checkpoints, config.logging, config.trainer.autotune, share);
}

std::optional<ckpt::Checkpoint> find_start(const config::TrainFlags& flags) {
    config::CheckpointFlags chosen = flags.checkpoints;
    apply_load_step(chosen);
    choose_start(chosen);
    return find_start(chosen, flags.logging, flags.device.autotune, {});
}

void check_fits(const RunConfig& config, const ckpt::Checkpoint& checkpoint) {
    require_same_model(checkpoint.manifest().model, config.trainer.model, checkpoint.path(),
                       config.checkpoints.finetune);
    const auto saved = ckpt::optimizer_of(checkpoint);
    if (!loads_optimizer(config.checkpoints) || saved == config.trainer.precision.optimizer) return;
    usage_error(checkpoint.path(),
                "--load: the checkpoint has {}: give --finetune to start a training with these "
                "weights, or --no-load-optim to resume after iteration {}",
                saved
                    ? fmt::format("the state of --optimizer {}", name_in(spec::optimizers, *saved))
                    : "weights only, no optimizer state",
                checkpoint.manifest().counters.iteration);
}

void choose_start(config::CheckpointFlags& flags, const RunConfig& config, comm::Group& world) {
    if (!flags.finetune && flags.pretrained.empty()) return;
    RunConfig resumed = config;
    resumed.checkpoints.load = own_steps(flags);
    resumed.checkpoints.finetune = false;
    restore_local_step(resumed, world);
    parallel::together(world, [&] {
        if (world.rank() == 0) choose_start(flags);
    });
    std::array<i64, 2> chosen{flags.finetune, flags.no_load_optim};
    world.broadcast({chosen.data(), DType::int64, {2}}, 0);
    flags.load = parallel::broadcast_text(world, flags.load);
    flags.pretrained.clear();
    flags.finetune = chosen[0] != 0;
    flags.no_load_optim = chosen[1] != 0;
}

std::optional<ckpt::Checkpoint> open_checkpoint(const RunConfig& config, comm::Group& world) {
    restore_local_step(config, world);
    Chosen chosen;
    choose(config, world, chosen, [&] {
        auto start = find_start(config, share_of(world));
        check_save(config.checkpoints, start);
        if (start) check_fits(config, *start);
        return start;
    });
    choose_undamaged(config, world, chosen,
                     [&](const ckpt::Checkpoint& other) { check_fits(config, other); });
    return std::move(chosen.checkpoint);
}

Progress load_or_initialize(const RunConfig& config, const io::OrderedJson& data,
                            std::optional<ckpt::Checkpoint> checkpoint, comm::Group& world,
                            Trainer& trainer) {
    if (!checkpoint) {
        parallel::together(world, [&] { trainer.initialize(); });
        return {};
    }
    Chosen chosen{.checkpoint = std::move(checkpoint), .damaged = {}, .damage = {}};
    for (;;) {
        const auto load = [&] {
            trainer.load(*chosen.checkpoint, loads_optimizer(config.checkpoints));
        };
        chosen.damage = damage_found_by(load, config, world);
        if (chosen.damage.empty()) break;
        choose_undamaged(config, world, chosen, [&](const ckpt::Checkpoint& other) {
            check_fits(config, other);
            check_changes(config, data, other);
        });
    }
    trainer.gather_loaded();
    Progress progress;
    parallel::together(world, [&] {
        progress = resume(config, *chosen.checkpoint, trainer);
        // The step may be an earlier one than the step for which the flags were checked.
        throw_problems(config::batch_problems(
            config.schedule.ramp(), config.trainer.micro_batch,
            {config.trainer.parallel.dp, config.trainer.parallel.ranks_per_replica()},
            progress.done.samples));
    });
    return progress;
}

Progress load_newest(const RunConfig& config, const io::OrderedJson& data, i64 iteration,
                     comm::Group& world, Trainer& trainer) {
    RunConfig from = config;
    from.checkpoints.fresh = true;  // omits checks that are for the start of a run
    std::optional<ckpt::Checkpoint> checkpoint;
    const auto is_usable = [&] {
        if (!checkpoint) return false;
        return from.checkpoints.finetune || checkpoint->manifest().counters.iteration <= iteration;
    };
    if (!config.checkpoints.save.empty()) {
        from.checkpoints.load = config.checkpoints.save;
        from.checkpoints.finetune = from.checkpoints.no_load_optim = false;
        from.checkpoints.exit_on_missing = false;
        checkpoint = open_checkpoint(from, world);
    }
    if (!is_usable() && !config.checkpoints.load.empty()) {
        from = config;
        from.checkpoints.fresh = true;
        checkpoint = open_checkpoint(from, world);
    }
    if (!is_usable()) {
        throw JointError(
            Exit::self_stopped,
            fmt::format("rollback: neither --save nor --load has a checkpoint of iteration {} or "
                        "earlier: give --save-interval, or a policy other than rollback",
                        iteration));
    }
    return load_or_initialize(from, data, std::move(checkpoint), world, trainer);
}

namespace {

// Returns whether `flag` has different values in `a` and `b` only because its default is computed
// from another flag, whose values also differ.
bool follows_another_flag(std::string_view flag, const spec::ModelConfig& a,
                          const spec::ModelConfig& b) {
    if (flag == "--ffn-hidden-size")
        return a.hidden != b.hidden && a.ffn_hidden * b.hidden == b.ffn_hidden * a.hidden;
    if (flag == "--num-query-groups")
        return a.n_heads != b.n_heads && a.n_groups == a.n_heads && b.n_groups == b.n_heads;
    if (flag == "--kv-channels") {
        return a.head_dim != b.head_dim && a.head_dim * a.n_heads == a.hidden &&
               b.head_dim * b.n_heads == b.hidden;
    }
    return false;
}

}  // namespace

void require_same_model(const spec::ModelConfig& saved, const spec::ModelConfig& wanted,
                        const std::string& path, bool finetune) {
    std::vector<std::string> problems;
    // A continued pretraining may have a longer context, which no weight limits without a table of
    // positions.
    const bool any_length = finetune && wanted.position != spec::PositionEmbedding::absolute;
    const bool length_follows = !any_length && saved.max_positions != wanted.max_positions &&
                                wanted.max_positions == wanted.seq_length;
    if (length_follows) {
        problems.push_back(fmt::format(
            "--seq-length: {0} sets --max-position-embeddings to {0}, but {1} was trained with "
            "{2}: give --max-position-embeddings {2} and a --seq-length of at most {2}",
            wanted.seq_length, path, saved.max_positions));
    }
    const io::OrderedJson before = ckpt::to_json(saved, true), now = ckpt::to_json(wanted, true);
    for (const auto& [key, value] : now.items()) {
        if (before[key] == value) continue;
        using enum config::OnResume;
        const config::ResumeRule rule = config::resume_rule(config::Block::model, key);
        const bool rope = is_rotary(wanted.position) && !finetune;
        if (rule.on_resume != refused && !(rule.on_resume == refused_rope && rope)) continue;
        if (any_length && rule.flag == "--max-position-embeddings") continue;
        if (follows_another_flag(rule.flag, saved, wanted)) continue;
        if (length_follows && rule.flag == "--max-position-embeddings") continue;
        problems.push_back(fmt::format(
            "{}: is {}, but {} was trained with {}: give that value, or --use-checkpoint-args "
            "without flags of the model",
            rule.flag, text_of(rule, value), path, text_of(rule, before[key])));
    }
    throw_problems(problems);
}

ckpt::SaveInfo save_info(const RunConfig& config, const Trainer& trainer, const Progress& progress,
                         const io::OrderedJson& data) {
    io::Json state{{"schedule", training_json(config)},
                   {"batches", batches_json(config.schedule)},
                   {"data", data},
                   {"stepped", io::object_of(progress.stepped, counter_fields)},
                   {"interval", io::object_of(progress.interval, interval_fields)},
                   {"guard", to_json(progress.guard)}};
    if (progress.origin) state[origin_key] = io::object_of(*progress.origin, origin_fields);
    // A fixed scale is not saved, because a flag sets it. A later run with a dynamic scale starts
    // from its own --initial-loss-scale.
    if (trainer.loss_scaler().dynamic()) {
        state["loss_scale"] = io::object_of(trainer.loss_scaler().state(), loss_scale_fields);
    }
    return {.model = config.trainer.model,
            .parallel = config.trainer.parallel,
            .counters = {.iteration = progress.done.iteration,
                         .consumed_samples = progress.done.samples,
                         .consumed_tokens = progress.done.tokens,
                         .optimizer_step = trainer.optimizer_step()},
            .tokenizer = config.tokenizer,
            .seed = static_cast<i64>(config.trainer.seed),
            .state = io::json_line(io::OrderedJson(state)),
            .command_line = config.command_line,
            .weights = config.trainer.precision.weights};
}

}  // namespace lm::train
