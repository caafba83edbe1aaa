// SPDX-License-Identifier: Apache-2.0
// The pipeline and data parallelism as the trainer runs them, in virtual time: compute takes given
// durations, messages and collectives take the time of the modelled links, all other code is real.
#include <mutex>

#include "comm/threads/run_ranks.hpp"
#include "cost/activation_plan.hpp"
#include "cost/pipeline_time.hpp"
#include "parallel/data_parallel.hpp"
#include "run_stage.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::parallel;

namespace {

struct Times {
    // All layers of a stage on one micro-batch.
    double forward_s = 1;
    double backward_s = 2;
};

// The time of the slowest stage for one step.
double pipeline_step_s(const spec::PipelineShape& shape, const Times& times,
                       const comm::LinkModel& links) {
    std::mutex mutex;
    double slowest_s = 0;
    const spec::ParallelConfig parallel{.pp = shape.n_stages, .n_chunks = shape.n_chunks};
    comm::run_ranks_in_virtual_time(
        static_cast<int>(shape.n_stages), links,
        [&](comm::Group& world, comm::VirtualClock& clock) {
            Grid grid = make_grid(world, parallel);
            std::vector<std::vector<StageBuffers>> buffers;
            std::vector<std::vector<float>> memory;
            memory.reserve(4096);
            const auto place = [&memory]() -> device::View {
                memory.emplace_back(16);
                return {memory.back().data(), DType::fp32, {16}};
            };
            for (const i64 n_slots :
                 cost::micro_batches_in_flight(parallel, shape.n_micro_batches, grid.at.pp)) {
                buffers.emplace_back();
                for (i64 slot = 0; slot < n_slots; ++slot) {
                    buffers.back().push_back({place(), place()});
                }
            }
            const double chunks = static_cast<double>(shape.n_chunks);
            StageTransfers transfers(grid, buffers);
            const double start_s = clock.now_s();
            test::run_stage(
                transfers, spec::pipeline_actions(shape, grid.at.pp), true,
                [&](const spec::PipelineAction& action) {
                    const bool forward = action.op == spec::PipelineOp::forward;
                    clock.advance((forward ? times.forward_s : times.backward_s) / chunks);
                });
            const std::lock_guard lock(mutex);
            slowest_s = std::max(slowest_s, clock.now_s() - start_s);
        });
    return slowest_s;
}

double bubble_of(const spec::PipelineShape& shape, const comm::LinkModel& links = {}) {
    const Times times;
    const double busy_s =
        static_cast<double>(shape.n_micro_batches) * (times.forward_s + times.backward_s);
    return pipeline_step_s(shape, times, links) / busy_s - 1.0;
}

}  // namespace

TEST_CASE("the trainer's pipeline idles no longer than computed") {
    for (const spec::PipelineShape& shape :
         {spec::PipelineShape{4, 1, 8}, spec::PipelineShape{4, 2, 8}, spec::PipelineShape{8, 1, 8},
          spec::PipelineShape{8, 4, 16}, spec::PipelineShape{8, 1, 3},
          spec::PipelineShape{64, 1, 64}, spec::PipelineShape{64, 2, 64}}) {
        INFO(shape.n_stages << " stages, " << shape.n_chunks << " chunks, " << shape.n_micro_batches
                            << " micro-batches");
        const double wanted = static_cast<double>(shape.n_stages - 1) /
                              static_cast<double>(shape.n_micro_batches * shape.n_chunks);
        CHECK(bubble_of(shape) == Approx(wanted).epsilon(0.02));
    }
}

TEST_CASE("the trainer's pipeline waits for messages no longer than its schedule requires") {
    // A message takes a tenth of a forward pass.
    const comm::LinkModel links{.latency_s = 0.05, .bytes_per_s = 64 / 0.05};
    for (const spec::PipelineShape& shape :
         {spec::PipelineShape{4, 1, 32}, spec::PipelineShape{4, 2, 16}}) {
        const double chunks = static_cast<double>(shape.n_chunks);
        const double wanted_s =
            cost::pipeline_time(shape, {.passes = {{1 / chunks, 2 / chunks}}, .message_s = 0.1});
        CHECK(pipeline_step_s(shape, {}, links) == Approx(wanted_s).epsilon(0.02));
    }
}

namespace {

constexpr i64 n_layers = 8;
constexpr i64 layer_elements = 1 << 12;

// One step of `n_layers` equal layers on `dp` ranks: backward of the last micro-batch, the update,
// the next forward.
double data_step_s(int dp, int zero_stage, bool overlap, double layer_s,
                   const comm::LinkModel& links) {
    std::mutex mutex;
    double slowest_s = 0;
    comm::run_ranks_in_virtual_time(dp, links, [&](comm::Group& group, comm::VirtualClock& clock) {
        const i64 n = padded_elements(n_layers * layer_elements, dp);
        std::vector<float> weights(static_cast<size_t>(n));
        std::vector<float> gradients(static_cast<size_t>(n));
        DataParallel data(group, zero_stage,
                          {.bucket_elements = layer_elements,
                           .overlap_grad_reduce = overlap,
                           .overlap_param_gather = overlap},
                          {weights.data(), DType::fp32, {n}}, {gradients.data(), DType::fp32, {n}},
                          n_layers * layer_elements, 0);
        for (i64 layer = n_layers - 1; layer >= 0; --layer) {
            clock.advance(2 * layer_s);
            data.gradients_final(layer * layer_elements);
        }
        data.finish_reduce();
        data.start_gather();
        for (i64 layer = 0; layer < n_layers; ++layer) {
            data.wait_weights((layer + 1) * layer_elements);
            clock.advance(layer_s);
        }
        data.finish_gather();
        const std::lock_guard lock(mutex);
        slowest_s = std::max(slowest_s, clock.now_s());
    });
    return slowest_s;
}

}  // namespace

TEST_CASE("data-parallel communication overlaps with compute as far as possible") {
    // One layer's reduce-scatter or all-gather takes 0.75 s on 4 ranks: 3 steps of a quarter.
    const comm::LinkModel links{.bytes_per_s = 4.0 * layer_elements};
    const double collective_s = 0.75;
    const double n = n_layers;
    const double compute_s = 3 * n;  // layers of 1 s forward and 2 s backward
    // Without overlap all times add up.
    CHECK(data_step_s(4, 1, false, 1, links) == Approx(compute_s + 2 * n * collective_s));
    CHECK(data_step_s(4, 0, false, 1, links) == Approx(compute_s + n * 2 * collective_s));
    // With overlap the step waits only for the last reduction and the first gathering.
    CHECK(data_step_s(4, 1, true, 1, links) == Approx(compute_s + 2 * collective_s));
    CHECK(data_step_s(4, 0, true, 1, links) == Approx(compute_s + 2 * collective_s));
    // Layers so fast that their communication takes longer than their compute.
    const double fast_s = 0.1;
    const double reduce_s = 2 * fast_s + n * collective_s;  // begins after a layer's backward
    const double gather_s = n * collective_s + fast_s;      // then a layer's forward is left
    CHECK(data_step_s(4, 1, true, fast_s, links) == Approx(reduce_s + gather_s));
}
