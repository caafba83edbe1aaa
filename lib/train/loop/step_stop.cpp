// SPDX-License-Identifier: Apache-2.0
#include "train/loop/step_stop.hpp"

#include <fmt/format.h>

#include <cmath>
#include <string>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/types.hpp"
#include "base/units.hpp"
#include "cli/signals.hpp"

namespace lm::train {
namespace {

// Ranks exchange their stop requests about once in this interval. The exchange takes less than
// 0.1 % of the interval.
constexpr double check_interval_s = 0.2;

// Returns the end of the note about the first stop signal. Follows cli::Sigterm::after_10_s. After
// SIGUSR1 and SIGHUP, which batch systems send, the text is empty: the next SIGINT or SIGTERM then
// counts as the first.
std::string how_to_end_at_once(std::string_view signal) {
    if (signal != "SIGINT" && signal != "SIGTERM") return "";
    return fmt::format("; {} Ctrl-C, or a SIGTERM after 10 s, ends the run without a save",
                       signal == "SIGINT" ? "a second" : "a");
}

}  // namespace

StepStop::StepStop(const RunConfig& config, comm::Group& world)
    : world_(world), can_end_(config.trainer.parallel.pp == 1), cuda_(config.trainer.cuda) {
    if (world.rank() != 0) return;
    cli::on_stop_signal([this](std::string_view signal) { report(signal); });
}

StepStop::~StepStop() {
    if (world_.rank() == 0) cli::on_stop_signal(nullptr);
}

void StepStop::begin_iteration(double step_s, i64 n_micro_batches) {
    const bool known = step_s > 0;
    can_end_step_ = can_end_ && (world_.size() == 1 || known || !cuda_);
    iteration_ends_s_ = known ? monotonic_s() + step_s : 0;
    micro_batch_ = 0;
    check_every_ = 1;
    if (world_.size() == 1 || !known) return;
    const double micro_batch_s = step_s / as_double(n_micro_batches);
    check_every_ = static_cast<i64>(std::ceil(check_interval_s / micro_batch_s));
}

bool StepStop::ends_step() {
    if (!can_end_step_ || micro_batch_++ % check_every_ != 0) return false;
    double requested = cli::stop_requested() == cli::StopRequest::none ? 0 : 1;
    if (world_.size() > 1) {
        world_.all_reduce({&requested, DType::fp64, {1}}, comm::Reduction::max);
    }
    return requested != 0;
}

void StepStop::report(std::string_view signal) const {
    const double ends_s = iteration_ends_s_;
    const std::string remedy = how_to_end_at_once(signal);
    if (can_end_step_) {
        note("{}: stopping after this micro-batch{}", signal, remedy);
    } else if (ends_s > monotonic_s()) {
        note("{}: stopping after this iteration, in about {}{}", signal,
             human_duration(ends_s - monotonic_s()), remedy);
    } else {
        note("{}: stopping after this iteration{}", signal, remedy);
    }
}

}  // namespace lm::train
