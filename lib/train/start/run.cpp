// SPDX-License-Identifier: Apache-2.0
#include "train/start/run.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <functional>
#include <memory>
#include <optional>
#include <set>

#include "base/clock.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/units.hpp"
#include "cli/signals.hpp"
#include "comm/flight_dump.hpp"
#include "comm/watchdog.hpp"
#include "cost/peak_flops.hpp"
#include "data/sampling/batch.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/pipe_wait.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"
#include "train/config/run_data.hpp"
#include "train/config/run_json.hpp"
#include "train/loop/job_end.hpp"
#include "train/loop/loop.hpp"
#include "train/loop/loop_rules.hpp"
#include "train/resume/changes.hpp"
#include "train/resume/pending_evaluation.hpp"
#include "train/resume/start_count.hpp"
#include "train/start/check_start.hpp"
#include "train/start/host_memory.hpp"
#include "train/start/node_check.hpp"
#include "train/start/open_device.hpp"
#include "train/start/plan_text.hpp"
#include "train/start/product_speed.hpp"
#include "train/step/trainer.hpp"
#include "train/step/training_memory.hpp"

namespace lm::train {
namespace {

struct TrainingData {
    data::DataSets sets;
    io::OrderedJson identities;  // result of training_data(), for checkpoints; set on rank 0 only
};

// Keeps the special ids of an imported model for its export, unless the data has another end of
// document.
void keep_special_ids(const ckpt::TokenizerInfo& loaded, ckpt::TokenizerInfo& tokenizer) {
    const i64 end = tokenizer.end_of_document;
    std::vector<i64> eos = loaded.config.eos;
    eos.insert(eos.end(), loaded.generation_config.eos.begin(), loaded.generation_config.eos.end());
    if (end >= 0 && !eos.empty() && std::ranges::count(eos, end) == 0) return;
    tokenizer.config = loaded.config;
    tokenizer.generation_config = loaded.generation_config;
}

// Reads on rank 0, which saves them, the files of the tokenizer. They are no reason to end a run.
void read_tokenizer(RunConfig& config, const std::optional<ckpt::Checkpoint>& checkpoint) {
    try {
        if (checkpoint) keep_special_ids(checkpoint->manifest().tokenizer, config.tokenizer);
        config.tokenizer.files = tokenizer_files(config, checkpoint);
    } catch (const Error& error) {
        warn("{}: the steps of this run do not store the tokenizer", error.what());
    }
}

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

// Checks that the GPU of each rank has enough free memory for the memory plan. Call it before
// anything is allocated.
void require_room_together(const TrainerConfig& config, device::Device& device,
                           comm::Group& world) {
    if (!config.cuda) return;
    parallel::together(world, [&] {
        require_room(config, spec::coordinates_of(config.parallel, world.rank()), device);
    });
}

void report_device(const RunConfig& config, Trainer& trainer, device::Device& device,
                   comm::Group& world, TrainingLog& log) {
    if (!config.trainer.cuda) return;
    const auto peak = cost::peak_flops(device.name(), config.trainer.precision.weights);
    if (peak) log.set_peak_flops(*peak);
    if (world.rank() == 0) {
        note("device: {}{}", device.name(),
             peak ? fmt::format(": MFU is relative to its peak of {:.0f} TFLOP/s in {}",
                                *peak / 1e12, name_of(config.trainer.precision.weights))
                  : ": no MFU: the peak of this device is unknown");
    }
    compare_with_driver(gpu_memory(config.trainer, trainer.grid().at, device), device.name());
}

StatusSettings status_settings(const RunConfig& config, const comm::Group& world,
                               double timeout_s) {
    return {.path = config.logging.status_file,
            .save = config.checkpoints.save,
            .total_iterations = config.schedule.total_iterations(),
            .log_interval = config.logging.interval,
            .n_ranks = world.size(),
            .timeout_s = timeout_s};
}

// Names this rank and the run in the flight recorder, and chooses the directory of its dumps. Each
// start has its own directory below --save. Collective.
void prepare_recorder(const RunConfig& config, comm::Group& world, comm::FlightRecorder& recorder) {
    i64 start_s = world.rank() == 0 ? static_cast<i64>(unix_time_s()) : 0;
    i64 salt = world.rank() == 0 ? getpid() : 0;  // two runs may start in one second
    world.broadcast({&start_s, DType::int64, {1}}, 0);
    world.broadcast({&salt, DType::int64, {1}}, 0);
    recorder.identify(world.rank(), world.size(), start_s * 10'000'000 + salt);
    if (config.checkpoints.save.empty()) return;
    recorder.set_dump_directory(
        fmt::format("{}/flight-recorder/{}-{}", config.checkpoints.save, start_s, salt));
}

// Ends this process, and thereby the job. If another rank of this host was stopped (SIGSTOP) inside
// an MPI call, it may hold a queue in shared memory. This rank then spins on the queue and never
// reaches its own timeout. MPI_Abort may also spin, so it is not called.
[[noreturn]] void end_stuck_rank(const comm::Group& world, const comm::FlightRecorder& recorder,
                                 double waited_s) {
    const std::string stopped = comm::stopped_ranks_on_host(recorder);
    warn("rank {}: timed out after {:.0f} s inside an MPI call; {}; state of this rank: {}",
         world.rank(), waited_s, stopped.empty() ? "no rank of this host is stopped" : stopped,
         recorder.where());
    std::_Exit(static_cast<int>(Exit::failure));
}

// On SIGUSR2, the watchdog dumps this rank's last events at once, even while this rank waits for
// another rank. It also sets `dump_requested`, for which the loop prints a line later.
comm::WatchdogOptions watchdog_options(double quiet_s, const comm::Group& world,
                                       comm::FlightRecorder& recorder,
                                       std::atomic<bool>& dump_requested) {
    return {
        .timeout_s = quiet_s,
        .dump_requested =
            [&dump_requested] {
                const bool requested = cli::consume_dump_request();
                if (requested) dump_requested = true;
                return requested;
            },
        .report = [&world](const std::string& line) { note("rank {}: {}", world.rank(), line); },
        .write_dump = [&recorder] { return comm::write_dumps(recorder); },
        .end_stuck = [&world,
                      &recorder](double waited_s) { end_stuck_rank(world, recorder, waited_s); }};
}

bool counts_starts(const RunConfig& config) {
    return !config.checkpoints.save.empty() && !config.action.benchmark;
}

// Counts this start in --save. Throws when the two previous starts from this step have saved no
// newer step (count_start()). Collective.
void count_start_together(const RunConfig& config, const std::optional<ckpt::Checkpoint>& from,
                          comm::Group& world) {
    if (!counts_starts(config)) return;
    parallel::together(world, [&] {
        if (world.rank() != 0) return;
        count_start(config.checkpoints.save, from ? from->manifest().counters.iteration : 0,
                    digest_for_count(config));
    });
}

// With --exit-before-limit, returns the end of the batch job if it is known. Collective.
std::optional<JobEnd> find_job_end(const RunConfig& config, comm::Group& world) {
    if (!config.saves.before_limit_s) return {};
    const std::optional<JobEnd> end = job_end_together(world);
    if (end && world.rank() == 0) {
        note(
            "{}: the job ends in {}: the run saves and stops before that time (--exit-before-limit "
            "{})",
            end->source, human_duration(end->unix_s - unix_time_s()),
            config.stopping.exit_before_limit);
    }
    return end;
}

// Returns the speed of this rank's GPU in 1e12 operations/s; an empty list on a CPU or after an
// error. An error is only a warning, because the node check must not end a training.
std::vector<double> own_product_tflops(const TrainerConfig& config, device::Device& device,
                                       const comm::Group& world) {
    if (!config.cuda) return {};
    try {
        const i64 tp = spec::coordinates_of(config.parallel, world.rank()).tp;
        return {product_tflops(device, config, tp)};
    } catch (const Error& error) {
        warn("{}: the matrix products of this GPU are not measured", error.what());
        return {};
    }
}

// Prints the devices. If the job has several hosts, warns of hosts that differ from the other
// hosts. Collective.
void describe_and_check_hosts(const RunConfig& config, device::Device& device,
                              const std::vector<std::string>& hosts, comm::Group& world,
                              TrainingLog& log) {
    std::string devices = describe_devices(device, world);
    if (config.trainer.cuda) {
        parallel::together(
            world, [&] { devices += describe_cuda(cuda_plugin().libraries(world.size())); });
    }
    if (world.rank() == 0) log.plan(devices);
    const bool on_one_host =
        std::ranges::count(hosts, hosts.front()) == static_cast<std::ptrdiff_t>(hosts.size());
    if (!config.rank_checks.node_check || on_one_host) return;
    const config::CheckpointFlags& flags = config.checkpoints;
    check_hosts(world, existing_directories({flags.save, flags.local_save}), flags.save,
                own_product_tflops(config.trainer, device, world));
}

// Trial steps on a GPU. Before the GPUs of the ranks are connected, each rank runs the steps of its
// place in the layout alone, on groups without other members. This is necessary because the first
// use of an algorithm of cuBLASLt or of a plan of cuDNN may load code into the GPU, and loading may
// wait until the GPU is idle. In a pipeline step the GPU may never become idle, because it waits
// for a message that depends on this rank, so the job would hang.

// The kinds of steps that a run makes.
struct TrialSteps {
    std::vector<i64> seq_lengths;      // sequence lengths of its training steps
    i64 fewest_micro_batches = 1;      // micro-batches of the smallest step on a data-parallel rank
    data::BatchOptions batch_options;  // the optional fields of its micro-batches
};

// Returns the numbers of micro-batches of the trial steps, a small and a large number. The first, a
// middle and the last micro-batch of a step differ in the SMs that collectives reserve, and in
// whether they add to earlier gradients, so the large number is at least 3 if the run has such
// steps. A step of one micro-batch is another case, because the micro-batch is both the first and
// the last. With interleaved stages, the number is a multiple of the number of stages.
std::set<i64> trial_counts(const TrainerConfig& config, i64 fewest) {
    const i64 unit = config.parallel.n_chunks > 1 ? config.parallel.pp : 1;
    const i64 most = std::min(config.n_micro_batches, round_up(3, unit));
    return {std::min(most, std::max(fewest, unit)), most};
}

// Runs every matrix product and every attention plan of the run on rank `rank` at least once.
// Computes the gradients of trial steps for each sequence length, and an evaluation with the
// model's length. Each product is planned for the SMs that the step leaves to it. Allocates the
// memory of a trainer and releases it. Not collective.
void run_trial_steps(const TrainerConfig& config, device::Device& device, i64 rank,
                     const TrialSteps& steps) {
    const auto trainer =
        Trainer::allocate(config, device, parallel::silent_grid(config.parallel, rank));
    const std::set<i64> counts = trial_counts(config, steps.fewest_micro_batches);
    // The model's own length comes last, because the evaluation after this loop runs with that
    // length.
    std::vector<i64> lengths = steps.seq_lengths;
    std::erase(lengths, config.model.seq_length);
    lengths.push_back(config.model.seq_length);
    for (const i64 length : lengths) {
        trainer->set_seq_length(length);
        const data::Batch batch(length, steps.batch_options);
        RepeatedBatch batches(batch);
        for (const i64 n : counts) trainer->compute_gradients(batches, n);
    }
    const data::Batch batch(config.model.seq_length, steps.batch_options);
    RepeatedBatch batches(batch);
    trainer->evaluate(batches, std::max(i64{2}, *counts.rbegin()));
    device.synchronize();
}

// Returns the kinds of steps that the run makes when it continues after `done`.
TrialSteps trial_steps(const RunConfig& config, const spec::Counters& done) {
    i64 fewest = config.schedule.ramp().global_batch;
    for (const spec::RampStep& stage : config.schedule.ramp().stages(done.samples)) {
        fewest = std::min(fewest, stage.batch);
    }
    return {.seq_lengths = config.schedule.seq_lengths(done.iteration),
            .fewest_micro_batches = config.trainer.micro_batches_of(fewest),
            .batch_options = config.batch_options()};
}

// Returns on all ranks whether rank 0 finds the kill switch. Collective.
bool kill_switch_exists(const std::string& path, comm::Group& world) {
    if (path.empty()) return false;
    i64 exists = world.rank() == 0 && io::exists(path) ? 1 : 0;
    world.broadcast({&exists, DType::int64, {1}}, 0);
    return exists != 0;
}

// Returns the progress in `checkpoint`. Returns zeros without a checkpoint and with --finetune.
spec::Counters progress_in(const RunConfig& config,
                           const std::optional<ckpt::Checkpoint>& checkpoint) {
    if (!checkpoint || config.checkpoints.finetune) return {};
    const ckpt::StepCounters& saved = checkpoint->manifest().counters;
    return {.iteration = saved.iteration,
            .samples = saved.consumed_samples,
            .tokens = saved.consumed_tokens};
}

// Ends a run that has nothing to do, before a device is opened and weights are loaded. So a task of
// a job array that starts after the end of the training takes only seconds.
//
// Returns the exit code when the kill switch exists, or when the training in `checkpoint` is
// finished and no evaluation is pending. Before it returns a code, writes the reason to `status`
// and `log`, with the generation that saved the step, because this run claims no generation.
// Returns nullopt when the run must train. Collective.
std::optional<Exit> stop_before_load(const RunConfig& config,
                                     const std::optional<ckpt::Checkpoint>& checkpoint,
                                     comm::Group& world, StatusFile& status, TrainingLog& log) {
    const spec::Counters done = progress_in(config, checkpoint);
    const i64 total = config.schedule.total_iterations();
    std::string why;
    Stop stop = Stop::no;
    if (kill_switch_exists(config.stopping.kill_switch, world)) {
        stop = Stop::kill_switch;
        why = stop_note(stop, config.stopping, config.checkpoints, done.iteration, total);
        note("{}", why);
    } else if (config.schedule.finished(done) &&
               !evaluation_is_pending(world, config.checkpoints.save, done.iteration)) {
        stop = Stop::finished;
        why = "the training is finished already";
        note("{}, after iteration {}", why, done.iteration);
    }
    if (stop == Stop::no) return std::nullopt;
    if (done.iteration > 0) {
        const ckpt::Manifest& manifest = checkpoint->manifest();
        status.resumed(done.iteration, done.samples);
        status.claimed(manifest.run_id, manifest.generation);
        log.claimed(manifest.run_id, manifest.generation);
    }
    status.stopping(why);
    log.started(done, world.size());
    if (done.iteration > 0) log.resumed(done);
    log.stopped(done.iteration, exit_code(stop), why);
    return exit_code(stop);
}

// Connects the ranks and allocates the trainer of this rank. Collective.
std::unique_ptr<Trainer> allocate_trainer(const TrainerConfig& config, const TrialSteps& trial,
                                          device::Device& device, comm::Group& world,
                                          comm::FlightRecorder& recorder, double quiet_s) {
    choose_kernels(config, device, world);
    autotune(config, device, world);
    require_room_together(config, device, world);
    recorder.enter("trial steps");
    if (config.cuda) {
        parallel::together(world, [&] { run_trial_steps(config, device, world.rank(), trial); });
    }
    recorder.enter("connect");
    parallel::Grid grid = connect(config, device, world, quiet_s);
    std::unique_ptr<Trainer> trainer = Trainer::allocate(config, device, std::move(grid));
    trainer->warm_up();
    return trainer;
}

// Runs `body`. If an error ends it, writes the error to the logs and rethrows it.
Exit with_logged_error(TrainingLog& log, const comm::Group& world,
                       const std::function<Exit()>& body) {
    try {
        return body();
    } catch (const JointError& error) {
        log.failed(error);
        throw;
    } catch (const std::exception& exception) {
        const Error error = error_of(exception);
        const std::string place = world.size() > 1 ? own_place(world.rank()) + ": " : "";
        log.failed(Error(error.code(), place + error.what()));
        throw;
    }
}

// The objects of a run that exist from the start of the run to its end.
struct RunParts {
    RunConfig& config;  // the schedule changes with that of the checkpoint
    comm::Group& world;
    comm::FlightRecorder& recorder;
    StatusFile& status;
    TrainingLog& log;
    std::atomic<bool>& dump_requested;
    double quiet_s;
    const Stopwatch& since_start;  // runs since the start of run()
};

// Returns the iterations that earlier starts and the run of --load refused. Collective.
RefusedIterations read_refused(const RunConfig& config, const io::OrderedJson& data,
                               const Progress& progress, comm::Group& world) {
    const config::CheckpointFlags& flags = config.checkpoints;
    return RefusedIterations::read(world, counts_starts(config) ? flags.save : "",
                                   progress.loaded ? flags.load : "",
                                   digest_of_batches(config, data), progress.done.iteration);
}

// Watches the end of the batch job, which rank 0 follows when it moves. Collective.
JobEndWatch watch_job_end(const RunConfig& config, comm::Group& world) {
    const std::optional<JobEnd> end = find_job_end(config, world);
    const bool follows = world.rank() == 0 && config.saves.before_limit_s;
    return JobEndWatch(end ? end->unix_s : 0, follows ? ask_scontrol() : JobEndWatch::Ask());
}

// Does the training for run(), which documents it. Collective.
Exit train(const RunParts& run, const std::string& joined) {
    RunConfig& config = run.config;
    comm::Group& world = run.world;
    TrainingLog& log = run.log;
    const bool is_rank0 = world.rank() == 0;
    // The checkpoint is opened before memory is allocated, so that usage errors appear early.
    std::optional<ckpt::Checkpoint> checkpoint;
    TrainingData data;
    try {
        choose_start(config.checkpoints, config, world);
        checkpoint = open_checkpoint(config, world);
        if (!checkpoint && is_rank0) note_fresh_start(config.checkpoints.load);
        if (checkpoint) parallel::together(world, [&] { adopt_schedule(config, *checkpoint); });
        data = open_data_together(config, checkpoint, world);
        if (is_rank0 && !config.checkpoints.save.empty()) read_tokenizer(config, checkpoint);
    } catch (const Error& error) {
        if (!is_rank0) throw;
        fail_with_all_problems(run.config, error);
    }
    log.make_directories();
    log.open_files();
    const std::vector<std::string> hosts = parallel::hosts_of(world);
    if (is_rank0) log.plan(describe_start(joined, hosts) + describe_plan(config, data.sets));
    if (const auto ended = stop_before_load(config, checkpoint, world, run.status, log))
        return *ended;
    check_host_memory_together(config, world);
    count_start_together(config, checkpoint, world);
    const JobEndWatch job_end = watch_job_end(config, world);

    const std::unique_ptr<device::Device> device = open_device(config.trainer, world);
    if (config.trainer.cuda) {
        run.recorder.set_device(device->name());
        set_own_device(device->name());
    }
    describe_and_check_hosts(config, *device, hosts, world, log);
    const std::unique_ptr<Trainer> trainer =
        allocate_trainer(config.trainer, trial_steps(config, progress_in(config, checkpoint)),
                         *device, world, run.recorder, run.quiet_s);
    if (const auto memory = describe_memory(*device, world); is_rank0) log.plan(memory);
    run.recorder.enter("load");
    // load_or_initialize() gets the only copy of `checkpoint`, so that the files of the checkpoint
    // are closed before pruning may remove them.
    const Progress progress =
        load_or_initialize(config, data.identities, std::move(checkpoint), world, *trainer);

    data::Loader loader(*data.sets.train, config.batch_options(), progress.done.samples,
                        config.trainer.parallel.dp, trainer->grid().at.dp);
    log.open_tensorboard(progress.done);
    log.restore(progress.interval);
    report_device(config, *trainer, *device, world, log);
    trainer->record_to(&run.recorder);
    trainer->probe().plant(armed_step_fault(world.rank()));

    const std::unique_ptr<EnergyLog> energy = EnergyLog::open(config, world);
    const bool evaluation_pending =
        evaluation_is_pending(world, config.checkpoints.save, progress.done.iteration);
    RefusedIterations refused = read_refused(config, data.identities, progress, world);
    const LoopEnd ended = run_loop({.config = config,
                                    .data = data.sets,
                                    .data_identities = data.identities,
                                    .world = world,
                                    .recorder = run.recorder,
                                    .device = *device,
                                    .trainer = *trainer,
                                    .loader = loader,
                                    .log = log,
                                    .status = run.status,
                                    .energy = energy.get(),
                                    .since_start = run.since_start,
                                    .job_end = job_end,
                                    .dump_requested = run.dump_requested},
                                   progress, evaluation_pending, std::move(refused));
    // A start that ends with the exit code run_again and has made no step remains in the count of
    // starts without progress, because a job array repeats such a start.
    if (is_rank0 && counts_starts(config) && (ended.advanced || ended.code != Exit::run_again))
        end_start_count(config.checkpoints.save);
    return ended.code;
}

}  // namespace

void catch_signals() {
    cli::install_stop_signals(cli::Sigterm::after_10_s);
    io::end_waits_on(cli::stop_signal_name);
    cli::install_dump_signal();
    cli::ignore_sigpipe();
}

Exit run(RunConfig config, comm::Group& world, const std::string& joined,
         comm::FlightRecorder& recorder, double quiet_s) {
    const Stopwatch since_start;
    const bool is_rank0 = world.rank() == 0;
    StatusFile status(status_settings(config, world, quiet_s), is_rank0);
    status.start();
    prepare_recorder(config, world, recorder);
    std::atomic<bool> dump_requested = false;
    const comm::Watchdog watchdog(recorder,
                                  watchdog_options(quiet_s, world, recorder, dump_requested));
    recorder.enter("start");

    TrainingLog log(config, is_rank0);
    return with_logged_error(log, world, [&] {
        return train({.config = config,
                      .world = world,
                      .recorder = recorder,
                      .status = status,
                      .log = log,
                      .dump_requested = dump_requested,
                      .quiet_s = quiet_s,
                      .since_start = since_start},
                     joined);
    });
}

}  // namespace lm::train
