// SPDX-License-Identifier: Apache-2.0
#include "train/config/start_choice.hpp"

#include <system_error>

#include "ckpt/history/steps.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::train {
namespace {

namespace fs = std::filesystem;

const ckpt::Share manifest_only{.count = i64{1} << 40};

// Returns whether the run of `own`, a directory of steps, started from the weights of `source`.
bool started_from(const std::string& own, const std::string& source) {
    const auto step = ckpt::open_if_any(own, manifest_only);
    if (!step) return false;
    const io::Json state = io::parse_json(step->manifest().state, step->path());
    const auto saved = state.find(origin_key);
    if (saved == state.end()) return false;
    const Origin origin{io::json_get<std::string>(*saved, "path", step->path()),
                        io::json_get<std::string>(*saved, "run_id", step->path())};
    const fs::path path = canonical(source);
    if (origin.path == path || fs::path(origin.path).parent_path() == path) return true;
    // The directory may have moved.
    if (origin.run_id.empty() || !io::exists(source)) return false;
    const auto now = ckpt::open_if_any(source, manifest_only);
    return now && now->manifest().run_id == origin.run_id;
}

}  // namespace

std::filesystem::path canonical(const std::string& path) {
    std::error_code ignored;
    fs::path result = fs::weakly_canonical(fs::absolute(path, ignored), ignored);
    return result.has_filename() ? result : result.parent_path();  // "DIR/" becomes "DIR"
}

std::string own_steps(const config::CheckpointFlags& flags) {
    const bool is_source = flags.finetune && canonical(flags.load) != canonical(flags.save);
    return flags.pretrained.empty() || flags.load.empty() || is_source ? flags.save : flags.load;
}

void choose_start(config::CheckpointFlags& flags) {
    if (!flags.finetune && flags.pretrained.empty()) return;
    const auto has_step = [](const std::string& directory) {
        return !directory.empty() && ckpt::open_if_any(directory, manifest_only).has_value();
    };
    const std::string own = own_steps(flags);
    const bool by_load = !flags.pretrained.empty() && own == flags.load;
    const bool is_source = !by_load && (flags.pretrained.empty() || has_step(flags.load));
    const std::string source = is_source ? flags.load : flags.pretrained;
    const bool resumes =
        has_step(own) &&
        (by_load || (canonical(own) != canonical(source) && started_from(own, source)));
    flags.pretrained.clear();
    flags.finetune = !resumes;
    flags.load = resumes ? own : source;
    if (resumes) flags.no_load_optim = false;
}

Origin origin_of(const ckpt::Checkpoint& source) {
    return {canonical(source.path()).string(), source.manifest().run_id};
}

}  // namespace lm::train
