// SPDX-License-Identifier: Apache-2.0
#include "train/resume/load_choice.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "base/error.hpp"
#include "base/log.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/generation.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/main.hpp"
#include "io/file.hpp"
#include "train/config/start_choice.hpp"
#include "train/resume/pending_evaluation.hpp"
#include "train/resume/refused_iterations.hpp"
#include "train/resume/start_count.hpp"

namespace lm::train {
namespace {

namespace fs = std::filesystem;

// Returns the steps in `directory` as text; a long list is abbreviated in the middle.
std::string list_of_steps(const fs::path& directory) {
    constexpr size_t most = 12;
    std::vector<std::string> names;
    for (const i64 step : ckpt::steps_in(directory)) names.push_back(ckpt::step_name(step));
    if (names.size() > most) {
        names[most / 2] = "...";
        names.erase(names.begin() + most / 2 + 1, names.end() - most / 2);
    }
    return fmt::format("{}", fmt::join(names, ", "));
}

// Throws Error(usage) for a step that does not exist. Without this error the training would start
// at iteration 0.
[[noreturn]] void fail_missing_step(const std::string& load) {
    const fs::path parent = canonical(load).parent_path();
    if (!io::is_directory(parent)) {
        usage_error(load, "--load: no such checkpoint: {} does not exist", parent.string());
    }
    const std::string steps = list_of_steps(parent);
    if (steps.empty()) {
        usage_error(load, "--load: no such checkpoint: {} contains no step", parent.string());
    }
    usage_error(load, "--load: no such checkpoint: the existing steps are {}", steps);
}

// Returns "Slurm restarted this job (...)" or "this is task 3 of a job array ..." when this start
// is probably not the first one of the run; otherwise an empty text.
std::string later_start(const Environment& get) {
    const auto number = [&get](const char* name) {
        const char* const text = get(name);
        return text == nullptr ? i64{0} : std::strtoll(text, nullptr, 10);
    };
    const i64 restarts = number("SLURM_RESTART_COUNT");
    if (restarts > 0)
        return fmt::format("Slurm restarted this job (SLURM_RESTART_COUNT {})", restarts);
    const i64 task = number("SLURM_ARRAY_TASK_ID");
    const i64 first = number("SLURM_ARRAY_TASK_MIN");
    if (get("SLURM_ARRAY_TASK_ID") == nullptr || task <= first) return {};
    return fmt::format("this is task {} of a job array whose first task is {}", task, first);
}

// Checks that the run may start from the weights of another run: in a job array, a directory of
// --save that does not exist was probably moved away.
void check_finetune(const config::CheckpointFlags& flags, const Environment& get) {
    if (!flags.finetune || flags.fresh || flags.save.empty() || io::exists(flags.save)) return;
    const std::string later = later_start(get);
    if (later.empty()) return;
    usage_error(flags.save,
                "--save: no such directory, but {}: give the directory that earlier starts saved "
                "to, or --fresh to start again from {}",
                later, flags.load);
}

// Returns the advice for a directory without a checkpoint of lm-utils.
std::string import_advice(const std::string& directory) {
    const auto is_megatron = [](const std::string& name) {
        return name == "latest_checkpointed_iteration.txt" || name.starts_with("iter_") ||
               name.starts_with("mp_rank_");
    };
    const bool found = io::is_directory(directory) &&
                       std::ranges::any_of(io::list_directory(directory), is_megatron);
    return fmt::format("import a {} with lm-convert --to native",
                       found ? "checkpoint of Megatron" : "Hugging Face model");
}

// Checks that the run may start at iteration 0 although --load has no checkpoint.
void check_first_start(const config::CheckpointFlags& flags, const Environment& get) {
    if (flags.exit_on_missing) {
        usage_error(flags.load,
                    "--load: holds no checkpoint, and --exit-on-missing-checkpoint is given");
    }
    const bool exists = io::exists(flags.load);
    if (flags.finetune || flags.no_load_optim) {
        if (!exists) usage_error(flags.load, "no such directory: give a checkpoint");
        usage_error(flags.load, "holds no checkpoint with weights: {}", import_advice(flags.load));
    }
    if (flags.fresh) return;
    const bool is_save = !flags.save.empty() && canonical(flags.load) == canonical(flags.save);
    if (!exists && !is_save) {
        usage_error(flags.load, "--load: no such directory: give --fresh to start at iteration 0");
    }
    const std::string later = later_start(get);
    if (later.empty()) return;
    usage_error(flags.load,
                "--load: {}, but {}: give the directory that earlier starts saved to, or --fresh "
                "to start at iteration 0",
                exists ? "holds no checkpoint" : "no such directory", later);
}

// Returns whether lm-train, or a batch job that runs it, writes a file with this name to a
// directory of steps.
bool is_own_name(const std::string& name) {
    for (const std::string_view prefix :
         {std::string_view("generation-"), ckpt::fence_file, ckpt::abandoned_prefix,
          std::string_view("autotune"), std::string_view("events.out."),
          std::string_view("flight-recorder"), std::string_view("slurm-"), std::string_view("log"),
          std::string_view("status"), start_count_file, pending_evaluation_file,
          refused_iterations_file}) {
        if (name.starts_with(prefix)) return true;
    }
    for (const std::string_view ending : {".log", ".out", ".err", ".jsonl", ".txt"}) {
        if (name.ends_with(ending)) return true;
    }
    return name.find(".tmp.") != std::string::npos;
}

// Returns whether `name` is a name that another program gives its weights or checkpoints.
bool is_foreign_checkpoint(const std::string& name) {
    for (const std::string_view prefix : {"iter_", "mp_rank_", "config.json", "pytorch_model"}) {
        if (name.starts_with(prefix)) return true;
    }
    for (const std::string_view ending : {".safetensors", ".bin", ".pt"}) {
        if (name.ends_with(ending)) return true;
    }
    return false;
}

// Throws Error(usage) when the directory of --load has files of another program. The run may start
// at iteration 0 if the directory is empty, has files of this run only, or was claimed by an
// earlier start of lm-train.
void check_not_foreign(const std::string& directory, const std::vector<std::string>& own_files) {
    const bool claimed = ckpt::newest_claim(directory).has_value();
    for (const std::string& name : io::list_directory(directory)) {
        if (claimed && !is_foreign_checkpoint(name)) continue;
        const fs::path path = canonical(directory) / name;
        const auto is_path = [&path](const std::string& own) {
            if (own.empty()) return false;
            // Returns true if `path` is the file `own` or a directory that contains this file.
            const fs::path place = canonical(own);
            return std::ranges::mismatch(path, place).in1 == path.end();
        };
        if (is_own_name(name) || std::ranges::any_of(own_files, is_path)) continue;
        usage_error(
            directory,
            "--load: holds no checkpoint, but other files, such as {}: give the directory of a run "
            "or an empty directory, or {}",
            name, import_advice(directory));
    }
}

// Throws Error(usage) when --load names a step of --save, the previous start resumed from the same
// step, and that start has saved later steps. Each task of a job array with such a flag would
// compute the same iterations again.
void check_not_repeated(const config::CheckpointFlags& flags, const ckpt::Checkpoint& start) {
    if (flags.fresh || ckpt::step_from_name(canonical(flags.load).filename().string()) < 0) return;
    const i64 step = start.manifest().counters.iteration;
    const std::optional<ckpt::Claim> previous = ckpt::newest_claim(flags.save);
    if (!previous || !previous->start || previous->start->iteration != step) return;
    const std::optional<ckpt::Tip> latest = ckpt::read_latest(flags.save);
    if (!latest || latest->step.iteration <= step) return;
    usage_error(flags.load,
                "--load: the previous start also resumed from this step, and has since saved "
                "iteration {}: give --load {} to continue from iteration {}, or run lm-ckpt latest "
                "{} {} to repeat the training from iteration {}",
                latest->step.iteration, cli::shell_word(flags.save), latest->step.iteration,
                cli::shell_word(flags.save), step, step);
}

}  // namespace

std::optional<ckpt::Checkpoint> find_checkpoint(const config::CheckpointFlags& flags,
                                                const std::vector<std::string>& own_files,
                                                const ckpt::Share& share, const Environment& get) {
    if (flags.load.empty()) return std::nullopt;
    if (io::exists(flags.load)) {
        auto checkpoint = ckpt::open_if_any(flags.load, share);
        if (checkpoint) {
            check_finetune(flags, get);
            return checkpoint;
        }
        check_not_foreign(flags.load, own_files);
    } else if (ckpt::step_from_name(canonical(flags.load).filename().string()) >= 0) {
        fail_missing_step(flags.load);
    }
    check_first_start(flags, get);
    return std::nullopt;
}

void check_save(const config::CheckpointFlags& flags,
                const std::optional<ckpt::Checkpoint>& start) {
    if (flags.save.empty() || !io::is_directory(flags.save) || ckpt::steps_in(flags.save).empty()) {
        return;
    }
    const bool own = start && canonical(start->path()).parent_path() == canonical(flags.save);
    if (own && !flags.finetune) {
        check_not_repeated(flags, *start);
        return;
    }
    if (flags.finetune) {
        usage_error(
            flags.save,
            "--save: holds checkpoints of a run that did not start from {}, and --finetune starts "
            "another run: give another directory; to resume that run, omit --finetune and give "
            "the directory to --load too",
            flags.load);
    }
    usage_error(flags.save,
                "--save: holds checkpoints of a run already: to resume that run, give the "
                "directory to --load too; otherwise give another directory");
}

}  // namespace lm::train
