// SPDX-License-Identifier: Apache-2.0
#include "train/loop/pending_evaluation.hpp"

#include <filesystem>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::train {
namespace {

std::string path_in(const std::string& directory) {
    return fmt::format("{}/{}", directory, pending_evaluation_file);
}

// Returns the iteration that the file names and removes the file; -1: there is none.
i64 consume(const std::string& path) {
    try {
        if (!io::exists(path)) return -1;
        const i64 iteration = io::Json::parse(io::read_file(path)).at("iteration").get<i64>();
        std::filesystem::remove(path);
        return iteration;
    } catch (const std::exception& error) {
        warn("{}: the pending evaluation is skipped: {}", path, error.what());
        return -1;
    }
}

}  // namespace

bool consume_pending_evaluation(comm::Group& world, const std::string& directory, i64 iteration) {
    i64 pending = world.rank() == 0 && !directory.empty() ? consume(path_in(directory)) : -1;
    world.broadcast({&pending, DType::int64, {1}}, 0);
    return pending == iteration && iteration > 0;
}

void mark_pending_evaluation(const std::string& directory, i64 iteration) {
    const io::OrderedJson json = {{"iteration", iteration}};
    try {
        io::write_file(path_in(directory), json.dump() + "\n", io::Overwrite::yes);
    } catch (const std::exception& error) {
        warn(
            "{}: {}: the validation after iteration {}, which the stop interrupted, will not be in "
            "the log",
            path_in(directory), error.what(), iteration);
    }
}

}  // namespace lm::train
