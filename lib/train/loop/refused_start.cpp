// SPDX-License-Identifier: Apache-2.0
#include "train/loop/refused_start.hpp"

#include <fmt/ranges.h>

#include <functional>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/launcher.hpp"
#include "base/problem_list.hpp"
#include "base/units.hpp"
#include "io/json.hpp"
#include "metrics/line_file.hpp"
#include "metrics/record.hpp"

namespace lm::train {
namespace {

// Opens the file at `path` to append to it, and runs `write`; does nothing if `path` is empty.
// Ignores an error of writing, because the program also prints the error of the start to stderr.
void append_to(const std::string& path,
               const std::function<void(metrics::LineFile& file)>& write) noexcept {
    if (path.empty()) return;
    try {
        metrics::LineFile file = metrics::LineFile::open(path);
        write(file);
    } catch (const std::exception&) {
    }
}

}  // namespace

void log_refused_start(const config::LoggingFlags& logging, const Error& error) noexcept {
    const double now = unix_time_s();
    const std::vector<std::string_view> problems = problems_in(error.what());
    append_to(logging.file, [&](metrics::LineFile& file) {
        for (const std::string_view problem : problems) {
            file.write(fmt::format("{} lm-train: {}", iso_time(static_cast<i64>(now)), problem));
        }
    });
    append_to(logging.json, [&](metrics::LineFile& file) {
        const char* const nodes = environment_of_process("SLURM_JOB_NODELIST");
        const metrics::RunOrigin origin = {
            .job = slurm_job(), .nodes = nodes == nullptr ? "" : nodes, .generation = {}};
        file.write(metrics::to_json({"error", origin, now},
                                    {{"exit_code", static_cast<int>(error.code())},
                                     {"reason", fmt::format("{}", fmt::join(problems, "; "))}}));
    });
}

}  // namespace lm::train
