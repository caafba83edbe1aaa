// SPDX-License-Identifier: Apache-2.0
// lm-train: pretrains a GPT.
#include "cli/main.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/signals.hpp"
#include "comm/hang_story.hpp"
#include "comm/join/join.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"
#include "train/config/run_json.hpp"
#include "train/log/status_file.hpp"
#include "train/log/training_log.hpp"
#include "train/start/check_start.hpp"
#include "train/start/compare_ranks.hpp"
#include "train/start/dry_run.hpp"
#include "train/start/gpu_environment.hpp"
#include "train/start/open_device.hpp"
#include "train/start/run.hpp"
#include "train/start/show_samples.hpp"

#include <optional>
#include <vector>

using namespace lm;

namespace {

// Returns the paths of the dumps. Each of `paths` is a dump or a directory of dumps.
std::vector<std::string> dump_files(const std::vector<std::string>& paths) {
    std::vector<std::string> files;
    for (const std::string& path : paths) {
        if (!io::exists(path))
            usage_error(path, "does not exist: give dumps rank-N.jsonl or their directory");
        if (!io::is_directory(path)) {
            files.push_back(path);
            continue;
        }
        for (const std::string& name : io::list_directory(path)) {
            if (name.starts_with("rank-") && name.ends_with(".jsonl"))
                files.push_back(path + "/" + name);
        }
    }
    return files;
}

// Prints why a run hangs, from the dumps of its ranks. If some dumps cannot be read, the
// explanation may be incomplete, and the exit code is not 0.
int explain(const std::vector<std::string>& paths) {
    std::vector<comm::RankDump> dumps;
    std::vector<Error> unreadable;
    for (const std::string& file : dump_files(paths)) {
        try {
            dumps.push_back(comm::read_dump(file));
        } catch (const Error& error) {
            unreadable.push_back(error);
        }
    }
    if (dumps.empty() && unreadable.size() == 1) throw Error(unreadable.front());
    for (const Error& error : unreadable) {
        warn("{}: the explanation does not use this dump", error.what());
    }
    if (dumps.empty() && !unreadable.empty()) {
        run_error("--explain", "none of the {} dumps can be read", unreadable.size());
    }
    cli::write_stdout(printable_lines(comm::explain_hang(dumps).text));
    return static_cast<int>(unreadable.empty() ? Exit::done : Exit::failure);
}

// The command line of this rank.
struct Command {
    const config::TrainFlags& flags;
    const std::vector<cli::Options::Setting> settings;  // the same flags as texts
    const std::string line;
};

int run(const Command& command, comm::Launch& launch, comm::FlightRecorder& recorder,
        double timeout_s, bool& began) {
    comm::Group& world = launch.world();
    const config::TrainFlags& flags = command.flags;
    train::require_same_flags(world, command.settings);
    const bool is_rank0 = world.rank() == 0;
    train::StartedRanks ranks{.n = world.size(),
                              .have_gpus = train::choose_gpus(flags.device.choice, world)};
    if (!ranks.have_gpus && !launch.carries_tensors()) {
        throw JointError(Exit::usage, "--device cpu: " + launch.describe() +
                                          ": ranks on CPUs need MPI: mpirun, or srun --mpi=pmix");
    }
    if (flags.action.dry_run) {
        const i64 ranks_here = parallel::ranks_on_host(world);
        if (!is_rank0) return 0;
        return static_cast<int>(train::dry_run(flags, command.line, ranks, ranks_here));
    }
    ranks.cores = parallel::cores_of_rank(world);
    std::optional<train::RunConfig> config;
    parallel::together(
        world, [&] { config = train::resolve_or_fail(flags, command.line, ranks, is_rank0); });
    train::require_same_configuration(world, *config);
    if (flags.action.print_config) {
        if (is_rank0) cli::write_stdout(io::json_text(train::to_json(*config)));
        return 0;
    }
    if (!flags.action.show_samples.empty()) {
        const auto range = train::parse_sample_range(flags.action.show_samples);
        if (is_rank0) train::show_samples(*config, range);
        return 0;
    }
    began = true;
    return static_cast<int>(train::run(*config, world, launch.describe(), recorder, timeout_s));
}

// Connects the ranks and runs the chosen action. `trains`: the action is a training. Sets `began`
// when the training begins.
int join_and_run(const Command& command, bool trains, bool& began) {
    const config::TrainFlags& flags = command.flags;
    comm::FlightRecorder recorder = comm::FlightRecorder::shared();  // must outlive the groups
    const double timeout_s = 60 * flags.rank_checks.timeout_min;
    comm::LaunchOptions options{.timeout_s = timeout_s,
                                .recorder = &recorder,
                                .rendezvous = train::may_have_gpu(flags.device.choice)};
    if (trains) {
        options.shared_directory = flags.checkpoints.save;
        options.stop_signal = cli::stop_signal_name;
    }
    const auto launch = comm::launch(options);
    return comm::with_one_error(*launch,
                                [&] { return run(command, *launch, recorder, timeout_s, began); });
}

}  // namespace

