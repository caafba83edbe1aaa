// SPDX-License-Identifier: Apache-2.0
#include "train/start/host_memory.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/units.hpp"
#include "cluster/limits.hpp"
#include "train/step/trainer.hpp"

namespace lm::train {
namespace {

struct Need {
    cost::MemoryPlan rank;  // plan of the stage with the most memory
    i64 rank_host = 0;      // bytes of this plan in host memory
    i64 host = 0;           // bytes of all ranks on this host
};

// Returns the bytes of the plan that are in host memory.
i64 host_bytes(const TrainerConfig& trainer, const cost::MemoryPlan& plan) {
    return (trainer.cuda ? 0 : plan.total()) + plan.save_buffer;
}

Need need_of(const TrainerConfig& trainer, i64 ranks_here) {
    const spec::ParallelConfig& parallel = trainer.parallel;
    Need need;
    i64 all = 0;
    i64 least = 0;
    for (i64 stage = 0; stage < parallel.pp; ++stage) {
        const cost::MemoryPlan plan = memory_plan(trainer, 0, stage);
        const i64 bytes = host_bytes(trainer, plan);
        all += bytes * parallel.tp * parallel.dp;
        least = stage == 0 ? bytes : std::min(least, bytes);
        if (bytes < need.rank_host) continue;
        need.rank = plan;
        need.rank_host = bytes;
    }
    const bool all_here = ranks_here >= parallel.n_ranks();
    need.host = all_here ? all : least * ranks_here;
    return need;
}

// The address space that a rank uses in addition to its memory plan: stacks of threads, prefetched
// data, and the code that oneDNN generates. oneDNN does not check its allocations.
constexpr i64 address_space_beside = i64{128} << 20;

void check_address_space(const Need& need) {
    const auto room = cluster::address_room();
    const i64 wanted = need.rank_host + address_space_beside;
    if (!room || wanted <= *room) return;
    run_error("ulimit -v", "leaves {} of address space, but the training needs {}: raise the limit",
              human_size(*room), human_size(wanted));
}

}  // namespace

void check_host_memory(const RunConfig& config, i64 ranks_here) {
    const Need need = need_of(config.trainer, ranks_here);
    if (!config.trainer.cuda) check_address_space(need);
    const auto room = cluster::memory_room();
    if (!room || need.host <= room->bytes) return;
    if (config.trainer.cuda || need.host - need.rank.save_buffer * ranks_here <= room->bytes) {
        usage_error(
            "--async-save-buffer",
            "the training needs {2} on this host, of which up to {0} per rank (ranks here: {1}) "
            "buffer a save, but {3} are available ({4}): give a smaller size, or --async-save off",
            human_size(need.rank.save_buffer), ranks_here, human_size(need.host),
            human_size(room->bytes), room->whose);
    }
    usage_error(
        "--micro-batch-size",
        "{} needs {} on this host ({} rank{}; the largest has weights, gradients and optimizer "
        "{}, activations {}, workspace {}), but {} are available ({}): use a smaller "
        "value, --recompute-granularity full, a smaller model, or more hosts",
        config.trainer.micro_batch, human_size(need.host), ranks_here, ranks_here == 1 ? "" : "s",
        human_size(need.rank.weights + need.rank.masters + need.rank.gradients +
                   need.rank.optimizer),
        human_size(need.rank.activations), human_size(need.rank.workspace), human_size(room->bytes),
        room->whose);
}

}  // namespace lm::train
