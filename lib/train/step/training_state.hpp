// SPDX-License-Identifier: Apache-2.0
// The state of one rank: the weights, the fp32 masters and the optimizer's state, which a step
// updates and a checkpoint contains, and the gradients. Weights and gradients are flat buffers of E
// elements, padding included (spec::flat_elements), with one layout (model::ParamMap). Masters and
// optimizer state have the S elements that this rank's optimizer updates. S is E, or with ZeRO-1
// the rank's share of E, about E / dp (parallel/buckets.hpp).
#pragma once

#include <memory>
#include <vector>

#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/save.hpp"
#include "model/params.hpp"
#include "parallel/data_parallel.hpp"
#include "parallel/grid.hpp"
#include "train/step/training_memory.hpp"

namespace lm::train {

class TrainingState {
  public:
    // Stores views of `memory`. `device`, `grid` and `memory` outlive this object.
    TrainingState(const TrainerConfig& config, device::Device& device, parallel::Grid& grid,
                  const TrainingMemory& memory);
    TrainingState(const TrainingState&) = delete;
    TrainingState& operator=(const TrainingState&) = delete;

    const model::ParamMap& params() const { return map_; }
    parallel::DataParallel& data_parallel() { return *data_parallel_; }

    // The flat buffer of the weights, [E] compute. While a gather is pending, read only
    // gathered_weights(), which waits for the gather.
    const device::View& weights() const { return weights_; }
    const device::View& gathered_weights();
    const device::View& gradients() const { return gradients_; }  // [E] fp32

    // Connects the groups for the collectives of a step. Uses weights and gradients as buffers,
    // which must be zero before the call and are zero after it. Collective.
    void warm_up();

    // Sets fresh weights from the seed.
    void initialize(device::Context& context);

    // Sums the gradients of the word embedding matrix that the first and the last stage share. Each
    // stage has the gradient of its own use of the matrix. Collective over the embedding group.
    void sum_tied_embedding();
    // Adds the squares of the gradients that this rank counts to step_sums[gradient_sum_squares],
    // [1] fp64. Adds the squares of this rank's copies of gradients that tensor rank 0 counts to
    // step_sums[copies_sum_squares], [1] fp64.
    void add_gradient_squares(device::Context& context, const device::View& step_sums);
    // Returns the sums of squares of the gradients that this rank counts, by unit
    // (spec/partition.hpp). Overwrites step_sums[gradient_sum_squares], [1] fp64.
    std::vector<double> gradient_squares_by_unit(device::Context& context,
                                                 const device::View& step_sums);
    // Returns the sum of squares of the fp32 weights that this rank counts. Overwrites
    // step_sums[gradient_sum_squares], [1] fp64.
    double weight_squares(device::Context& context, const device::View& step_sums);
    // Returns the number of gradients that this rank counts and that are zero.
    i64 zero_gradients();
    // Makes one update with the gradients multiplied by `grad_scale`. The weights that other
    // ranks update keep their old values on this rank until data_parallel().start_gather() gathers
    // the new values.
    void update(device::Context& context, const spec::UpdateRates& rates, double grad_scale);
    i64 optimizer_step() const { return optimizer_step_; }

    // Returns this rank's part of a checkpoint. The parts of all ranks together contain each
    // element once. The pieces refer to the buffers and are valid until the next step.
    std::vector<ckpt::Piece> checkpoint_pieces();
    // Loads a checkpoint of any layout. Reads only this rank's share of the weights, because the
    // data-parallel ranks divide the reading. Call gather_loaded() next to exchange the shares.
    // `with_optimizer` false: loads weights and masters only; the optimizer's state and the step
    // count stay 0.
    void load(const ckpt::Checkpoint& checkpoint, bool with_optimizer);
    // Loads weights, rounded to `dtype`, into fp32 weights on the CPU. Reads the weights of the
    // checkpoint if they have this type, otherwise the masters of the checkpoint. Call
    // gather_loaded() afterwards.
    void load_rounded(const ckpt::Checkpoint& checkpoint, DType dtype);
    // Gathers the weights that load() has read on the data-parallel ranks. Collective.
    void gather_loaded() { data_parallel_->gather_owned(); }

    // Throws JointError(self_stopped) naming the tensor and the ranks when replicas of the same
    // state differ. Collective over the grid.
    void check_replicas(device::Context& context);

  private:
    void build_data_parallel(const TrainerConfig& config);
    void bind_optimizer(const TrainerConfig& config, const TrainingMemory& memory);
    template <typename Body>
    void for_masters(const Body& body);
    // Loads elements `range` of the flat buffers. target: [range.size()] of any dtype.
    void load_range(const ckpt::Checkpoint& checkpoint, ckpt::SliceKind kind,
                    const device::View& target, const Range& range);

    device::Device& device_;
    parallel::Grid& grid_;
    model::ParamMap map_;
    u64 seed_;
    int n_threads_;
    i64 n_units_;                             // embedding, layers, head
    device::View weights_;                    // [E] compute
    device::View masters_;                    // [S] fp32; empty if the weights are fp32
    device::View gradients_;                  // [E] fp32
    std::vector<optim::StateBuffer> states_;  // of the optimizer
    std::unique_ptr<parallel::DataParallel> data_parallel_;
    std::unique_ptr<optim::Optimizer> optimizer_;
    // Elements whose gradients this rank counts in the gradient norm.
    std::vector<Range> counted_;
    std::vector<Range> copies_;  // elements that tensor rank 0 counts for this rank
    // The part of the tied word embedding matrix (of the first and the last stage) that this rank
    // updates.
    std::vector<Range> tied_;
    i64 optimizer_step_ = 0;
};

}  // namespace lm::train
