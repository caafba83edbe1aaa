// SPDX-License-Identifier: Apache-2.0
// lm-estimate checkpoint: the bytes of one checkpoint, and of all checkpoints of a schedule.
#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/shape.hpp"
#include "ckpt/format/step_files.hpp"
#include "cost/formulas.hpp"
#include "figures.hpp"
#include "plan_warnings.hpp"
#include "run_flags.hpp"
#include "spec/save_schedule.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

struct Flags {
    config::TrainFlags train;
    i64 nodes = 1;
    OutputFlags output;
};

std::vector<spec::SaveRange> ranges_of(const config::CheckpointFlags& flags) {
    if (!flags.save_schedule.empty() && flags.save_interval) {
        usage_error("--save-schedule", "contradicts --save-interval: give one of the two");
    }
    if (!flags.save_schedule.empty()) return spec::parse_save_schedule(flags.save_schedule);
    if (!flags.save_interval) return {};
    check_at_least("--save-interval", *flags.save_interval, 1);
    return {{*flags.save_interval, 0}};
}

// Warns when the file system of --save has no room for all checkpoints, or, when --save-retain
// deletes old checkpoints, no room for two.
void check_room(const Flags& flags, const config::TrainFlags& train,
                const cost::CheckpointSize& size, i64 n_saves) {
    if (train.checkpoints.save.empty()) return;
    const bool deletes = !train.checkpoints.save_retain.empty();
    const i64 n_ranks = std::max(flags.nodes, train.action.world_size.value_or(1));
    warn_of_room(train.checkpoints.save,
                 {.n = deletes ? std::min<i64>(2, n_saves) : n_saves,
                  .bytes = size.total(),
                  .files = ckpt::files_of_checkpoint(n_ranks, flags.nodes)});
}

// Adds the figures of all checkpoints of the schedule to `printout`. Returns the number of
// checkpoints.
i64 add_total(Printout& printout, const config::TrainFlags& flags, const spec::ModelConfig& model,
              const cost::CheckpointSize& size) {
    const std::vector<spec::SaveRange> ranges = ranges_of(flags.checkpoints);
    if (ranges.empty()) return 1;
    const BatchSchedule schedule = resolve_schedule(flags, model.seq_length);
    const i64 iterations = count_iterations(schedule.ramp, schedule.samples);
    const i64 saves = spec::count_saves(ranges, iterations);
    printout.figures(
        "all",
        {{"iterations", "iterations", Unit::count, iterations, "counted as in lm-estimate batch"},
         {"saves", "checkpoints", Unit::count, saves,
          "at multiples of the intervals, at the ends of ranges and of the run"},
         {"weights", "weights in all", Unit::bytes, checked_mul(saves, size.weights),
          "checkpoints x weights"},
         {"total", "in all", Unit::bytes, checked_mul(saves, size.total()),
          "number of checkpoints x checkpoint, when none is pruned"}});
    return saves;
}

int run(const Flags& flags) {
    const config::TrainFlags train = resolve_flags(flags.train);
    const spec::ModelConfig model = resolve_model(train);
    const cost::CheckpointSize size =
        cost::checkpoint_size(model, resolve_precision(train.precision));
    Printout printout;
    printout.figures("checkpoint",
                     {{"weights", "weights", Unit::bytes, size.weights,
                       "4 bytes (2 with --bf16, --fp16) x parameters, vocabulary unpadded; "
                       "lm-ckpt copy --weights-only"},
                      {"optimizer", "optimizer state", Unit::bytes, size.optimizer,
                       "8 bytes x parameters of Adam's moments, and 4 of fp32 masters with 16-bit "
                       "weights"},
                      {"total", "checkpoint", Unit::bytes, size.total(),
                       "the sum: 14 bytes x parameters in 16 bits (BigScience measured 2.3 TB for "
                       "176B), without file headers of about 100 bytes for each tensor"}});
    check_at_least("--nodes", flags.nodes, 1);
    check_room(flags, train, size, add_total(printout, train, model, size));
    printout.print(flags.output);
    return 0;
}

}  // namespace

void add_checkpoint_verb(cli::Options& program) {
    const auto flags = std::make_shared<Flags>();
    cli::Options& options = program.verb(
        "checkpoint",
        "print the bytes of a checkpoint on disk, and of all checkpoints of a schedule",
        [flags] { return run(*flags); });
    options.examples({"lm-estimate checkpoint --model bloom-176b --bf16",
                      "lm-estimate checkpoint --model gpt2-124m --global-batch-size 512 "
                      "--train-tokens 10B --save-interval 1000"});
    options.value("--nodes", &flags->nodes, "N",
                  "nodes that write the files, for the check of --save");
    add_run_options(
        options, flags->train,
        {"Model", "--global-batch-size", "--rampup-batch-size", "--train-samples", "--train-iters",
         "--train-tokens", "--fp16", "--bf16", "--deepspeed_config", "--save-interval",
         "--save-schedule", "--save", "--save-retain", "--world-size"});
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
