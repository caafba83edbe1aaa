// SPDX-License-Identifier: Apache-2.0
#include "ckpt/history/steps.hpp"

#include <algorithm>
#include <array>

#include "base/error.hpp"
#include "base/log.hpp"
#include "ckpt/format/damage.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/path.hpp"

namespace lm::ckpt {
namespace {

// The lineage in `latest` has about 150 bytes for each start of the run.
constexpr i64 max_latest_bytes = i64{16} << 20;

std::string latest_path(const std::string& directory) {
    return fmt::format("{}/{}", directory, latest_file);
}

// Returns the problem of a damaged step without the remedy "use another step", because open_first()
// itself uses another step.
std::string_view without_remedy(std::string_view problem) {
    constexpr std::string_view remedy = ": use another step";
    if (problem.ends_with(remedy)) problem.remove_suffix(remedy.size());
    return problem;
}

// Opens the first complete step of `candidates` that is not in `damaged`. Warns if `reason` is not
// empty or a damaged step was skipped. The warning states `reason`, or if that is empty, the
// problem of the first skipped step.
Checkpoint open_first(const std::string& directory, const std::vector<const StepEntry*>& candidates,
                      std::string reason, const std::vector<i64>& damaged, const Share& share) {
    for (const StepEntry* entry : candidates) {
        if (std::ranges::find(damaged, entry->step) != damaged.end()) continue;
        // Only damage may lead to another step. After an error of the system this step may be
        // undamaged.
        if (entry->unreadable) throw Error(Exit::failure, entry->reason);
        std::string problem = entry->reason;
        if (entry->manifest) {
            try {
                Checkpoint checkpoint = Checkpoint::open(entry->path, share);
                if (!reason.empty())
                    warn("{}: using {} instead", without_remedy(reason), checkpoint.path());
                return checkpoint;
            } catch (const DamageError& error) {
                problem = error.what();
            }
        }
        if (reason.empty()) reason = problem;
    }
    if (reason.empty()) reason = "the branch has no step";
    run_error(directory,
              "has no complete checkpoint on its current branch: {}: see lm-ckpt ls {}, and choose "
              "a step with lm-ckpt latest",
              reason, directory);
}

// Returns the reason why `latest` does not name an existing step; an empty text when `latest` names
// an existing step.
std::string reason_without_step(const std::string& directory, const Lineage& lineage) {
    const std::string latest = latest_path(directory);
    if (!lineage.latest) {
        return io::exists(latest) ? latest + ": names no valid step"
                                  : directory + ": no file 'latest'";
    }
    if (find_step(lineage.steps, *lineage.latest) != nullptr) return "";
    return fmt::format("{}: names {}, which does not exist", latest, step_name(*lineage.latest));
}

}  // namespace

bool is_step(const std::string& given) {
    const std::string path = io::without_trailing_slashes(given);
    return step_from_name(io::base_name(path)) >= 0 ||
           io::exists(fmt::format("{}/{}", path, manifest_file));
}

std::vector<i64> steps_in(const std::string& directory) {
    std::vector<i64> steps;
    for (const std::string& name : io::list_directory(directory)) {
        const i64 step = step_from_name(name);
        if (step >= 0) steps.push_back(step);
    }
    std::ranges::sort(steps);
    return steps;
}

std::optional<Tip> read_latest(const std::string& directory) {
    const std::string path = latest_path(directory);
    if (!io::checked::exists(path)) return std::nullopt;
    const std::string text = io::read_file(path, max_latest_bytes);
    std::string_view rest = text;
    std::array<std::string, 3> lines;
    for (std::string& line : lines) {
        line = rest.substr(0, rest.find('\n'));
        rest.remove_prefix(std::min(line.size() + 1, rest.size()));
        if (line.ends_with('\r')) line.pop_back();
    }
    const i64 step = step_from_name(lines[0]);
    if (step < 0) return std::nullopt;
    Tip tip{{step, lines[1]}, {}};
    const io::Json lineage = io::json_or_null(lines[2]);
    if (lineage.is_array()) {
        tip.lineage = parsed(path, [&] { return lineage_from(lineage, path); });
    }
    return tip;
}

std::optional<i64> latest_step(const std::string& directory) {
    const std::optional<Tip> latest = read_latest(directory);
    return latest ? std::optional(latest->step.iteration) : std::nullopt;
}

void set_latest(const std::string& directory, const Tip& tip) {
    io::write_file(latest_path(directory),
                   fmt::format("{}\n{}\n{}", step_name(tip.step.iteration), tip.step.digest,
                               io::json_line(to_json(tip.lineage))),
                   io::Overwrite::yes);
}

std::optional<Checkpoint> open_if_any(const std::string& path, const Share& share) {
    const std::string directory = io::without_trailing_slashes(path);
    if (!io::checked::exists(directory)) return std::nullopt;
    if (!io::is_directory(directory))
        usage_error(directory, "is not a directory: give a checkpoint directory");
    if (is_step(directory)) return Checkpoint::open(directory, share);
    const Lineage lineage = read_lineage(directory);
    if (lineage.steps.empty() && lineage.unknown.empty()) {
        if (!io::checked::exists(latest_path(directory))) return std::nullopt;
        run_error(latest_path(directory),
                  "names no valid step, and the directory has no global_step* directory");
    }
    return open_first(directory, lineage.candidates(), reason_without_step(directory, lineage), {},
                      share);
}

Checkpoint open_other(const std::string& directory, const std::vector<i64>& damaged,
                      const std::string& reason, const Share& share) {
    const std::string plain = io::without_trailing_slashes(directory);
    const Lineage lineage = read_lineage(plain);
    return open_first(plain, lineage.candidates(), reason, damaged, share);
}

Checkpoint open(const std::string& path) {
    std::optional<Checkpoint> checkpoint = open_if_any(path);
    if (checkpoint) return *checkpoint;
    if (!io::exists(path)) usage_error(path, "does not exist: give a checkpoint directory");
    usage_error(path,
                "has no checkpoint: give a global_step* directory, or a directory that contains "
                "global_step* directories");
}

}  // namespace lm::ckpt
