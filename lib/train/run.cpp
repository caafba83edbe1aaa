// SPDX-License-Identifier: Apache-2.0
#include "train/run.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>

#include "base/log.hpp"
#include "cli/signals.hpp"
#include "comm/watchdog.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"
#include "train/changes.hpp"
#include "train/gpu_memory.hpp"
#include "train/host_memory.hpp"
#include "train/loop.hpp"
#include "train/open_device.hpp"
#include "train/plan_text.hpp"
#include "train/run_data.hpp"

namespace lm::train {
namespace {

struct TrainingData {
    data::DataSets sets;
    io::OrderedJson identities;  // training_data(), for checkpoints; set on rank 0 only
};

// Opens the data on all ranks. Rank 0 compares it with the data of the checkpoint.
TrainingData open_data_together(const RunConfig& config,
                                const std::optional<ckpt::Checkpoint>& checkpoint,
                                comm::Group& world) {
    TrainingData data;
    parallel::together(world, [&] {
        const bool is_rank0 = world.rank() == 0;
        if (is_rank0) check_writable(config.checkpoints, config.logging);
        data.sets = open_data(config);
        if (!is_rank0) return;
        data.identities = training_data(config);
        if (checkpoint) check_changes(config, data.identities, *checkpoint);
    });
    return data;
}

void check_host_memory_together(const RunConfig& config, comm::Group& world) {
    const i64 ranks_here = parallel::ranks_on_host(world);
    parallel::together(world, [&] { check_host_memory(config, ranks_here); });
}

// Opens the device of this rank and checks that it has room for the memory plan, before anything is
// allocated.
std::unique_ptr<device::Device> open_device_with_room(const TrainerConfig& config,
                                                      comm::Group& world) {
    std::unique_ptr<device::Device> device = open_device(config, world);
    parallel::together(world, [&] {
        if (!config.cuda) return;
        require_room(config, parallel::coordinates_of(config.parallel, world.rank()), *device);
    });
    return device;
}

void report_device(const RunConfig& config, Trainer& trainer, device::Device& device,
                   comm::Group& world) {
    if (!config.trainer.cuda) return;
    if (world.rank() == 0) note("device: {}", device.name());
    compare_with_driver(gpu_memory(config.trainer, trainer.grid().at, device), device.name());
}

// On SIGUSR2, the watchdog prints this rank's last events at once, even while the rank waits for
// another one. The loop adds its own line later.
comm::WatchdogOptions watchdog_options(double quiet_s, const comm::Group& world,
                                       std::atomic<bool>& dump_requested) {
    return {
        .timeout_s = quiet_s,
        .dump_requested =
            [&dump_requested] {
                const bool requested = cli::consume_dump_request();
                if (requested) dump_requested = true;
                return requested;
            },
        .report = [&world](const std::string& line) { note("rank {}: {}", world.rank(), line); }};
}

}  // namespace

void catch_signals() {
    cli::install_stop_signals(cli::Sigterm::never_at_once);
    cli::install_dump_signal();
    cli::ignore_sigpipe();
}

Exit run(const RunConfig& config, comm::Group& world, comm::FlightRecorder& recorder,
         double quiet_s) {
    const bool is_rank0 = world.rank() == 0;

    // Usage errors are found before memory is allocated.
    std::optional<ckpt::Checkpoint> checkpoint = open_checkpoint(config, world);
    const TrainingData data = open_data_together(config, checkpoint, world);
    if (is_rank0) std::fputs(describe_plan(config, data.sets).c_str(), stderr);
    check_host_memory_together(config, world);

    const std::unique_ptr<device::Device> device = open_device_with_room(config.trainer, world);
    parallel::Grid grid = connect(config.trainer, *device, world, quiet_s);
    Trainer trainer = Trainer::allocate(config.trainer, *device, std::move(grid));
    trainer.warm_up();

    recorder.enter("start");
    // start() gets the only copy of `checkpoint`, so that its files are closed before pruning may
    // remove them.
    const Progress progress = start(config, data.identities, std::move(checkpoint), world, trainer);

    data::Loader loader(*data.sets.train, config.batch_options(), progress.done.samples,
                        config.trainer.parallel.dp, trainer.grid().at.dp);
    TrainingLog log(config, is_rank0);
    log.open(progress.done);
    log.restore(progress.interval);
    std::atomic<bool> dump_requested = false;
    const comm::Watchdog watchdog(recorder, watchdog_options(quiet_s, world, dump_requested));
    report_device(config, trainer, *device, world);
    trainer.record_to(&recorder);

    TrainingLoop loop({.config = config,
                       .data = data.sets,
                       .data_identities = data.identities,
                       .world = world,
                       .recorder = recorder,
                       .device = *device,
                       .trainer = trainer,
                       .loader = loader,
                       .log = log,
                       .dump_requested = dump_requested},
                      progress);
    loop.prepare_saves();
    return loop.run();
}

}  // namespace lm::train
