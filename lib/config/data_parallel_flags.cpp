// SPDX-License-Identifier: Apache-2.0
#include "config/data_parallel_flags.hpp"

#include "base/bounds.hpp"
#include "base/error.hpp"

namespace lm::config {

const Fields<ZeroFlags>& zero_fields() {
    using S = ZeroFlags;
    static const Fields<S> fields = {
        {.option = "--zero-stage",
         .member = &S::stage,
         .metavar = "0|1",
         .help = "0: every data-parallel rank has the whole optimizer state; 1: each has its part",
         .block = Block::parallel},
        {.option = "--use-distributed-optimizer",
         .member = &S::distributed_optimizer,
         .help = "the same as --zero-stage 1"},
    };
    return fields;
}

const Fields<spec::DataParallelConfig>& data_parallel_fields() {
    using S = spec::DataParallelConfig;
    static const Fields<S> fields = {
        {.option = "--overlap-grad-reduce",
         .member = &S::overlap_grad_reduce,
         .help = "reduce gradients over data-parallel ranks during backward",
         .block = Block::parallel},
        {.option = "--overlap-param-gather",
         .member = &S::overlap_param_gather,
         .help =
             "gather updated weights during the next forward; needs --use-distributed-optimizer",
         .block = Block::parallel},
        {.option = "--ddp-bucket-size",
         .member = &S::bucket_elements,
         .metavar = "N",
         .help = "number of gradient elements that are reduced at a time; default: 40 million or 1 "
                 "million x data-parallel ranks, whichever is larger",
         .block = Block::parallel},
    };
    return fields;
}

const Fields<RankCheckFlags>& rank_check_fields() {
    using S = RankCheckFlags;
    static const Fields<S> fields = {
        {.option = "--check-replicas,--check-weight-hash-across-dp-replicas-interval",
         .member = &S::check_replicas,
         .metavar = "N",
         .help = "every N iterations, compare the copies of weights and optimizer state on "
                 "different ranks, and stop when they differ; 0: never",
         .block = Block::parallel},
        {.option = "--no-node-check",
         .member = &S::node_check,
         .help = "start without comparing clocks, memory, limits, speed and network of the hosts",
         .block = Block::parallel,
         .name = "node_check",
         .clears = true},
        {.option = "--distributed-timeout-minutes",
         .member = &S::timeout_min,
         .metavar = "MINUTES",
         .help = "stop after waiting MINUTES for another rank, and name that rank"},
    };
    return fields;
}

void RankCheckFlags::check() const {
    check_at_least("--check-replicas", check_replicas, 0);
    check_above("--distributed-timeout-minutes", timeout_min, 0);
}

int resolve_zero_stage(const ZeroFlags& zero, const spec::DataParallelConfig& data_parallel) {
    check_at_least("--ddp-bucket-size", data_parallel.bucket_elements, 1);
    const i64 stage = zero.stage.value_or(zero.distributed_optimizer ? 1 : 0);
    if (stage != 0 && stage != 1) {
        usage_error("--zero-stage", "{} is not supported: use 0 or 1", stage);
    }
    if (zero.distributed_optimizer && stage == 0) {
        usage_error("--use-distributed-optimizer",
                    "cannot be combined with --zero-stage 0: give one of the two");
    }
    if (data_parallel.overlap_param_gather && stage == 0) {
        usage_error("--overlap-param-gather",
                    "needs --use-distributed-optimizer: without it every rank updates all weights "
                    "itself");
    }
    return static_cast<int>(stage);
}

}  // namespace lm::config
