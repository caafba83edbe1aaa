// SPDX-License-Identifier: Apache-2.0
#include "train/dry_run.hpp"

#include <cstdio>

#include "base/error.hpp"
#include "base/log.hpp"
#include "cli/main.hpp"
#include "train/changes.hpp"
#include "train/host_memory.hpp"
#include "train/plan_text.hpp"
#include "train/resume.hpp"
#include "train/run_data.hpp"
#include "train/run_json.hpp"
#include "train/save_room.hpp"

namespace lm::train {

Exit dry_run(const config::TrainFlags& flags, std::string command_line, i64 n_ranks,
             i64 ranks_here) {
    Problems problems(flags.action.world_size ? Problems::Mode::collect_plan
                                              : Problems::Mode::collect);
    const auto config = resolve(flags, std::move(command_line),
                                flags.action.world_size.value_or(n_ranks), problems);
    if (config) {
        std::optional<ckpt::Checkpoint> checkpoint;
        problems.check([&] { checkpoint = open_checkpoint(*config); });
        problems.check([&] { check_writable(config->checkpoints, config->logging); });
        // The plan may be for another cluster with another file system, so it collects this problem
        // separately.
        problems.check_built([&] {
            check_room_for_run(*config, checkpoint ? checkpoint->manifest().counters.iteration : 0);
        });
        data::DataSets data;
        problems.check([&] { data = open_data(*config); });
        if (checkpoint && data.train) {
            problems.check([&] { check_changes(*config, training_data(*config), *checkpoint); });
        }
        const std::string plan = describe_plan(*config, data);
        if (flags.action.print_config) {
            cli::write_stdout(io::json_text(to_json(*config)));
            std::fputs(plan.c_str(), stderr);
        } else {
            cli::write_stdout(plan);
        }
        // With --world-size, the plan is for other hosts: it checks that one rank fits on this
        // host.
        const i64 ranks = flags.action.world_size ? 1 : ranks_here;
        problems.check_built([&] { check_host_memory(*config, ranks); });
    } else {
        problems.check([&] { check_writable(flags.checkpoints, flags.logging); });
    }
    for (const std::string& text : problems.not_yet()) {
        note("{} (the plan continues, a training would stop here)", text);
    }
    const auto& found = problems.found();
    if (found.empty()) return Exit::done;
    for (size_t k = 0; k + 1 < found.size(); ++k) warn("{}", found[k]);
    throw Error(Exit::usage, found.back());
}

}  // namespace lm::train
