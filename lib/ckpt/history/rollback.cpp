// SPDX-License-Identifier: Apache-2.0
#include "ckpt/history/rollback.hpp"

#include <algorithm>

#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/steps.hpp"
#include "io/file.hpp"

namespace lm::ckpt {

std::vector<i64> later_steps(const std::string& directory, i64 step) {
    std::vector<i64> later = steps_in(directory);
    std::erase_if(later, [&](i64 other) {
        return other <= step || !io::is_directory(directory + "/" + step_name(other));
    });
    return later;
}

Rollback roll_back(const std::string& directory, i64 step) {
    const auto checkpoint = Checkpoint::open(directory + "/" + step_name(step));
    const Tip tip = tip_of(checkpoint.manifest());
    Rollback result{claim(directory, tip), {}};
    set_latest(directory, tip);
    for (const i64 later : later_steps(directory, step)) {
        result.set_aside.push_back(
            set_aside(directory, step_name(later), result.generation.number));
    }
    return result;
}

}  // namespace lm::ckpt
