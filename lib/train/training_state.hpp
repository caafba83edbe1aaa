// SPDX-License-Identifier: Apache-2.0
// The state of one rank that a step advances and a checkpoint keeps: weights, fp32 masters and
// Adam's moments; and the gradients. All are flat buffers of one layout (model::ParamMap), split
// over the data-parallel ranks (parallel/buckets.hpp). E: elements of the flat buffers, padding
// included (spec::flat_elements). U: elements that this rank's optimizer updates: E, or E / dp with
// ZeRO-1.
#pragma once

#include <memory>
#include <vector>

#include "ckpt/checkpoint.hpp"
#include "ckpt/save.hpp"
#include "model/params.hpp"
#include "parallel/data_parallel.hpp"
#include "parallel/grid.hpp"
#include "train/trainer_config.hpp"

namespace lm::train {

class TrainingState {
  public:
    // Allocates the buffers of `plan`, zero-filled. `device` and `grid` outlive this.
    TrainingState(const TrainerConfig& config, device::Device& device, parallel::Grid& grid,
                  const cost::MemoryPlan& plan);
    TrainingState(const TrainingState&) = delete;
    TrainingState& operator=(const TrainingState&) = delete;

    const model::ParamMap& params() const { return map_; }
    parallel::DataParallel& data_parallel() { return *data_parallel_; }

    // The flat buffer of the weights, [E] compute. Only gathered_weights() may be read while a
    // gather is pending: it waits for that.
    const device::View& weights() const { return weights_; }
    const device::View& gathered_weights();
    const device::View& gradients() const { return gradients_; }  // [E] fp32

    // Connects the groups for the collectives of a step. Overwrites weights and gradients, which
    // hold zeros before and afterwards. Collective.
    void warm_up();

    // Sets fresh weights, from the seed.
    void initialize(device::Context& context);

    // Adds up the gradients of the word table that first and last stage share: each has that of its
    // own use. Collective over the embedding group.
    void sum_tied_embedding();
    // Adds the sum of squares of the gradients that this rank counts to sum [1] fp64. Over all
    // ranks each gradient is counted once.
    void add_gradient_squares(device::Context& context, const device::View& sum);
    // One AdamW update with gradients multiplied by `grad_scale`. Other ranks' parts of the weights
    // are old until data_parallel().start_gather().
    void update(device::Context& context, double lr, double grad_scale);
    i64 optimizer_step() const { return optimizer_step_; }

    // Returns this rank's part of a checkpoint; the parts of all ranks contain each element once.
    // The pieces refer to the buffers: they are valid until the next step.
    std::vector<ckpt::Piece> checkpoint_pieces();
    // Loads from any layout. `with_optimizer` false: weights only; moments and step count stay 0.
    void load(const ckpt::Checkpoint& checkpoint, bool with_optimizer);

    // Throws JointError(self_stopped) naming tensor and ranks when copies of the same state differ.
    // Collective over the grid.
    void check_replicas();

  private:
    void build_data_parallel(const TrainerConfig& config);
    void bind_optimizer(const TrainerConfig& config);
    template <typename Body>
    void for_masters(const Body& body);
    void load_range(const ckpt::Checkpoint& checkpoint, ckpt::SliceKind kind,
                    const device::View& target, const Range& range);

    device::Device& device_;
    parallel::Grid& grid_;
    model::ParamMap map_;
    u64 seed_;
    int n_threads_;
    device::Buffer weight_buffer_, master_buffer_, gradient_buffer_, optimizer_buffer_;
    device::View weights_;     // [E] compute
    device::View masters_;     // [U] fp32; none: the weights are fp32 themselves
    device::View gradients_;   // [E] fp32
    device::View exp_avg_;     // [U] fp32
    device::View exp_avg_sq_;  // [U] fp32
    std::unique_ptr<parallel::DataParallel> data_parallel_;
    std::unique_ptr<optim::AdamWOptimizer> optimizer_;
    std::vector<Range> counted_;  // owned elements that no other rank counts
    std::vector<Range> tied_;     // updated elements of the table of first and last stage
    i64 optimizer_step_ = 0;
};

}  // namespace lm::train
