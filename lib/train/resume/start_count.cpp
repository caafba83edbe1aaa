// SPDX-License-Identifier: Apache-2.0
#include "train/resume/start_count.hpp"

#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/path.hpp"
#include "train/config/run_json.hpp"

namespace lm::train {
namespace {

std::string start_count_path(const std::string& directory) {
    return fmt::format("{}/{}", directory, start_count_file);
}

// Returns the canonical path of a directory that need not exist.
std::string canonical_path(const std::string& path) {
    if (path.empty()) return {};
    std::error_code ignored;
    return io::without_trailing_slashes(
        std::filesystem::weakly_canonical(std::filesystem::absolute(path, ignored), ignored)
            .string());
}

// Returns whether the last start was another process of this host and that process still exists. A
// process of another host counts as ended.
bool last_start_runs(const io::Json& count) {
    const auto process = static_cast<pid_t>(count.value("process", i64{0}));
    if (count.value("host", std::string()) != host_name() || process <= 0) return false;
    return process != ::getpid() && (::kill(process, 0) == 0 || errno != ESRCH);
}

// Returns the number of earlier starts from the step at `iteration` with the digest
// `configuration`; 0 when the file is missing or unreadable. A start whose process still runs is
// not counted, because it has not failed. The new start supersedes it.
i64 earlier_starts(const std::string& path, i64 iteration, const std::string& configuration) {
    try {
        if (!io::exists(path)) return 0;
        const io::Json count = io::read_json(path);
        const bool same = count.at("iteration").get<i64>() == iteration &&
                          count.at("configuration").get<std::string>() == configuration;
        return same ? count.at("starts").get<i64>() - (last_start_runs(count) ? 1 : 0) : 0;
    } catch (const std::exception&) {
        return 0;
    }
}

}  // namespace

std::string digest_for_count(const RunConfig& config) {
    io::OrderedJson flags = to_json(config);
    for (const char* key :
         {"stopping", "logging", "command_line", "parallel", "threads", "memory_bytes"}) {
        flags.erase(key);
    }
    flags["schedule"].erase("micro_batch_size");
    for (const char* key : {"save", "load", "local_save"}) {
        io::OrderedJson& path = flags["checkpoints"][key];
        path = canonical_path(path.get<std::string>());
    }
    // A path may contain bytes that are not UTF-8.
    return digest(flags.dump(-1, ' ', false, io::OrderedJson::error_handler_t::replace));
}

void count_start(const std::string& directory, i64 iteration, const std::string& configuration) {
    const std::string path = start_count_path(directory);
    const i64 earlier = earlier_starts(path, iteration, configuration);
    if (earlier + 1 >= max_starts_without_step) {
        fail(Exit::self_stopped, path,
             "{} starts in a row after iteration {} saved no new step: find the cause in their "
             "logs, then remove this file",
             earlier, iteration);
    }
    const io::OrderedJson count = {{"iteration", iteration},
                                   {"starts", earlier + 1},
                                   {"configuration", configuration},
                                   {"host", host_name()},
                                   {"process", ::getpid()}};
    try {
        io::make_directories(directory);
        for (const std::string& old : io::stale_temporaries(path)) io::remove_tree(old);
        io::write_file(path, count.dump() + "\n", io::Overwrite::yes);
    } catch (const std::exception& error) {
        warn("{}: this start does not count among the starts that save no new step", error.what());
    }
}

void end_start_count(const std::string& directory) {
    std::error_code ignored;
    std::filesystem::remove(start_count_path(directory), ignored);
}

}  // namespace lm::train
