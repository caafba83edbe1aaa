// SPDX-License-Identifier: Apache-2.0
#include "train/load_choice.hpp"

#include <fmt/ranges.h>

#include <filesystem>
#include <system_error>

#include "base/error.hpp"
#include "ckpt/abandon.hpp"
#include "ckpt/generation.hpp"
#include "ckpt/steps.hpp"
#include "io/file.hpp"

namespace lm::train {
namespace {

namespace fs = std::filesystem;

fs::path canonical(const std::string& path) {
    std::error_code ignored;
    fs::path result = fs::weakly_canonical(path, ignored);
    return result.has_filename() ? result : result.parent_path();  // "DIR/" is DIR
}

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

// A missing step is always an error: the training must not start at iteration 0 instead.
[[noreturn]] void fail_missing_step(const std::string& load) {
    const fs::path parent = canonical(load).parent_path();
    if (!io::is_directory(parent)) {
        usage_error(load, "--load: no such checkpoint: {} does not exist", parent.string());
    }
    const std::string steps = list_of_steps(parent);
    if (steps.empty()) {
        usage_error(load, "--load: no such checkpoint: {} has none", parent.string());
    }
    usage_error(load, "--load: no such checkpoint: existing ones are {}", steps);
}

void check_exists(const config::CheckpointFlags& flags) {
    if (io::exists(flags.load)) return;
    if (ckpt::step_from_name(canonical(flags.load).filename().string()) >= 0) {
        fail_missing_step(flags.load);
    }
    if (flags.fresh) return;
    usage_error(flags.load, "--load: no such directory: give --fresh to start at iteration 0");
}

}  // namespace

std::optional<ckpt::Checkpoint> find_checkpoint(const config::CheckpointFlags& flags) {
    if (flags.load.empty()) return std::nullopt;
    check_exists(flags);
    if (!io::exists(flags.load)) return std::nullopt;
    auto checkpoint = ckpt::open_if_any(flags.load);
    if (checkpoint) return checkpoint;
    if (flags.exit_on_missing) {
        usage_error(flags.load,
                    "--load: holds no checkpoint, and --exit-on-missing-checkpoint is given");
    }
    if (flags.finetune || flags.no_load_optim) {
        usage_error(flags.load,
                    "--load: holds no checkpoint with weights: import a Hugging Face model with "
                    "lm-convert --to native");
    }
    // A start at iteration 0 is right in an empty directory, and in a directory that a run has
    // claimed.
    for (const std::string& name : io::list_directory(flags.load)) {
        if (name.starts_with("generation-") || name == ckpt::fence_file ||
            name.starts_with(ckpt::abandoned_prefix) || name.find(".tmp.") != std::string::npos) {
            continue;
        }
        usage_error(
            flags.load,
            "--load: holds no checkpoint but other files ({}): give the directory of a run or an "
            "empty one, or import a Hugging Face model with lm-convert --to native",
            name);
    }
    return std::nullopt;
}

void check_save(const config::CheckpointFlags& flags,
                const std::optional<ckpt::Checkpoint>& start) {
    if (flags.save.empty() || !io::is_directory(flags.save) || ckpt::steps_in(flags.save).empty()) {
        return;
    }
    const bool own = start && canonical(start->path()).parent_path() == canonical(flags.save);
    if (own && !flags.finetune) return;
    if (flags.finetune) {
        usage_error(
            flags.save,
            "--save: holds checkpoints of a run already, and --finetune starts another run: "
            "give another directory; to resume that run, omit --finetune and give the "
            "directory to --load too");
    }
    usage_error(
        flags.save,
        "--save: holds checkpoints of a run already: give it to --load too to resume that run, "
        "or give another directory");
}

}  // namespace lm::train
