// SPDX-License-Identifier: Apache-2.0
#include "train/loop/stops.hpp"

#include <algorithm>
#include <array>

#include "base/clock.hpp"
#include "cli/signals.hpp"
#include "cost/formulas.hpp"
#include "io/file.hpp"

namespace lm::train {
namespace {

// Returns the expected time of the first save in seconds: at 50 MB/s for each rank, and at least
// 2 s.
double first_save_s(const RunConfig& config) {
    const TrainerConfig& trainer = config.trainer;
    const auto bytes =
        static_cast<double>(cost::checkpoint_size(trainer.model, trainer.precision).total());
    // Creating and renaming the files takes this long on a busy file system, whatever their size.
    constexpr double least_s = 2;
    const auto n_ranks = static_cast<double>(trainer.parallel.n_ranks());
    return std::max(least_s, bytes / 50e6 / n_ranks);
}

PhaseEstimates first_estimates(const RunConfig& config, const data::DataSets& data) {
    const double forward_passes =
        static_cast<double>(config.validation.iters) * static_cast<double>(data.valid.size());
    const auto evaluation_tokens =
        static_cast<double>(config.validation_batch() * config.trainer.model.seq_length);
    return {first_save_s(config), forward_passes, evaluation_tokens};
}

// Returns the combination of the `own` states of all ranks. A flag is true if it is true on any
// rank. A time is the largest of all ranks. `done`, `run_iterations` and `finished` are already
// equal on all ranks, and are copied from `own`. Collective.
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

}  // namespace

Stops::Stops(const LoopParts& parts, const LoopRules& rules)
    : parts_(parts),
      rules_(rules),
      step_(parts.config, parts.world),
      estimates_(first_estimates(parts.config, parts.data)) {}

LoopState Stops::state(const LoopState& own) {
    LoopState now = shared_state(parts_.world, seen_here(own));
    step_s_ = now.step_s;
    if (now.writing) now.save_s *= 2;  // the last save first waits for the pending save
    return now;
}

bool Stops::must_end_evaluation(const spec::Counters& done) const {
    return should_end_evaluation(rules_, seen_here({.done = done, .run_iterations = 1})) !=
           Stop::no;
}

// Returns `state` with the times, signals and switch files that this rank sees.
LoopState Stops::seen_here(LoopState state) const {
    const spec::Schedule& schedule = parts_.config.schedule;
    const config::StoppingFlags& stopping = parts_.config.stopping;
    if (parts_.is_rank0()) {
        state.elapsed_s = parts_.since_start.elapsed_s();
        state.unix_s = unix_time_s();
        state.job_end_unix_s = parts_.job_end.unix_s();
    }
    state.evaluation_s = estimates_.evaluation_s();
    state.save_s = rules_.saves ? estimates_.save_s() : 0.0;
    state.step_s = estimates_.step_s(
        static_cast<double>(schedule.batch(state.done) * schedule.seq_length(state.done)));
    state.finished = schedule.finished(state.done);
    state.stop_signal = cli::stop_requested() != cli::StopRequest::none;
    state.kill_switch = present_on_rank0(stopping.kill_switch);
    state.save_switch = present_on_rank0(stopping.save_switch);
    return state;
}

bool Stops::present_on_rank0(const std::string& file) const {
    return parts_.is_rank0() && !file.empty() && io::exists(file);
}

}  // namespace lm::train
