// SPDX-License-Identifier: Apache-2.0
#include "config/data_parallel_flags.hpp"

#include "base/error.hpp"

namespace lm::config {

void add_data_parallel_options(cli::Options& options, DataParallelFlags& flags) {
    options.group("Data parallel");
    options.flag("--use-distributed-optimizer", &flags.distributed_optimizer,
                 "cut the optimizer's state over the data-parallel ranks (ZeRO stage 1)");
    options.value("--zero-stage", &flags.zero_stage, "0|1",
                  "the same by DeepSpeed's name: 0, every rank has all of it; 1, its part");
    options.flag("--overlap-grad-reduce", &flags.overlap_grad_reduce,
                 "reduce gradients over data-parallel ranks while backward goes on");
    options.flag("--overlap-param-gather", &flags.overlap_param_gather,
                 "gather updated weights while the next forward goes on; with a distributed "
                 "optimizer");
    options.value("--ddp-bucket-size", &flags.bucket_elements, "N",
                  "gradients that are reduced at a time; default: 40 million, or a million for "
                  "each data-parallel rank when that is more");
    options.value("--check-replicas", &flags.check_replicas, "N",
                  "compare the copies of weights and optimizer state that ranks hold every N "
                  "iterations, and stop when they differ");
    options.value("--distributed-timeout-minutes", &flags.timeout_min, "MINUTES",
                  "stop when other ranks do not come for so long, naming them");
}

int resolve_zero_stage(const DataParallelFlags& flags) {
    const auto at_least_one = [](std::string_view flag, const std::optional<i64>& value) {
        if (value && *value < 1) usage_error(flag, "must be at least 1, but is {}", *value);
    };
    at_least_one("--ddp-bucket-size", flags.bucket_elements);
    at_least_one("--check-replicas", flags.check_replicas);
    if (!(flags.timeout_min > 0)) {
        usage_error("--distributed-timeout-minutes", "must be above 0, but is {}",
                    flags.timeout_min);
    }
    const i64 stage = flags.zero_stage.value_or(flags.distributed_optimizer ? 1 : 0);
    if (stage != 0 && stage != 1) {
        usage_error("--zero-stage", "{} is not supported: use 0 or 1", stage);
    }
    if (flags.distributed_optimizer && stage == 0) {
        usage_error("--use-distributed-optimizer", "contradicts --zero-stage 0: give one of them");
    }
    if (flags.overlap_param_gather && stage == 0) {
        usage_error("--overlap-param-gather",
                    "goes with --use-distributed-optimizer: without it every rank has all weights "
                    "already");
    }
    return static_cast<int>(stage);
}

}  // namespace lm::config
