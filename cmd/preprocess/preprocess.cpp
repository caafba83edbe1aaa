// SPDX-License-Identifier: Apache-2.0
// lm-preprocess without a verb: JSON Lines to indexed datasets.
#include "args.hpp"
#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "build_report.hpp"
#include "cli/signals.hpp"
#include "preprocess/dataset_build.hpp"

namespace lm::preprocess {

namespace {

// Resolves --shard rank. Refuses ranks that would all write the same output.
void apply_launcher(BuildOptions& options) {
    const Launched launch = launched_by({Launcher::open_mpi, Launcher::pmi, Launcher::slurm});
    if (options.shard == "rank") {
        if (launch.by == Launcher::none || launch.size < 1) {
            usage_error("--shard", "rank: needs ranks of mpirun or srun: give i/n, such as 0/8");
        }
        options.shard = fmt::format("{}/{}", launch.rank, launch.size);
        options.output_prefix += fmt::format("-{:05}", launch.rank);
    } else if (launch.size > 1 && !options.shard) {
        usage_error("--shard",
                    "is missing: {} ranks would each encode all of the input: give "
                    "--shard rank, and merge their outputs",
                    launch.size);
    }
}

}  // namespace

int preprocess(const Args& args) {
    check(args);
    BuildOptions options = args.build;
    apply_launcher(options);
    try {
        BuildReporter reporter(args);
        reporter.report(build_datasets(options, reporter));
        return 0;
    } catch (const Stopped&) {
        // A run without --resume removes its unfinished outputs, and the process ends by the
        // signal.
        if (!options.resume) cli::end_by_signal(cli::stop_signal_number());
        note(
            "{}.unfinished: the run was interrupted and its work is kept: run the same command "
            "again",
            options.output_prefix);
        return static_cast<int>(Exit::run_again);
    }
}

}  // namespace lm::preprocess
