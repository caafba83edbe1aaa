// SPDX-License-Identifier: Apache-2.0
// Collected from pretrain_gpt.py's arguments and the scripts of published trainings.
#include "config/megatron_flags.hpp"

#include <algorithm>
#include <span>
#include <string_view>

namespace lm::config {
namespace {

struct Flag {
    const char* names;
    int n_values;  // -1: any number
    const char* text;
};

constexpr const char* one_kernel = "there is one implementation, chosen by the device";
constexpr const char* mapped_data = "batches are read from mapped files without loader processes";
constexpr const char* no_rng_state =
    "random numbers depend on the seed and their place alone: there is no state";
constexpr const char* own_rows =
    "--sequence-parallel cuts what is kept over tensor ranks; without it they keep copies";
constexpr const char* no_size = "no size and no time depends on it";
constexpr const char* one_buffer = "gradients always lie in one contiguous fp32 buffer";

// Accepted: what happens instead.
constexpr Flag accepted[] = {
    {"--distributed-backend", 1, "how ranks communicate follows from how they were started"},
    {"--DDP-impl", 1, one_buffer},
    {"--use-contiguous-buffers-in-ddp", 0, one_buffer},
    {"--no-contiguous-buffers-in-local-ddp", 0, one_buffer},
    {"--use-contiguous-buffers-in-local-ddp", 0, one_buffer},
    {"--accumulate-allreduce-grads-in-fp32", 0, "gradients are always accumulated in fp32"},
    {"--loss-scale", 1, no_size},
    {"--initial-loss-scale", 1, no_size},
    {"--min-loss-scale", 1, no_size},
    {"--loss-scale-window", 1, no_size},
    {"--hysteresis", 1, no_size},
    {"--data-impl", 1, "the data's format is read from its index"},
    {"--num-workers", 1, mapped_data},
    {"--valid-num-workers", 1, mapped_data},
    {"--mmap-warmup", 0, "pages of the data are read when they are needed"},
    {"--no-masked-softmax-fusion", 0, one_kernel},
    {"--no-bias-dropout-fusion", 0, one_kernel},
    {"--no-rope-fusion", 0, one_kernel},
    {"--no-persist-layer-norm", 0, one_kernel},
    {"--no-gradient-accumulation-fusion", 0, one_kernel},
    {"--no-bias-swiglu-fusion", 0, one_kernel},
    {"--abort-on-unmet-fused-kernel-constraints", 0, one_kernel},
    {"--use-flash-attn", 0, one_kernel},
    {"--transformer-impl", 1, one_kernel},
    {"--attention-backend", 1, one_kernel},
    {"--use-mcore-models", 0, one_kernel},
    {"--use-legacy-models", 0, one_kernel},
    {"--attention-softmax-in-fp32", 0, "the softmax is always computed in fp32"},
    {"--apply-query-key-layer-scaling", 0,
     "attention scores are fp32 and need no scaling by layer, which cancels out anyway"},
    {"--no-query-key-layer-scaling", 0, "attention scores are never scaled by layer"},
    {"--sync-tp-duplicated-parameters", 0, "copies of a parameter get the same bits in each step"},
    {"--deepspeed", 0, "DeepSpeed is not used; the file of --deepspeed_config is read"},
    {"--deepspeed-activation-checkpointing", 0, "DeepSpeed is not used"},
    {"--no-pipeline-parallel", 0, "DeepSpeed is not used"},
    {"--use-cpu-initialization", 0,
     "initial weights depend on the seed and the tensor alone, wherever they are made"},
    {"--lazy-mpu-init", 1, "nothing is initialized lazily"},
    {"--no-async-tensor-model-parallel-allreduce", 0, "no result depends on it"},
    {"--distribute-saved-activations", 0, own_rows},
    {"--distribute-checkpointed-activations", 0, own_rows},
    {"--partition-activations", 0, own_rows},
    {"--empty-unused-memory-level", 1, "all memory is allocated once, before the first step"},
    {"--log-throughput", 0, "every log line has the throughput"},
    {"--log-level", 1, "messages have no levels"},
    {"--log-level-replica", 1, "messages have no levels"},
    {"--override-lr-scheduler", 0, no_size},
    {"--override-opt_param-scheduler", 0, no_size},
    {"--no-save-rng", 0, no_rng_state},
    {"--no-load-rng", 0, no_rng_state},
    {"--tensorboard-log-interval", 1, "TensorBoard gets every iteration"},
    {"--no-log-learnig-rate-to-tensorboard", 0, "TensorBoard gets the learning rate"},
    {"--no-log-loss-scale-to-tensorboard", 0, "TensorBoard gets the loss scale of fp16"},
    {"--log-memory-to-tensorboard", 0, "all memory is allocated before the first step"},
};

constexpr const char* no_model = "no such model here";
constexpr const char* no_moe = "mixtures of experts are not supported";
constexpr const char* no_fp8 = "fp8 is not supported";

// Not built yet: a plan goes on, a training does not.
constexpr Flag not_yet[] = {
    {"--async-save", 0, "checkpoints are saved between two steps so far"},
    {"--codecarbon-dir", 1, "energy is not measured yet: leave it out"},
    {"--log-params-norm", 0, "the norm of the parameters is not logged yet"},
    {"--log-num-zeros-in-grad", 0, "zeros in gradients are not counted yet"},
};

// Refused: why.
constexpr Flag refused[] = {
    {"--apply-residual-connection-post-layernorm", 0, no_model},
    {"--onnx-safe", 0, no_model},
    {"--squared-relu", 0, no_model},
    {"--add-qkv-bias", 0, no_model},
    {"--qk-layernorm", 0, no_model},
    {"--apply-layernorm-1p", 0, no_model},
    {"--rotary-percent", 1, "only whole heads are rotated here"},
    {"--rotary-interleaved", 0, "only halves are rotated here, not pairs"},
    {"--rotary-seq-len-interpolation-factor", 1, no_model},
    {"--use-rope-scaling", 0, no_model},
    {"--window-size", -1, "attention windows are not supported"},
    {"--multi-latent-attention", 0, no_model},
    {"--init-method-xavier-uniform", 0, "weights are initialized with a normal distribution"},
    {"--num-experts", 1, no_moe},
    {"--expert-model-parallel-size", 1, no_moe},
    {"--moe-router-topk", 1, no_moe},
    {"--context-parallel-size", 1, "sequences are not cut over ranks"},
    {"--fp8-format", 1, no_fp8},
    {"--fp8-hybrid", 0, no_fp8},
    {"--universal-checkpoint", 0, "DeepSpeed checkpoints are not read"},
    {"--use-bnb-optimizer", 0, "8-bit optimizer states are not supported"},
    {"--use-checkpoint-lr-scheduler", 0,
     "the schedule of the command line holds: give the checkpoint's values there"},
    {"--use-checkpoint-opt_param-scheduler", 0,
     "the schedule of the command line holds: give the checkpoint's values there"},
    {"--no-save-optim", 0, "a checkpoint is always saved whole"},
    {"--start-weight-decay", 1, "weight decay is constant"},
    {"--end-weight-decay", 1, "weight decay is constant"},
    {"--weight-decay-incr-style", 1, "weight decay is constant"},
    {"--loss-on-targets-only", 0, "the loss counts every token"},
    {"--inference", 0, "lm-train only trains"},
    {"--eval-only", 1, "lm-train only trains"},
    {"--log-path", 1, "standard output has the log"},
};

std::string undeclared_names(const cli::Options& options, std::string_view names) {
    std::string kept;
    while (!names.empty()) {
        const size_t comma = std::min(names.find(','), names.size());
        const std::string name(names.substr(0, comma));
        names.remove_prefix(std::min(comma + 1, names.size()));
        const bool declared = std::ranges::any_of(options.table(), [&](const cli::Option& option) {
            return std::ranges::find(option.names, name) != option.names.end();
        });
        if (!declared) kept += (kept.empty() ? "" : ",") + name;
    }
    return kept;
}

}  // namespace

void add_megatron_flags(cli::Options& options, MegatronChoices& choices) {
    options.group("Megatron");
    if (!undeclared_names(options, "--optimizer").empty()) {
        options.choice("--optimizer", &choices.optimizer, {"adam"}, "AdamW, which is all there is");
    }
    if (!undeclared_names(options, "--dataloader-type").empty()) {
        options.choice("--dataloader-type", &choices.dataloader, {"single"},
                       "each sample once per epoch, in a shuffled order");
    }
    for (const Flag& flag : accepted) {
        const std::string names = undeclared_names(options, flag.names);
        if (!names.empty()) options.accepted(names, flag.n_values, flag.text);
    }
    for (const Flag& flag : not_yet) {
        const std::string names = undeclared_names(options, flag.names);
        if (!names.empty()) options.later(names, flag.n_values, flag.text);
    }
    for (const Flag& flag : refused) {
        const std::string names = undeclared_names(options, flag.names);
        if (!names.empty()) options.refused(names, flag.n_values, flag.text);
    }
}

}  // namespace lm::config
