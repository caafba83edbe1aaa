// SPDX-License-Identifier: Apache-2.0
#include "train/loop.hpp"

#include <fmt/format.h>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cli/main.hpp"
#include "cli/signals.hpp"
#include "cpu/cpu.hpp"
#include "io/file.hpp"
#include "metrics/log_line.hpp"
#include "train/resume.hpp"
#include "train/rules.hpp"

namespace lm::train {
namespace {

class Run {
  public:
    explicit Run(const RunConfig& config)
        : config_(config),
          data_(open_data(config)),
          device_(cpu::make_device(config.trainer.n_threads)),
          trainer_(config.trainer, *device_),
          progress_(start(config, trainer_)),
          loader_(*data_.train, config.batch, progress_.done.samples) {}

    Exit go() {
        cli::install_stop_signals();
        cli::ignore_sigpipe();
        const Rules rules(config_.output, progress_.done);
        while (!config_.schedule.finished(progress_.done)) {
            iterate();
            const Situation now = situation();
            if (rules.log(now)) log();
            const Stop stop = rules.stop(now);
            if (rules.save(now) || stop.save) save();
            if (rules.evaluate(now)) validate();
            if (stop.now) return leave(stop);
        }
        return finish();
    }

  private:
    void iterate() {
        const Stopwatch watch;
        const i64 batch = config_.schedule.batch(progress_.done);
        const i64 n_micro_batches = batch / config_.trainer.micro_batch;
        const double rate = config_.schedule.rate(progress_.stepped_samples, progress_.stepped_tokens);
        const StepResult result =
            trainer_.step([this]() -> const data::Batch& { return loader_.next(); }, n_micro_batches, rate);
        if (!result.updated) stop_at_non_finite(result);
        progress_.advance(config_.schedule.next(progress_.done));
        interval_.add(result, watch.elapsed_s());
    }

    RunConfig config_;
    data::DataSets data_;
    std::unique_ptr<device::Device> device_;
    Trainer trainer_;
    Progress progress_;
    data::Loader loader_;
};

}  // namespace
}  // namespace lm::train
