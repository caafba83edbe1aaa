// SPDX-License-Identifier: Apache-2.0
#include "paths.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/generation.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/local_steps.hpp"
#include "ckpt/history/steps.hpp"
#include "foreign.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "sync/sync.hpp"

namespace lm::ckpt_tool {

std::string existing_directory(std::string path) {
    path = io::without_trailing_slashes(path);
    if (!io::exists(path)) usage_error(path, "does not exist: give a checkpoint directory");
    if (!io::is_directory(path))
        usage_error(path, "is not a directory: give a checkpoint directory");
    return path;
}

bool has_step(const std::string& directory) {
    return std::ranges::any_of(ckpt::steps_in(directory), [&](i64 step) {
        const std::string path = directory + "/" + ckpt::step_name(step);
        return io::exists(fmt::format("{}/{}", path, ckpt::manifest_file)) ||
               io::exists(fmt::format("{}/{}", path, ckpt::local_manifest_file));
    });
}

namespace {

// Returns whether a program of lm-utils has given one of the files of the directory its name.
bool is_used(const std::vector<std::string>& names) {
    return std::ranges::any_of(names, [](const std::string& name) {
        return ckpt::is_claim(name) || name == sync::lock_file ||
               ckpt::abandoned_generation(name) > 0 || ckpt::is_leftover(name);
    });
}

// Returns the program whose checkpoints the directory holds; an empty text for another directory.
std::string_view owner_of(const std::string& directory, const std::vector<std::string>& names) {
    const auto any = [&](auto matches) { return std::ranges::any_of(names, matches); };
    if (is_foreign(directory)) return foreign_program(directory);
    if (any([](const std::string& name) { return name.starts_with("iter_"); })) return "Megatron";
    if (any([](const std::string& name) { return ckpt::step_from_name(name) >= 0; }))
        return "DeepSpeed (its global_step* directories have no manifest.json)";
    if (any([](const std::string& name) {
            return name == "config.json" || name.starts_with("checkpoint-") ||
                   name.ends_with(".safetensors");
        }))
        return "Hugging Face";
    return "";
}

}  // namespace

std::string directory_of_steps(const std::string& path) {
    const std::string directory = existing_directory(path);
    if (ckpt::is_step(directory))
        usage_error(directory,
                    "is a single step, expected a directory of steps: give its parent directory");
    const std::vector<std::string> names = io::list_directory(directory);
    if (has_step(directory) || is_used(names)) return directory;
    const std::string_view owner = owner_of(directory, names);
    if (owner.empty()) {
        usage_error(
            directory,
            "has no checkpoint: no global_step* directory exists: give the --save directory "
            "of lm-train");
    }
    usage_error(directory,
                "holds checkpoints of {}, expected steps of lm-utils: use rsync for a backup, or "
                "import a checkpoint with lm-convert --to native",
                owner);
}

i64 parse_step(const std::string& object, const std::string& text) {
    const i64 step = ckpt::step_from_name(text);
    return step >= 0 ? step : parse_count(object, text);
}

std::vector<std::string> split_at_commas(const std::string& text) {
    std::vector<std::string> parts;
    size_t begin = 0;
    while (begin < text.size()) {
        const size_t end = std::min(text.find(',', begin), text.size());
        parts.push_back(text.substr(begin, end - begin));
        begin = end + 1;
    }
    return parts;
}

}  // namespace lm::ckpt_tool
