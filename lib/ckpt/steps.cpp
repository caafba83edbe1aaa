// SPDX-License-Identifier: Apache-2.0
#include "ckpt/steps.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"

namespace lm::ckpt {
namespace {

std::string latest_path(const std::string& directory) {
    return fmt::format("{}/{}", directory, latest_file);
}

std::string without_trailing_slash(std::string path) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    return path;
}

Checkpoint open_step(const std::string& directory, i64 step) {
    return Checkpoint::open(directory + "/" + step_name(step));
}

// Returns the steps to try when the step that `latest` names cannot be used. The steps before it
// come first, newest first, since later steps may belong to a run that was rolled back. Then the
// later steps follow, newest first.
std::vector<i64> fallback_order(const std::string& directory, std::optional<i64> latest) {
    std::vector<i64> steps = steps_in(directory);
    std::ranges::reverse(steps);
    if (!latest) return steps;
    std::erase(steps, *latest);
    std::ranges::stable_partition(steps, [&](i64 step) { return step < *latest; });
    return steps;
}

Checkpoint open_fallback(const std::string& directory, std::optional<i64> latest,
                         const std::string& reason, const std::vector<i64>& damaged = {}) {
    std::string first_reason = reason;
    for (const i64 step : fallback_order(directory, latest)) {
        if (std::ranges::find(damaged, step) != damaged.end()) continue;
        try {
            Checkpoint checkpoint = open_step(directory, step);
            warn("{}: using {} instead", first_reason, checkpoint.path());
            return checkpoint;
        } catch (const Error& error) {
            if (first_reason.empty()) first_reason = error.what();
        }
    }
    run_error(directory, "has no complete checkpoint: {}", first_reason);
}

}  // namespace

std::string step_name(i64 iteration) {
    return fmt::format("global_step{}", iteration);
}

i64 step_from_name(std::string_view name) {
    constexpr std::string_view prefix = "global_step";
    if (!name.starts_with(prefix)) return -1;
    name.remove_prefix(prefix.size());
    i64 step = -1;
    const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), step);
    const bool plain = error == std::errc() && end == name.data() + name.size();
    // Only the form of step_name() is valid: not "-1", not "007".
    return plain && step >= 0 && std::to_string(step) == name ? step : -1;
}

bool is_step(const std::string& given) {
    const std::string path = without_trailing_slash(given);
    const size_t slash = path.rfind('/');
    const std::string name = slash == path.npos ? path : path.substr(slash + 1);
    return step_from_name(name) >= 0 || io::exists(fmt::format("{}/{}", path, manifest_file));
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

std::optional<i64> latest_step(const std::string& directory) {
    if (!io::exists(latest_path(directory))) return std::nullopt;
    std::string text = io::read_file(latest_path(directory));
    while (!text.empty() && (text.back() == '\n' || text.back() == '\r')) text.pop_back();
    const i64 step = step_from_name(text);
    return step < 0 ? std::nullopt : std::optional(step);
}

void set_latest(const std::string& directory, i64 iteration) {
    io::write_file(latest_path(directory), step_name(iteration), io::Overwrite::yes);
}

std::optional<Checkpoint> open_if_any(const std::string& path) {
    const std::string directory = without_trailing_slash(path);
    if (!io::exists(directory)) return std::nullopt;
    if (!io::is_directory(directory))
        usage_error(directory, "is not a directory: give a checkpoint directory");
    if (is_step(directory)) return Checkpoint::open(directory);
    const std::optional<i64> latest = latest_step(directory);
    if (latest) {
        try {
            return open_step(directory, *latest);
        } catch (const Error& error) {
            return open_fallback(directory, latest, error.what());
        }
    }
    if (steps_in(directory).empty()) {
        if (!io::exists(latest_path(directory))) return std::nullopt;
        run_error(latest_path(directory),
                  "no valid step named, and no global_step* directory exists");
    }
    const std::string why = io::exists(latest_path(directory))
                                ? latest_path(directory) + ": no valid step named"
                                : directory + ": no file 'latest'";
    return open_fallback(directory, latest, why);
}

Checkpoint open_other(const std::string& directory, const std::vector<i64>& damaged,
                      const std::string& reason) {
    const std::string plain = without_trailing_slash(directory);
    return open_fallback(plain, latest_step(plain), reason, damaged);
}

Checkpoint open(const std::string& path) {
    std::optional<Checkpoint> checkpoint = open_if_any(path);
    if (checkpoint) return *checkpoint;
    if (!io::exists(path)) usage_error(path, "does not exist: give a checkpoint directory");
    usage_error(
        path, "has no checkpoint: give a directory with global_step* directories, or one of these");
}

}  // namespace lm::ckpt
