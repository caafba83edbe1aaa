// SPDX-License-Identifier: Apache-2.0
// lm-train: pretrains a GPT.
#include "cli/main.hpp"
#include "base/error.hpp"
#include "comm/launch.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"
#include "train/dry_run.hpp"
#include "train/open_device.hpp"
#include "train/run.hpp"
#include "train/run_json.hpp"
#include "train/show_samples.hpp"

#include <optional>

using namespace lm;

namespace {

int run(config::TrainFlags& flags, const std::string& command_line, comm::Launch& launch,
        comm::FlightRecorder& recorder, double timeout_s) {
    comm::Group& world = launch.world();
    const bool is_rank0 = world.rank() == 0;
    flags.device.choice = train::choose_device(flags.device.choice, world);
    if (flags.device.choice == "cpu" && !launch.carries_tensors()) {
        throw JointError(Exit::usage, "--device cpu: " + launch.describe() +
                                          ": ranks on CPUs need MPI: mpirun, or srun --mpi=pmix");
    }
    if (flags.action.dry_run) {
        const i64 ranks_here = parallel::ranks_on_host(world);
        if (!is_rank0) return 0;
        return static_cast<int>(train::dry_run(flags, command_line, world.size(), ranks_here));
    }
    std::optional<train::RunConfig> config;
    if (!flags.device.threads) flags.device.threads = parallel::cores_of_rank(world);
    parallel::together(world, [&] { config = train::resolve(flags, command_line, world.size()); });
    if (flags.action.print_config) {
        if (is_rank0) cli::write_stdout(io::json_text(train::to_json(*config)));
        return 0;
    }
    if (!flags.action.show_samples.empty()) {
        const auto range = train::parse_sample_range(flags.action.show_samples);
        if (is_rank0) train::show_samples(*config, range);
        return 0;
    }
    return static_cast<int>(train::run(*config, world, recorder, timeout_s));
}

}  // namespace

int main(int argc, char** argv) {
    cli::Options options("lm-train", "pretrain a GPT on tokens from lm-preprocess");
    config::TrainFlags flags;
    config::add_train_options(options, flags);
    options.exits_with(Exit::done,
                       "finished now or before, or stopped by --exit-iteration or --exit-samples");
    for (const Exit code : {Exit::self_stopped, Exit::run_again, Exit::do_not_run_again}) {
        options.exits_with(code);
    }
    options.epilogue(
        "Examples:\n"
        "  lm-train --model gpt2-124m --data-path data/corpus_text_document \\\n"
        "    --micro-batch-size 4 --global-batch-size 512 --train-tokens 10B --lr 6e-4 \\\n"
        "    --save checkpoints --load checkpoints --save-interval 1000\n"
        "  mpirun -n 8 lm-train ...   the same on 8 ranks; or srun --mpi=pmix -n 8\n");
    return cli::run_main(argc, argv, options, [&] {
        const std::string command_line = cli::command_line(argc, argv);
        const bool trains = !flags.action.dry_run && !flags.action.print_config &&
                            flags.action.show_samples.empty();
        if (trains) train::catch_signals();
        comm::FlightRecorder recorder;  // must outlive the groups
        const double timeout_s = 60 * flags.rank_checks.timeout_min;
        const auto launch = comm::launch({.timeout_s = timeout_s,
                                          .recorder = &recorder,
                                          .rendezvous = flags.device.choice != "cpu"});
        return comm::with_one_error(
            *launch, [&] { return run(flags, command_line, *launch, recorder, timeout_s); });
    });
}
