// SPDX-License-Identifier: Apache-2.0
#include "config/checkpoint_flags.hpp"

namespace lm::config {

const Fields<CheckpointFlags>& load_fields() {
    using S = CheckpointFlags;
    static const FieldsIn<S, Block::checkpoints> fields = {
        {.option = "--save",
         .member = &S::save,
         .metavar = "DIR",
         .help = "directory for the checkpoints of this run"},
        {.option = "--load",
         .member = &S::load,
         .metavar = "DIR",
         .help = "resume from the step that DIR/latest names, or from DIR if DIR is a global_stepN "
                 "directory; start at iteration 0 when DIR is empty, or when DIR does not exist "
                 "and --save names it too"},
        {.option = "--ckpt-step",
         .member = &S::load_step,
         .metavar = "N",
         .help = "load step N of the directory of --load, as --load DIR/global_stepN does",
         .block = Block::none},
        {.option = "--fresh",
         .member = &S::fresh,
         .help = "also start at iteration 0 when the directory of --load does not exist, or when a "
                 "restarted job finds no checkpoint in it"},
        {.option = "--exit-on-missing-checkpoint",
         .member = &S::exit_on_missing,
         .help = "stop when the run would start without a checkpoint, instead of starting at "
                 "iteration 0",
         .block = Block::none},
        {.option = "--finetune",
         .member = &S::finetune,
         .help = "load the weights only: start at iteration 0 with a new optimizer state; when "
                 "--save has steps of a run that started so from --load, resume from them"},
        {.option = "--pretrained-checkpoint",
         .member = &S::pretrained,
         .metavar = "DIR",
         .help = "when --load has no checkpoint, start from DIR as --load DIR --finetune does"},
        {.option = "--no-load-optim",
         .member = &S::no_load_optim,
         .help = "load weights and counters, but start with a new optimizer state"},
        {.option = "--use-checkpoint-args",
         .member = &S::use_saved_model,
         .help = "use the model configuration in the checkpoint of --load; model flags override "
                 "its values; without a checkpoint, the model flags define the model",
         .block = Block::none},
        {.option = "--use-checkpoint-opt_param-scheduler,--use-checkpoint-lr-scheduler,"
                   "--use-checkpoint-opt-param-scheduler",
         .member = &S::use_saved_schedule,
         .help = "resume with the learning rate schedule and the weight decay of the checkpoint, "
                 "and ignore the flags for both",
         .name = "use_saved_schedule"},
        {.option = "--override-opt_param-scheduler,--override-lr-scheduler,"
                   "--override-opt-param-scheduler",
         .member = &S::override_schedule,
         .help = "resume although the schedule of the learning rate, weight decay or curriculum "
                 "differs from the checkpoint's",
         .name = "override_schedule"},
        {.option = "--override-data",
         .member = &S::override_data,
         .help = "resume although the samples differ from the checkpoint's: other data, split, "
                 "order, seed or sequence length"},
        {.option = "--override-tokenizer",
         .member = &S::override_tokenizer,
         .help = "resume although the checkpoint's data was made by another tokenizer"},
    };
    return fields;
}

const Fields<CheckpointFlags>& save_fields() {
    using S = CheckpointFlags;
    static const FieldsIn<S, Block::checkpoints> fields = {
        {.option = "--save-interval,--persistent-save-interval",
         .member = &S::save_interval,
         .metavar = "N",
         .help = "save every N iterations"},
        {.option = "--save-schedule",
         .member = &S::save_schedule,
         .metavar = "N@ITERATION,...,N",
         .help = "save every N iterations up to ITERATION, then as the next range states; also "
                 "save at the end of each range"},
        {.option = "--save-retain",
         .member = &S::save_retain,
         .metavar = "RULE,...",
         .help =
             "after each save, delete the steps that no rule of lm-ckpt prune keeps: keep-last=K, "
             "keep-every=N, keep=STEP,..., keep-schedule=N@ITERATION,...,N, "
             "weights-only-older-than=K; the last verified step stays"},
        {.option = "--save-retain-interval",
         .member = &S::save_retain_interval,
         .metavar = "N",
         .help = "the same as --save-retain keep-last=1,keep-every=N",
         .block = Block::none},
        {.option = "--save-required",
         .member = &S::save_required,
         .help = "stop with exit code 3 when a save fails, instead of continuing to train"},
        {.option = "--save-failures",
         .member = &S::save_failures,
         .metavar = "N",
         .help = "stop with exit code 3 after N failed saves in a row"},
        {.option = "--save-retry",
         .member = &S::save_retry,
         .metavar = "TIME",
         .help = "retry a failed save at the end of the run for TIME, then stop with exit code 3"},
        {.option = "--async-save",
         .member = &S::async_save,
         .help = "write checkpoints from a copy in host memory while the training continues; the "
                 "last checkpoint is written before the run stops",
         .choices = {"on", "off"},
         .optional_value = true},
        {.option = "--async-save-buffer",
         .member = &S::async_save_buffer,
         .metavar = "SIZE",
         .help = "host memory of a rank for the copy of --async-save; default: the size of the "
                 "rank's part of a checkpoint; if SIZE is smaller than that part, the next "
                 "optimizer step waits until the rest is written"},
        {.option = "--local-save,--non-persistent-local-ckpt-dir",
         .member = &S::local_save,
         .metavar = "DIR",
         .help =
             "also save to DIR/HOST on the storage of each node, with a copy on a partner node; a "
             "restart with the same flags loads the newest step of --local-save and --save"},
        {.option = "--local-save-interval,--non-persistent-save-interval",
         .member = &S::local_save_interval,
         .metavar = "K",
         .help = "save to --local-save every K iterations"},
    };
    return fields;
}

}  // namespace lm::config
