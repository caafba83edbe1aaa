// SPDX-License-Identifier: Apache-2.0
#include "train/start/dry_run.hpp"

#include <cstdio>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/types.hpp"
#include "cli/main.hpp"
#include "config/plan_warnings.hpp"
#include "cost/activation_plan.hpp"
#include "io/json.hpp"
#include "train/config/run_json.hpp"
#include "train/resume/resume.hpp"
#include "train/save/save_room.hpp"
#include "train/start/check_start.hpp"
#include "train/start/host_memory.hpp"
#include "train/start/plan_text.hpp"

namespace lm::train {
namespace {

// Prints the warnings of lm-estimate about the model and the evaluations, and one about the
// learning rate. An evaluation computes
// the forward pass of its batches: a third of a step, or a quarter of a step that recomputes all
// layers.
void warn_of_plan(const config::ModelFlags& flags, const RunConfig& config, i64 n_validation_sets) {
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    config::warn_of_model(flags, config.trainer.model, parallel);
    config::warn_of_warmup(config.schedule);
    const config::ValidationFlags& validation = config.validation;
    if (config.validation_samples() == 0 || n_validation_sets == 0) return;
    const double steps = as_double(validation.iters * n_validation_sets) /
                         (3 + cost::recomputed_share(config.trainer.model, parallel));
    config::warn_of_evaluations(steps / (as_double(validation.interval) + steps));
}

}  // namespace

Exit dry_run(const config::TrainFlags& flags, std::string command_line, StartedRanks ranks,
             i64 ranks_here) {
    Problems problems(flags.action.world_size.has_value());
    if (flags.action.world_size) ranks.n = *flags.action.world_size;
    auto config = resolve(flags, std::move(command_line), ranks, problems);
    const StartParts start = check_start(flags, config, problems);
    i64 n_validation_sets = 0;
    if (config) {
        // A plan for --world-size ranks is for other hosts. So the memory check asks whether one
        // rank fits on this host, and the disk check assumes that each rank has a host of its own.
        const i64 checked = flags.action.world_size ? 1 : ranks_here;
        // With --world-size the plan may be for a cluster with another file system. So too little
        // disk space on this host is then not an error of the plan.
        problems.check_limit([&] {
            check_room_for_run(
                *config, start.checkpoint ? start.checkpoint->manifest().counters.iteration : 0,
                checked);
        });
        n_validation_sets = std::ssize(start.data.valid);
        const std::string plan = describe_plan(*config, start.data);
        if (flags.action.print_config) {
            cli::write_stdout(io::json_text(to_json(*config)));
            std::fputs(plan.c_str(), stderr);
        } else {
            cli::write_stdout(plan);
        }
        problems.check_limit([&] { check_host_memory(*config, checked); });
    }
    for (const std::string& text : problems.limits()) {
        note("{} (the plan continues, a training would stop here)", text);
    }
    problems.throw_found();
    if (config) warn_of_plan(flags.model, *config, n_validation_sets);
    return Exit::done;
}

}  // namespace lm::train