int main(int argc, char** argv) {
    cli::Options options("lm-train", "pretrain a GPT on tokens from lm-preprocess");
    config::TrainFlags flags;
    config::add_train_options(options, flags);
    options.operands_mean("--data-path");
    std::vector<std::string> dumps;
    options.group("Other");
    options.values("--explain", &dumps, "DUMPS",
                   "explain a hang from flight-recorder dumps (rank-N.jsonl) or their "
                   "directory: which rank waits for which, and which diverged first; no training");
    options.describe_only({"--model",
                           "--num-layers",
                           "--hidden-size",
                           "--num-attention-heads",
                           "--seq-length",
                           "--data-path",
                           "--micro-batch-size",
                           "--global-batch-size",
                           "--train-samples",
                           "--train-tokens",
                           "--lr",
                           "--lr-warmup-samples",
                           "--bf16",
                           "--tensor-model-parallel-size",
                           "--pipeline-model-parallel-size",
                           "--use-distributed-optimizer",
                           "--threads",
                           "--save",
                           "--load",
                           "--save-interval",
                           "--eval-interval",
                           "--log-interval",
                           "--tensorboard-dir",
                           "--dry-run"});
    options.exits_with(Exit::done,
                       "finished now or before, or stopped by --exit-iteration or --exit-samples");
    for (const Exit code :
         {Exit::self_stopped, Exit::run_again, Exit::do_not_run_again, Exit::superseded}) {
        options.exits_with(code);
    }
    options.examples(
        {"lm-train --model gpt2-124m --data-path corpus_text_document --lr 6e-4 \\\n"
         "    --micro-batch-size 4 --global-batch-size 16 --train-tokens 1M --save run",
         "lm-train --model gpt2-124m --data-path corpus_text_document --bf16 --lr 6e-4 \\\n"
         "    --micro-batch-size 4 --global-batch-size 512 --train-tokens 10B \\\n"
         "    --save checkpoints --load checkpoints --save-interval 1000"});
    options.on_problems([&](std::vector<std::string>& problems) {
        if (!dumps.empty()) return;
        train::add_problems_of_flags(flags, cli::command_line(argc, argv), problems);
    });
    const auto trains = [&] {
        return dumps.empty() && !flags.action.dry_run && !flags.action.print_config &&
               flags.action.show_samples.empty();
    };
    bool began = false;  // run() writes its own errors to the logs
    const auto on_error = [&](const Error& error) {
        if (trains() && !began) train::log_refused_start(flags.logging, error);
    };
    const auto body = [&] {
        train::set_gpu_environment(flags.device.deterministic_mode);  // before any thread starts
        if (flags.logging.quiet) cli::hide_notes();
        if (!dumps.empty()) return explain(dumps);
        const Command command{flags, options.settings(), cli::command_line(argc, argv)};
        if (trains()) train::catch_signals();
        const auto joined = [&] { return join_and_run(command, trains(), began); };
        return trains() ? train::with_end_status(flags.logging.status_file, joined) : joined();
    };
    return cli::run_main(argc, argv, options, body, on_error);
}
