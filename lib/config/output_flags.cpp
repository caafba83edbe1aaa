// SPDX-License-Identifier: Apache-2.0
#include "config/output_flags.hpp"

namespace lm::config {

const Fields<ValidationFlags>& validation_fields() {
    using S = ValidationFlags;
    static const Fields<S> fields = {
        {.option = "--eval-interval",
         .member = &S::interval,
         .metavar = "N",
         .help = "validate every N iterations",
         .block = Block::validation},
        {.option = "--eval-iters",
         .member = &S::iters,
         .metavar = "N",
         .help = "global batches of one validation; 0: no validation",
         .block = Block::validation},
        {.block = Block::validation, .name = "samples", .derived = true},
    };
    return fields;
}

const Fields<CheckpointFlags>& load_fields() {
    using S = CheckpointFlags;
    static const Fields<S> fields = {
        {.option = "--save",
         .member = &S::save,
         .metavar = "DIR",
         .help = "directory for the checkpoints of this run",
         .block = Block::checkpoints},
        {.option = "--load",
         .member = &S::load,
         .metavar = "DIR",
         .help =
             "resume from the step that DIR/latest names, or from DIR/global_stepN; an empty DIR, "
             "or a missing one that --save names too, starts at iteration 0",
         .block = Block::checkpoints},
        {.option = "--fresh",
         .member = &S::fresh,
         .help = "start at iteration 0 when the directory of --load does not exist, or has no "
                 "checkpoint in a restarted job",
         .block = Block::checkpoints},
        {.option = "--exit-on-missing-checkpoint",
         .member = &S::exit_on_missing,
         .help = "stop when the run would start without a checkpoint, instead of starting at "
                 "iteration 0"},
        {.option = "--finetune",
         .member = &S::finetune,
         .help = "load the weights only: start at iteration 0 with a new optimizer state",
         .block = Block::checkpoints},
        {.option = "--no-load-optim",
         .member = &S::no_load_optim,
         .help = "load weights and counters, but start with a new optimizer state",
         .block = Block::checkpoints},
        {.option = "--override-opt_param-scheduler,--override-lr-scheduler,"
                   "--override-opt-param-scheduler",
         .member = &S::override_schedule,
         .help = "resume with another schedule of learning rate, weight decay or curriculum than "
                 "the checkpoint's",
         .block = Block::checkpoints,
         .name = "override_schedule"},
        {.option = "--override-data",
         .member = &S::override_data,
         .help = "resume on other samples than the checkpoint's: other data, split, order, seed or "
                 "sequence length",
         .block = Block::checkpoints},
        {.option = "--override-tokenizer",
         .member = &S::override_tokenizer,
         .help = "resume although the checkpoint's data was made by another tokenizer",
         .block = Block::checkpoints},
    };
    return fields;
}

const Fields<CheckpointFlags>& save_fields() {
    using S = CheckpointFlags;
    static const Fields<S> fields = {
        {.option = "--save-interval",
         .member = &S::save_interval,
         .metavar = "N",
         .help = "save every N iterations",
         .block = Block::checkpoints},
        {.option = "--save-schedule",
         .member = &S::save_schedule,
         .metavar = "N@ITERATION,...,N",
         .help = "save every N iterations up to ITERATION, then by the next range; also at the end "
                 "of each range",
         .block = Block::checkpoints},
        {.option = "--save-retain",
         .member = &S::save_retain,
         .metavar = "RULE,...",
         .help =
             "after each save, delete the steps that no rule keeps, as lm-ckpt prune does; "
             "rules: keep-last=K, keep-every=N, keep=STEP,..., keep-schedule=N@ITERATION,...,N, "
             "weights-only-older-than=K; the last verified step always stays",
         .block = Block::checkpoints},
        {.option = "--save-required",
         .member = &S::save_required,
         .help = "stop with exit code 3 when a save fails, instead of training on",
         .block = Block::checkpoints},
        {.option = "--save-failures",
         .member = &S::save_failures,
         .metavar = "N",
         .help = "stop with exit code 3 after N failed saves in a row",
         .block = Block::checkpoints},
        {.option = "--save-retry",
         .member = &S::save_retry,
         .metavar = "TIME",
         .help = "repeat a failed last save for TIME, then stop with exit code 3",
         .block = Block::checkpoints},
        {.option = "--async-save",
         .member = &S::async_save,
         .help = "write checkpoints while the training continues from a copy in host memory; the "
                 "last one is written before the run stops",
         .choices = {"on", "off"},
         .block = Block::checkpoints,
         .optional_value = true},
        {.option = "--async-save-buffer",
         .member = &S::async_save_buffer,
         .metavar = "SIZE",
         .help =
             "host memory of a rank for that copy [the rank's part of a checkpoint]; with less, "
             "the next optimizer step waits until the rest is written",
         .block = Block::checkpoints},
    };
    return fields;
}

const Fields<StoppingFlags>& stopping_fields() {
    using S = StoppingFlags;
    static const Fields<S> fields = {
        {.option = "--exit-interval",
         .member = &S::exit_interval,
         .metavar = "N",
         .help = "save and stop after N iterations of this run; exit code 75",
         .block = Block::stopping},
        {.option = "--exit-iteration",
         .member = &S::exit_iteration,
         .metavar = "N",
         .help = "save and stop at iteration N; exit code 0",
         .block = Block::stopping},
        {.option = "--exit-samples",
         .member = &S::exit_samples,
         .metavar = "N",
         .help = "save and stop when N samples have been consumed; exit code 0",
         .block = Block::stopping},
        {.option = "--exit-duration-in-mins",
         .member = &S::exit_duration_min,
         .metavar = "MINUTES",
         .help = "save and stop after MINUTES; exit code 75",
         .block = Block::stopping},
        {.option = "--kill-switch-path",
         .member = &S::kill_switch,
         .metavar = "FILE",
         .help = "save and stop when FILE exists; exit code 76",
         .block = Block::stopping},
        {.option = "--save-switch-path",
         .member = &S::save_switch,
         .metavar = "FILE",
         .help = "save when FILE exists, then remove FILE and continue",
         .block = Block::stopping},
        {.option = "--skip-train-iteration-range",
         .member = &S::skip_ranges,
         .metavar = "A-B",
         .help = "consume the batches of iterations A to B without training on them",
         .block = Block::training,
         .derived = true},
    };
    return fields;
}

const Fields<LoggingFlags>& logging_fields() {
    using S = LoggingFlags;
    static const Fields<S> fields = {
        {.option = "--log-interval",
         .member = &S::interval,
         .metavar = "N",
         .help = "log every N iterations",
         .block = Block::logging},
        {.option = "--log-file",
         .member = &S::file,
         .metavar = "FILE",
         .help = "append the log lines to FILE too, in whole lines",
         .block = Block::logging},
        {.option = "--log-json",
         .member = &S::json,
         .metavar = "FILE",
         .help = "append one JSON object to FILE for each logged iteration",
         .block = Block::logging},
        {.option = "--tensorboard-dir",
         .member = &S::tensorboard_dir,
         .metavar = "DIR",
         .help = "write TensorBoard events to DIR",
         .block = Block::logging},
        {.option = "--tensorboard-queue-size",
         .member = &S::tensorboard_queue_size,
         .metavar = "N",
         .help = "largest number of TensorBoard events in memory; each log line writes all of them",
         .block = Block::logging},
        {.option = "--log-timers-to-tensorboard",
         .member = &S::timers,
         .help = "add the time of an iteration to the TensorBoard scalars",
         .block = Block::logging},
        {.option = "--log-batch-size-to-tensorboard",
         .member = &S::batch_size,
         .help = "add the batch size to the TensorBoard scalars",
         .block = Block::logging},
        {.option = "--log-validation-ppl-to-tensorboard",
         .member = &S::validation_ppl,
         .help = "add the validation perplexity to the TensorBoard scalars",
         .block = Block::logging},
    };
    return fields;
}

const Fields<ActionFlags>& action_fields() {
    using S = ActionFlags;
    static const Fields<S> fields = {
        {.option = "--dry-run",
         .member = &S::dry_run,
         .help = "check every file and flag and print the plan, but do not train"},
        {.option = "--world-size",
         .member = &S::world_size,
         .metavar = "N",
         .help = "ranks of the planned training; lm-train takes it with --dry-run only and plans "
                 "for N ranks instead of those that were started",
         .block = Block::parallel,
         .derived = true},
        {.option = "--show-samples",
         .member = &S::show_samples,
         .metavar = "A-B",
         .help = "print the training samples A to B as JSON Lines instead of training; samples "
                 "count from 0, 'consumed samples: N' in a log means 0 to N-1"},
        {.option = "--print-config",
         .member = &S::print_config,
         .help = "print the resolved configuration as JSON instead of training"},
        {.option = "--benchmark",
         .member = &S::benchmark,
         .help = "train without validation and saves; print tokens/s, FLOP/s and the time of each "
                 "operation",
         .block = Block::logging},
    };
    return fields;
}

}  // namespace lm::config
