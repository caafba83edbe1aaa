// SPDX-License-Identifier: Apache-2.0
#include "config/train_flags.hpp"

#include "config/tokenizer_flags.hpp"

namespace lm::config {
namespace {

void add_data(cli::Options& options, DataFlags& data) {
    options.group("Data");
    options.values(
        "--data-path", &data.data_path, "[WEIGHT] PREFIX ...",
        "tokens to train on: the PREFIX of a .bin and .idx pair that lm-preprocess made, "
        "or several with their weights");
    options.value("--split", &data.split, "A,B,C",
                  "parts of the documents of --data-path for training, validation and test");
    options.values("--train-data-path", &data.train_path, "[WEIGHT] PREFIX ...",
                   "instead of --data-path: whole datasets for training");
    options.values("--valid-data-path", &data.valid_path, "[WEIGHT] PREFIX ...",
                   "whole datasets for validation");
    options.values("--test-data-path", &data.test_path, "[WEIGHT] PREFIX ...",
                   "whole datasets for the test at the end of the training");
    options.values(
        "--train-weighted-split-paths", &data.train_groups, "GROUP",
        "instead of --data-path: one group \"NAME: WEIGHT FROM:TO PREFIX, ...\" to train on");
    options.value("--train-weighted-split-paths-path", &data.train_groups_file, "FILE",
                  "file with that group");
    options.values("--valid-weighted-split-paths", &data.valid_groups, "GROUP",
                   "such groups for validation, each evaluated and logged under its own name");
    options.value("--valid-weighted-split-paths-path", &data.valid_groups_file, "FILE",
                  "file with those groups, each between double quotes");
    options.values("--test-weighted-split-paths", &data.test_groups, "GROUP",
                   "such groups for the test at the end of the training");
    options.value("--test-weighted-split-paths-path", &data.test_groups_file, "FILE",
                  "file with those groups");
    options.choice("--data-order", &data.order, {"stateless", "megatron", "megatron-deepspeed"},
                   "order of the samples: ours, which needs no index, or bit for bit that of "
                   "Megatron-LM or of BigScience's Megatron-DeepSpeed");
    options.value("--data-cache-path", &data.cache_path, "DIR",
                  "where the processes of a node share the index of Megatron's orders; default: a "
                  "directory of this user under TMPDIR for large ones; none: each has its own in "
                  "memory");
    options.flag("--mock-data", &data.mock_data,
                 "train on random tokens, to measure speed without data");
    add_tokenizer_options(options, data.tokenizer,
                          "it tells the vocabulary size and the end-of-document token; without it "
                          "the data's side file does");
    options.flag("--reset-position-ids", &data.reset_position_ids,
                 "start positions at 0 after each end-of-document token");
    options.flag("--reset-attention-mask", &data.reset_attention_mask,
                 "let no token attend across an end-of-document token");
    options.flag("--eod-mask-loss", &data.eod_mask_loss,
                 "do not count what is predicted from an end-of-document token");
}

void add_curriculum(cli::Options& options, CurriculumFlags& curriculum) {
    options.choice("--curriculum-learning-type", &curriculum.type, {"seqlen"},
                   "train on the first tokens of each sample only, more of them as time goes on");
    options.choice("--curriculum-schedule", &curriculum.schedule,
                   {"fixed_linear", "fixed_root", "fixed_discrete"},
                   "how the sequences grow from iteration to iteration");
    options.value("--curriculum-min-difficulty", &curriculum.min_difficulty, "N",
                  "tokens of a sequence at the start");
    options.value("--curriculum-max-difficulty", &curriculum.max_difficulty, "N",
                  "tokens of a sequence at the end; default: the sequence length");
    options.value("--curriculum-total-steps", &curriculum.total_steps, "N",
                  "iterations until the end is reached");
    options.value("--curriculum-difficulty-step", &curriculum.difficulty_step, "N",
                  "sequences have multiples of N tokens");
    options.value("--curriculum-root-degree", &curriculum.root_degree, "N",
                  "degree of the root of fixed_root");
    options.values("--curriculum-difficulties", &curriculum.difficulties, "N ...",
                   "fixed_discrete: tokens of a sequence, one stage after the other");
    options.values("--curriculum-max-steps", &curriculum.max_steps, "N ...",
                   "fixed_discrete: the last iteration of each stage but the last");
}

void add_schedule(cli::Options& options, ScheduleFlags& schedule) {
    options.group("Schedule");
    options.value(
        "--micro-batch-size", &schedule.micro_batch, "N",
        "sequences that a rank computes at a time; a training needs it, lm-estimate takes 1 "
        "without it");
    options.value("--global-batch-size", &schedule.global_batch, "N",
                  "sequences of one optimizer step; default: the micro-batch size");
    options.values("--rampup-batch-size", &schedule.rampup, "START INCREMENT SAMPLES",
                   "start with batches of START and add INCREMENT at a time, reaching the global "
                   "batch size after SAMPLES samples");
    options.value("--train-samples", &schedule.train_samples, "N",
                  "length of the training: stop after N samples; or by one of the next two");
    options.value("--train-iters", &schedule.train_iters, "N", "stop after N iterations");
    options.value("--train-tokens", &schedule.train_tokens, "N", "stop after N tokens");
    options.value("--lr", &schedule.lr, "RATE", "highest learning rate; must be given");
    options.value("--min-lr", &schedule.min_lr, "RATE", "learning rate at the end of the decay");
    options.choice("--lr-decay-style", &schedule.lr_decay_style,
                   {"constant", "linear", "cosine", "inverse-square-root", "WSD"},
                   "how the learning rate falls after the warm-up");
    options.value("--lr-warmup-samples", &schedule.lr_warmup_samples, "N",
                  "samples over which the learning rate rises from 0");
    options.value("--lr-warmup-iters", &schedule.lr_warmup_iters, "N", "the same in iterations");
    options.value("--lr-warmup-fraction", &schedule.lr_warmup_fraction, "F",
                  "the same as a fraction of the decay");
    options.value("--lr-warmup-init", &schedule.lr_warmup_init, "RATE",
                  "learning rate that the warm-up starts from");
    options.value("--lr-decay-samples", &schedule.lr_decay_samples, "N",
                  "samples after which --min-lr is reached; default: the whole training");
    options.value("--lr-decay-iters", &schedule.lr_decay_iters, "N", "the same in iterations");
    options.value("--lr-decay-tokens", &schedule.lr_decay_tokens, "N", "the same in tokens");
    options.choice("--lr-wsd-decay-style", &schedule.lr_wsd_decay_style,
                   {"exponential", "linear", "cosine", "minus_sqrt"},
                   "how WSD ends its stable phase");
    options.value("--lr-wsd-decay-samples", &schedule.lr_wsd_decay_samples, "N",
                  "samples of that last phase");
    options.value("--lr-wsd-decay-iters", &schedule.lr_wsd_decay_iters, "N",
                  "the same in iterations");

    add_curriculum(options, schedule.curriculum);
    options.group("Optimizer");
    options.value("--adam-beta1", &schedule.adam_beta1, "B",
                  "decay of the gradient's running mean");
    options.value("--adam-beta2", &schedule.adam_beta2, "B", "decay of its running square");
    options.value("--adam-eps", &schedule.adam_eps, "E", "added to the root of the running square");
    options.value("--weight-decay", &schedule.weight_decay, "W",
                  "decoupled decay of matrices and embeddings");
    options.value("--clip-grad", &schedule.clip_grad, "NORM",
                  "largest global gradient norm; 0: no clipping");
}

void add_checkpoints(cli::Options& options, OutputFlags& output) {
    options.group("Checkpoints");
    options.value("--save", &output.save, "DIR", "directory that checkpoints are written to");
    options.value("--load", &output.load, "DIR",
                  "resume from the newest complete checkpoint in DIR, or from DIR/global_stepN; an "
                  "empty DIR starts from the beginning");
    options.flag("--fresh", &output.fresh, "start from the beginning when --load does not exist");
    options.flag("--exit-on-missing-checkpoint", &output.exit_on_missing,
                 "stop when --load is empty, rather than start from the beginning");
    options.flag("--finetune", &output.finetune,
                 "load the weights only: start at iteration 0 with fresh optimizer state");
    options.flag("--no-load-optim", &output.no_load_optim,
                 "keep the counters of --load but start with fresh optimizer state");
    options.flag(
        "--override-opt_param-scheduler,--override-lr-scheduler,"
        "--override-opt-param-scheduler",
        &output.override_schedule,
        "resume with another schedule of learning rate, weight decay or curriculum than "
        "the checkpoint's");
    options.flag("--override-data", &output.override_data,
                 "resume on other samples than the checkpoint's: other data, split, order, seed or "
                 "sequence length");
    options.flag("--override-tokenizer", &output.override_tokenizer,
                 "load a checkpoint whose data another tokenizer made");
    options.value("--save-interval", &output.save_interval, "N", "save every N iterations");
    options.value(
        "--save-schedule", &output.save_schedule, "N@ITERATION,...,N",
        "save every N iterations up to ITERATION, then by the next range; the end of each "
        "range is saved too");
}

void add_stopping(cli::Options& options, OutputFlags& output) {
    options.group("Stopping");
    options.value("--exit-interval", &output.exit_interval, "N",
                  "save and stop after N iterations of this run, exit code 75");
    options.value("--exit-iteration", &output.exit_iteration, "N",
                  "save and stop at iteration N, exit code 0");
    options.value("--exit-samples", &output.exit_samples, "N",
                  "save and stop when N samples have been consumed, exit code 0");
    options.value("--exit-duration-in-mins", &output.exit_duration_min, "MINUTES",
                  "save and stop after so long, exit code 75");
    options.value("--kill-switch-path", &output.kill_switch, "FILE",
                  "save and stop when FILE exists, exit code 76");
    options.value("--save-switch-path", &output.save_switch, "FILE",
                  "save when FILE exists, remove it and go on");
    options.values("--skip-train-iteration-range", &output.skip_ranges, "A-B",
                   "take the batches of iterations A to B but do not train on them");
}

void add_logging(cli::Options& options, OutputFlags& output) {
    options.group("Logging");
    options.value("--log-interval", &output.log_interval, "N", "log every N iterations");
    options.value("--eval-interval", &output.eval_interval, "N", "validate every N iterations");
    options.value("--eval-iters", &output.eval_iters, "N",
                  "global batches of a validation; 0: no validation");
    options.value("--log-file", &output.log_file, "FILE",
                  "append the log lines to FILE as well, whole lines only");
    options.value("--log-json", &output.log_json, "FILE",
                  "append one JSON object a logged iteration");
    options.value("--tensorboard-dir", &output.tensorboard_dir, "DIR", "write TensorBoard events");
    options.value("--tensorboard-queue-size", &output.tensorboard_queue_size, "N",
                  "TensorBoard events kept back at most; each log line writes out all");
    options.flag("--log-timers-to-tensorboard", &output.log_timers,
                 "the time of an iteration among the TensorBoard scalars");
    options.flag("--log-batch-size-to-tensorboard", &output.log_batch_size,
                 "the batch size among the TensorBoard scalars");
    options.flag("--log-validation-ppl-to-tensorboard", &output.log_validation_ppl,
                 "the validation perplexity among the TensorBoard scalars");
}

// What is done instead of a training, or beside it.
void add_other(cli::Options& options, OutputFlags& output) {
    options.group("Other");
    options.flag("--dry-run", &output.dry_run,
                 "print the plan and check every file and flag, but do not train");
    options.value(
        "--world-size", &output.world_size, "N",
        "ranks of the whole training that is planned; lm-train: with --dry-run, as if N had been "
        "started");
    options.value("--show-samples", &output.show_samples, "A-B",
                  "print what samples A to B of the training are as JSON Lines, and do not train; "
                  "samples count from 0, 'consumed samples: N' in a log means 0 to N-1");
    options.flag("--print-config", &output.print_config,
                 "print the resolved configuration as JSON");
    options.flag(
        "--benchmark", &output.benchmark,
        "measure: no validation, no saves; print tokens/s, FLOP/s and the time of each operation");
}

void add_loss_scale(cli::Options& options, spec::LossScaleConfig& scale) {
    options.value("--loss-scale", &scale.fixed, "X",
                  "fixed factor of the loss with --fp16; default: a scale that moves");
    options.value("--initial-loss-scale", &scale.initial, "X", "where the moving scale begins");
    options.value("--min-loss-scale", &scale.min, "X", "where it stops to fall");
    options.value("--loss-scale-window", &scale.window, "N",
                  "steps without overflow after which it doubles");
    options.value("--hysteresis", &scale.hysteresis, "N",
                  "overflows since the last doubling from which on each one halves it");
}

}  // namespace

spec::GpuAttention TrainFlags::attention() const {
    if (attention_backend != "fused") return spec::GpuAttention::flash;
    return deterministic_mode ? spec::GpuAttention::cudnn_deterministic : spec::GpuAttention::cudnn;
}

void add_train_options(cli::Options& options, TrainFlags& flags) {
    add_model_options(options, flags.model);
    add_data(options, flags.data);
    add_schedule(options, flags.schedule);
    add_precision_options(options, flags.precision);
    add_loss_scale(options, flags.loss_scale);
    add_parallel_options(options, flags.parallel);
    add_data_parallel_options(options, flags.data_parallel);
    options.group("DeepSpeed");
    options.value("--deepspeed_config,--deepspeed-config", &flags.deepspeed_config, "FILE",
                  "take batch sizes, precision, clipping and curriculum from a DeepSpeed "
                  "configuration, as if they had been given as flags");
    options.group("Device");
    options.choice("--device", &flags.device, {"auto", "cpu", "cuda"},
                   "where to compute; auto: on a GPU where there is one that can be used");
    options.choice("--attention-backend", &flags.attention_backend,
                   {"auto", "flash", "fused", "unfused", "local"},
                   "whose kernels compute attention on a GPU: fused, cuDNN's, for what they can; "
                   "otherwise lm-train's flash attention");
    options.flag(
        "--deterministic-mode", &flags.deterministic_mode,
        "the same bits in every run, as always, also with --attention-backend fused, which "
        "takes memory and time for it");
    options.flag("--allow-tf32", &flags.allow_tf32,
                 "let a GPU round the operands of fp32 matrix products to TF32 (10 bits)");
    options.value("--autotune", &flags.autotune, "DIR",
                  "before the first step, measure on a GPU how to do each matrix product, and keep "
                  "the choices in DIR; what is there is taken as it is; default: the library's "
                  "first choice");
    options.value("--threads", &flags.threads, "N",
                  "CPU threads of each rank; default: all cores that it may use, shared equally by "
                  "the ranks of a host");
    add_checkpoints(options, flags.output);
    add_stopping(options, flags.output);
    add_logging(options, flags.output);
    add_other(options, flags.output);
    add_megatron_flags(options, flags.megatron);
}

}  // namespace lm::config
