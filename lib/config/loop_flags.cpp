// SPDX-License-Identifier: Apache-2.0
#include "config/loop_flags.hpp"

#include "config/field_json.hpp"

namespace lm::config {
namespace {

using io::OrderedJson;

OrderedJson skip_json(const std::vector<IterationRange>& skipped) {
    OrderedJson ranges = OrderedJson::array();
    for (const IterationRange& range : skipped) {
        if (!range.rate_advances) continue;
        ranges.push_back(fmt::format("{}-{}", range.first, range.last));
    }
    return ranges;
}

}  // namespace

const Fields<ValidationFlags>& validation_fields() {
    using S = ValidationFlags;
    static const FieldsIn<S, Block::validation> fields = {
        {.option = "--eval-interval",
         .member = &S::interval,
         .metavar = "N",
         .help = "validate every N iterations"},
        {.option = "--eval-iters",
         .member = &S::iters,
         .metavar = "N",
         .help = "global batches of one validation; 0: no validation"},
        {.option = "--eval-global-batch-size",
         .member = &S::global_batch,
         .metavar = "N",
         .help = "sequences of a validation batch; default: --global-batch-size"},
        {.json = [](const Resolved& r) -> OrderedJson { return r.validation_samples; },
         .name = "samples"},
    };
    return fields;
}

const Fields<StoppingFlags>& stopping_fields() {
    using S = StoppingFlags;
    static const FieldsIn<S, Block::stopping> fields = {
        {.option = "--exit-interval",
         .member = &S::exit_interval,
         .metavar = "N",
         .help = "save and stop after N iterations of this run; exit code 75; without --save: "
                 "exit code 0"},
        {.option = "--exit-iteration",
         .member = &S::exit_iteration,
         .metavar = "N",
         .help = "save and stop at iteration N; exit code 0"},
        {.option = "--exit-samples",
         .member = &S::exit_samples,
         .metavar = "N",
         .help = "save and stop when N samples have been consumed; exit code 0"},
        {.option = "--exit-duration-in-mins",
         .member = &S::exit_duration_min,
         .metavar = "MINUTES",
         .help =
             "save and stop so that the save ends within MINUTES; exit code 75; without --save: "
             "exit code 0"},
        {.option = "--exit-before-limit",
         .member = &S::exit_before_limit,
         .metavar = "TIME",
         .help = "with --save: save and stop so that the save ends TIME before the end of the "
                 "Slurm job; off: ignore the end of the job; exit code 75"},
        {.option = "--kill-switch-path,--kill-switch-file",
         .member = &S::kill_switch,
         .metavar = "FILE",
         .help = "save and stop when FILE exists; exit code 76"},
        {.option = "--save-switch-path",
         .member = &S::save_switch,
         .metavar = "FILE",
         .help = "save when FILE exists, then remove FILE and continue"},
    };
    return fields;
}

const Fields<StoppingFlags>& fault_fields() {
    using S = StoppingFlags;
    static const FieldsIn<S, Block::stopping> fields = {
        {.option = "--on-nan",
         .member = &S::on_nan,
         .help = "reaction to a loss, gradient or activation that is not finite; stop: exit code "
                 "4; continue: drop the update; skip: also skip the batch; rollback: load the last "
                 "checkpoint and skip the batches since then",
         .choices = names_in(reactions)},
        {.option = "--on-spike",
         .member = &S::on_spike,
         .help = "reaction to a loss or gradient norm far above its recent range (z-score 6)",
         .choices = names_in(reactions)},
        {.option = "--rerun-suspect",
         .member = &S::rerun_suspect,
         .help = "when --on-nan or --on-spike reacts: repeat the step on the same rank, with data "
                 "parallelism also on another rank, and report whether the fault is transient or "
                 "persistent"},
        {.option = "--error-injection-rate",
         .member = &S::injection_rate,
         .metavar = "N",
         .help = "for tests: replace the loss of a rank by NaN in one of N iterations on average; "
                 "0: never"},
        {.option = "--error-injection-type",
         .member = &S::injection_type,
         .help = "kind of the injected NaN; transient_error: absent when the step is repeated; "
                 "persistent_error: in each repetition on this rank; correct_result: in each "
                 "repetition on all ranks",
         .choices = names_in(injected_errors)},
        {.option = "--iterations-to-skip",
         .member = &S::iterations_to_skip,
         .metavar = "N ...",
         .help = "consume the batches of these iterations without training on them, as Megatron-LM "
                 "does; the learning rate does not advance",
         .block = Block::training},
        {.option = "--skip-train-iteration-range",
         .member = &S::skip_ranges,
         .json = [](const Resolved& r) -> OrderedJson { return skip_json(r.skipped); },
         .metavar = "A-B",
         .help = "consume the batches of iterations A to B without training on them",
         .block = Block::training},
    };
    return fields;
}

}  // namespace lm::config
