// SPDX-License-Identifier: Apache-2.0
// lm-preprocess without a verb: JSON Lines to indexed datasets.
#include <chrono>
#include <thread>

#include "args.hpp"
#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "build_report.hpp"
#include "cli/signals.hpp"
#include "preprocess/dataset_build.hpp"

namespace lm::preprocess {

int preprocess(const Args& args) {
    check(args);
    BuildOptions options = args.build;
    options.rank_timeout_s = args.rank_timeout.seconds;
    const Launched launch = launched_by({Launcher::open_mpi, Launcher::pmi, Launcher::slurm});
    try {
        BuildReporter reporter(args);
        const BuildResult result = build_datasets(options, launch, reporter);
        if (launch.rank == 0) reporter.report(result);
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
    } catch (const Error& error) {
        // A wrong argument is usually wrong on all ranks. Ranks other than 0 wait, so that rank 0
        // exits first and the launcher ends the job before they print the same message.
        constexpr std::chrono::seconds rank0_exits(5);
        if (error.code() == Exit::usage && launch.rank > 0)
            std::this_thread::sleep_for(rank0_exits);
        throw;
    }
}

}  // namespace lm::preprocess
