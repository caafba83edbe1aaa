// SPDX-License-Identifier: Apache-2.0
#include "ckpt/history/run_logs.hpp"

#include <glob.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include "base/error.hpp"
#include "base/log.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/steps.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/directory.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/path.hpp"
#include "metrics/event_file.hpp"
#include "metrics/log_parser.hpp"
#include "metrics/tensorboard.hpp"

namespace lm::ckpt {
namespace {

bool is_event_file(std::string_view name) {
    return name.find("tfevents") != name.npos;
}

bool is_log(std::string_view name) {
    constexpr std::array<std::string_view, 4> endings{".log", ".out", ".err", ".jsonl"};
    const bool is_named_log = name == "log" || name == "log.json";  // names of share/slurm
    return is_named_log || is_event_file(name) ||
           std::ranges::any_of(endings,
                               [&](std::string_view ending) { return name.ends_with(ending); });
}

void add_below(const std::string& directory, const std::string& prefix,
               std::vector<RunLog>& found) {
    for (const std::string& name : io::list_directory(directory)) {
        const bool own = step_from_name(name) >= 0 || name.starts_with(abandoned_prefix) ||
                         name.find(".tmp.") != name.npos;
        if (own) continue;
        const std::string path = directory + "/" + name;
        // Skips links: their targets are not files of `directory`, and links may form a cycle.
        std::error_code ignored;
        if (std::filesystem::is_symlink(path, ignored)) continue;
        if (io::is_directory(path)) {
            add_below(path, prefix + name + "/", found);
        } else if (is_log(name)) {
            found.push_back({path, prefix + name});
        }
    }
}

// Logs in different directories may have equal names. Replaces equal names by the whole paths, such
// as "a/x.log" and "b/x.log".
void separate_names(std::vector<RunLog>& logs) {
    std::map<std::string, int> n_logs;
    for (const RunLog& log : logs) ++n_logs[log.name];
    for (RunLog& log : logs) {
        if (n_logs[log.name] < 2) continue;
        const auto path = std::filesystem::absolute(log.path).lexically_normal();
        log.name = path.relative_path().string();
    }
}

std::vector<std::string> matches_of(const std::string& pattern) {
    glob_t matches{};
    const int code = ::glob(pattern.c_str(), 0, nullptr, &matches);
    std::vector<std::string> paths(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
    ::globfree(&matches);
    if (code != 0) usage_error("--logs", "{}: matches no file: check the pattern", pattern);
    return paths;
}

// Adds the log `path`, or the logs below this directory. Follows a link of the user; another user
// may have planted any other link to a file of this user.
void add_matching(const std::string& match, std::vector<RunLog>& found) {
    const std::string path = io::without_trailing_slashes(match);
    try {
        const std::string target = io::checked::target_of_own_links(path);
        if (io::is_directory(target)) return add_below(target, io::base_name(path) + "/", found);
        found.push_back({target, io::base_name(path)});
    } catch (const Error& error) {
        warn("--logs: {}", error.what());
    }
}

// Returns the number after `text` in a line, as in "validation loss at iteration 20 |".
std::optional<i64> number_of_text(std::string_view line, std::string_view text) {
    const size_t at = line.find(text);
    if (at == line.npos) return std::nullopt;
    const std::string_view rest = line.substr(at + text.size());
    i64 number = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    return error == std::errc() ? std::optional(number) : std::nullopt;
}

std::optional<i64> iteration_of(std::string_view line) {
    if (line.starts_with('{')) {
        const io::Json object = io::json_or_null(line);
        if (!object.is_object()) return std::nullopt;
        const auto found = object.find("iteration");
        const bool integer = found != object.end() && found->is_number_integer();
        return integer ? std::optional(found->get<i64>()) : std::nullopt;
    }
    const metrics::LogLine read = metrics::parse_log_line(line);
    if (const auto* logged = read.iteration()) return logged->iteration;
    return number_of_text(line, "at iteration ");
}

std::string lines_until(std::string_view text, i64 step) {
    std::string kept;
    bool dropping = false;
    for (size_t begin = 0; begin < text.size();) {
        const size_t end = std::min(text.find('\n', begin), text.size() - 1) + 1;
        const std::string_view line = text.substr(begin, end - begin);
        begin = end;
        if (const std::optional<i64> iteration = iteration_of(line)) dropping = *iteration > step;
        if (!dropping) kept += line;
    }
    return kept;
}

// Returns the last position on the x axis (iteration, samples, ...) that the TensorBoard file
// `path` keeps. The directory of the file determines the unit of this axis.
i64 last_position(const std::string& path, const LogCut& cut) {
    const auto is_below = [whole = "/" + path](std::string_view directory) {
        return whole.find(directory) != whole.npos;
    };
    if (is_below("/vs-samples/")) return cut.samples;
    if (is_below("/vs-tokens/")) return cut.tokens;
    return is_below("/vs-gigaflos/") ? cut.gigaflos : cut.iteration;
}

std::string records_until(std::string_view text, i64 step) {
    std::string kept;
    for (const metrics::EventRecord& record : metrics::event_records(text)) {
        if (record.step <= step) kept += record.bytes;
    }
    return kept;
}

}  // namespace

std::vector<RunLog> logs_below(const std::string& directory) {
    std::vector<RunLog> found;
    add_below(directory, "", found);
    return found;
}

void check_patterns(const std::vector<std::string>& patterns) {
    for (const std::string& pattern : patterns) (void)matches_of(pattern);
}

std::vector<RunLog> logs_matching(const std::vector<std::string>& patterns) {
    std::vector<RunLog> found;
    for (const std::string& pattern : patterns) {
        for (const std::string& path : matches_of(pattern)) add_matching(path, found);
    }
    separate_names(found);
    return found;
}

LogCut cut_after(const Manifest& step) {
    const double gigaflos = metrics::gigaflos_per_sample(step.model);
    return {.iteration = step.counters.iteration,
            .samples = step.counters.consumed_samples,
            .tokens = step.counters.consumed_tokens,
            .gigaflos =
                static_cast<i64>(gigaflos * static_cast<double>(step.counters.consumed_samples))};
}

bool cut_log(const RunLog& log, const LogCut& cut, const std::string& aside) {
    const std::string text = io::read_file(log.path, INT64_MAX, io::Links::refuse);
    const std::string kept = is_event_file(log.name)
                                 ? records_until(text, last_position(log.path, cut))
                                 : lines_until(text, cut.iteration);
    if (kept.size() == text.size()) return false;
    // After a crash between the two writes, both the uncut log and its copy exist.
    const auto copies = io::make_directories_in(
        io::parent_of(aside), io::base_name(aside) + "/" + io::parent_of(log.name));
    io::write_file(copies / io::base_name(log.name), text, io::Overwrite::yes);
    io::write_file(log.path, kept, io::Overwrite::yes);
    return true;
}

}  // namespace lm::ckpt
