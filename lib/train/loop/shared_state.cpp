// SPDX-License-Identifier: Apache-2.0
#include "train/loop/shared_state.hpp"

#include <array>

namespace lm::train {

LoopState shared_state(comm::Group& world, const LoopState& own) {
    LoopState all = own;
    const std::array flags{&all.stop_signal, &all.kill_switch, &all.save_switch, &all.writing,
                           &all.retaining};
    const std::array times{&all.elapsed_s, &all.unix_s, &all.evaluation_s,
                           &all.save_s,    &all.step_s, &all.job_end_unix_s};
    std::array<double, flags.size() + times.size()> numbers;
    for (size_t i = 0; i < flags.size(); ++i) numbers[i] = *flags[i] ? 1 : 0;
    for (size_t i = 0; i < times.size(); ++i) numbers[flags.size() + i] = *times[i];
    world.all_reduce({numbers.data(), DType::fp64, {std::ssize(numbers)}}, comm::Reduction::max);
    for (size_t i = 0; i < flags.size(); ++i) *flags[i] = numbers[i] != 0;
    for (size_t i = 0; i < times.size(); ++i) *times[i] = numbers[flags.size() + i];
    return all;
}

}  // namespace lm::train
