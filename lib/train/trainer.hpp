// SPDX-License-Identifier: Apache-2.0
// The training step of one rank: its part of the model, its state, and the step that updates it
// together with the other ranks of the grid. A step allocates nothing and waits for the device
// once. The loop (train/loop.hpp) calls the parts of a step, and does the work between steps: data,
// logs, evaluation, saves.
//
// Operations may be pending between two calls. So before an exception destroys a trainer, a rank
// that is a thread must call Group::abort() (comm/threads/run_ranks.hpp). A rank that is a process
// ends its whole job instead (comm/launch.hpp).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <span>

#include "comm/flight_recorder.hpp"
#include "device/device.hpp"
#include "model/chunk.hpp"
#include "parallel/grid.hpp"
#include "parallel/overlap.hpp"
#include "parallel/stage_transfers.hpp"
#include "train/batch_source.hpp"
#include "train/training_state.hpp"

namespace lm::train {

// The loss and the gradients of a step, the same on all ranks.
struct StepResult {
    double loss = 0;            // mean over the micro-batches of all ranks, before the update
    double gradient_norm = 0;   // global, before clipping
    bool finite = false;        // false: the step must not update the weights
    double gradient_scale = 1;  // loss scale of this step: the factor of the gradients in memory
    double loss_scale = 1;      // loss scale of the next step
};

class Trainer {
  public:
    // Allocates the memory that cost::plan_memory() states, and returns a trainer in it, for
    // sequences of the model's length. The weights are 0 until initialize() or load(). `grid` is
    // the grid of config.parallel. `device` outlives the trainer.
    static Trainer allocate(const TrainerConfig& config, device::Device& device,
                            parallel::Grid grid = parallel::single());
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;

    // Connects the groups for the communication of a step, so that no step has to connect them.
    // Call it before weights are set. Collective.
    void warm_up();
    // Sets fresh weights from the seed.
    void initialize();
    // Loads a checkpoint of any layout. `with_optimizer` false: only the weights. The weights are
    // complete after gather_loaded(), which is collective. load() is not, so that a rank that finds
    // damage can report it to the others.
    void load(const ckpt::Checkpoint& checkpoint, bool with_optimizer);
    void gather_loaded() { state_.gather_loaded(); }
    // Restores the dynamic loss scale of a checkpoint. Does nothing with a fixed scale.
    void restore(const optim::LossScaleState& state) { scaler_.restore(state); }

    // Sets the sequence length of later batches, at most the model's. Memory stays allocated for
    // the model's sequence length.
    void set_seq_length(i64 seq_length);

    // A training step is compute_gradients(), then, if the result is finite, update(). Both are
    // collective.
    //
    // Computes the loss and the gradients of `n_micro_batches` micro-batches of each data-parallel
    // rank, sums the gradients over the ranks and computes their norm. Adjusts a dynamic loss
    // scale. Changes no weights and no optimizer state.
    StepResult compute_gradients(BatchSource& batches, i64 n_micro_batches);
    // Clips the gradients of `step`, the last result of compute_gradients(), and makes the
    // optimizer step. Changes what checkpoint_pieces() returns.
    void update(const StepResult& step, double lr);

    // Returns the mean loss of `n_micro_batches` micro-batches of each data-parallel rank, without
    // dropout. Changes no state. Collective.
    double evaluate(BatchSource& batches, i64 n_micro_batches);

    using VisitRow = std::function<void(i64 row, std::span<const float> logits)>;
    // Computes the logits of one micro-batch, without dropout, on one rank that has the whole
    // model. Calls `visit` for each row (b * T + t) with the logits of the unpadded vocabulary.
    void logits(const data::Batch& batch, const VisitRow& visit);

    // Returns this rank's part of a checkpoint: TrainingState::checkpoint_pieces(). Collective.
    std::vector<ckpt::Piece> checkpoint_pieces() { return state_.checkpoint_pieces(); }
    // Throws JointError(self_stopped) when replicas of the same state differ. Collective.
    void check_replicas() { state_.check_replicas(); }

    i64 optimizer_step() const { return state_.optimizer_step(); }
    const optim::LossScaler& loss_scaler() const { return scaler_; }
    const cost::MemoryPlan& memory() const { return memory_.plan; }
    parallel::Grid& grid() { return grid_; }

    // Adds the time of every later operation to `times`; nullptr stops measuring.
    void measure(device::OpTimes* times) { times_ = times; }
    // Records the phases of later steps in `recorder`; nullptr stops recording.
    void record_to(comm::FlightRecorder* recorder) { recorder_ = recorder; }

    // For tests: the layout of the flat buffers, the weights [E] compute, and the gradients of the
    // last step, [E] fp32.
    const model::ParamMap& params() const { return state_.params(); }
    device::View weights() { return state_.gathered_weights(); }
    device::View gradients() const { return state_.gradients(); }

  private:
    // The actions of this stage in a step or an evaluation, in order.
    struct StageSchedule {
        bool training = true;
        i64 n_micro_batches = 0;
        std::vector<spec::PipelineAction> actions;
    };
    Trainer(const TrainerConfig& config, device::Device& device, parallel::Grid grid,
            TrainingMemory memory);

    using StepSums = std::array<double, model::step_sum_count>;

    void run_schedule(const StageSchedule& schedule, BatchSource& batches);
    const StageSchedule& schedule_of(bool training, i64 n_micro_batches);
    model::MicroBatch micro_batch_of(const StageSchedule& schedule,
                                     const spec::PipelineAction& action) const;
    const data::Batch& next_batch(BatchSource& batches, const spec::PipelineAction& action);
    void copy_to_device(const data::Batch& batch, const model::MicroBatchInputs& inputs,
                        i64 n_micro_batches);
    void reserve_sms(bool collectives);
    device::View step_sum(model::StepSum which) const;  // [1] fp64
    void zero_step_sums();
    StepSums global_step_sums();

    cost::StepShape step_shape() const;
    void build_chunks();
    void write_positions();
    void build_transfers();

    device::Context context() { return {device_, workspace_, times_}; }
    void enter(const char* phase, i64 micro_batch = -1) {
        if (recorder_) recorder_->enter(phase, micro_batch);
    }

    TrainerConfig config_;
    device::Device& device_;
    parallel::Grid grid_;
    TrainingMemory memory_;
    TrainingState state_;
    device::View workspace_;  // [memory_.plan.workspace] uint8
    i64 seq_length_ = 0;
    parallel::Overlap overlap_;
    std::vector<model::GptChunk> chunks_;
    std::unique_ptr<parallel::StageTransfers> transfers_;
    StageSchedule training_schedule_, evaluation_schedule_;
    std::vector<float> loss_weight_;  // the loss weights of one micro-batch on the host
    // The batches that the first chunk has read and the stage's other chunks need again.
    std::vector<data::Batch> round_;
    optim::LossScaler scaler_;
    device::OpTimes* times_ = nullptr;
    comm::FlightRecorder* recorder_ = nullptr;
};

}  // namespace lm::train
