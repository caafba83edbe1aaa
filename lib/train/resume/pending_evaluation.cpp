// SPDX-License-Identifier: Apache-2.0
#include "train/resume/pending_evaluation.hpp"

#include <filesystem>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::train {
namespace {

std::string evaluation_path(const std::string& directory) {
    return fmt::format("{}/{}", directory, pending_evaluation_file);
}

// Returns the iteration in the file at `path`; -1 when the file does not exist or is unreadable.
i64 iteration_in(const std::string& path) {
    try {
        if (!io::exists(path)) return -1;
        return io::json_get<i64>(io::read_json(path), "iteration", path);
    } catch (const std::exception& error) {
        warn("{}: the pending evaluation is skipped: {}", path, error.what());
        return -1;
    }
}

}  // namespace

bool evaluation_is_pending(comm::Group& world, const std::string& directory, i64 iteration) {
    i64 pending =
        world.rank() == 0 && !directory.empty() ? iteration_in(evaluation_path(directory)) : -1;
    world.broadcast({&pending, DType::int64, {1}}, 0);
    return pending == iteration && iteration > 0;
}

void mark_pending_evaluation(const std::string& directory, i64 iteration) {
    const io::OrderedJson json = {{"iteration", iteration}};
    try {
        io::write_file(evaluation_path(directory), json.dump() + "\n", io::Overwrite::yes);
    } catch (const std::exception& error) {
        warn(
            "{}: {}: when a stop or a failure interrupts the validation after iteration {}, the "
            "resumed run does not repeat it",
            evaluation_path(directory), error.what(), iteration);
    }
}

void end_pending_evaluation(const std::string& directory) {
    std::error_code ignored;
    std::filesystem::remove(evaluation_path(directory), ignored);
}

}  // namespace lm::train
