// SPDX-License-Identifier: Apache-2.0
// The training step of one rank: the rank's part of the model, its state, and the step that updates
// the state together with the other ranks of the grid. A step allocates nothing and waits for the
// device once. The loop (train/loop/loop.hpp) calls the parts of a step, and does the work between
// steps: data, logs, evaluation, saves.
//
// Operations may be pending between two calls of a trainer's functions. So a rank that is a thread
// must call Group::abort() before an exception destroys its trainer
// (tests/comm/threads/run_ranks.hpp). A rank that is a process ends its whole job instead
// (comm/launch.hpp).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <span>

#include "comm/flight_recorder.hpp"
#include "device/device.hpp"
#include "model/chunk.hpp"
#include "parallel/grid.hpp"
#include "parallel/overlap.hpp"
#include "parallel/stage_transfers.hpp"
#include "train/step/batch_source.hpp"
#include "train/step/phase_times.hpp"
#include "train/step/step_probe.hpp"
#include "train/step/training_state.hpp"

namespace lm::train {

// The loss and the gradient norm of a step, equal on all ranks.
struct StepResult {
    double loss = 0;            // mean over the unmasked tokens of all ranks, before the update
    double gradient_norm = 0;   // over all ranks, before clipping
    bool finite = false;        // loss and norm are finite; false: do not update the weights
    bool overflow = false;      // not finite only because of the loss scale; set by StepGuard
    double gradient_scale = 1;  // the gradients in memory are multiplied by this factor
    double loss_scale = 1;      // loss scale of the next step
};

// The sum of the losses of unmasked tokens, and their number, over all ranks.
struct LossSum {
    double loss = 0;
    double tokens = 0;
    double mean() const { return tokens > 0 ? loss / tokens : 0; }
    LossSum& operator+=(const LossSum& other) {
        loss += other.loss;
        tokens += other.tokens;
        return *this;
    }
};

// A step or an evaluation asks this function before it reads each micro-batch, and ends when the
// answer is true. The function may be collective: each rank of a step without a pipeline asks it
// equally often. Empty: never true.
using MustEnd = std::function<bool()>;

class Trainer {
  public:
    // Allocates the memory that cost::plan_memory() states, and returns a trainer in it, for
    // sequences of the model's length. Writes the constants of that length, such as positions, to
    // the device. The weights are 0 until initialize() or load(). `grid` is the grid of
    // config.parallel. `device` outlives the trainer.
    static std::unique_ptr<Trainer> allocate(const TrainerConfig& config, device::Device& device,
                                             parallel::Grid grid = parallel::single());
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;

    // Connects the groups for the communication of a step, so that no step has to connect them.
    // Call it before weights are set. Collective.
    void warm_up();
    // Sets fresh weights from the seed.
    void initialize();
    // Loads a checkpoint of any layout. `with_optimizer` false: only weights and masters. The
    // weights are complete after gather_loaded(), which is collective. load() is not collective, so
    // that a rank that finds the checkpoint corrupt can report it to the other ranks.
    void load(const ckpt::Checkpoint& checkpoint, bool with_optimizer);
    // Loads the weights, rounded to `dtype`, for forward passes of an fp32 trainer on the CPU.
    void load_rounded(const ckpt::Checkpoint& checkpoint, DType dtype) {
        state_.load_rounded(checkpoint, dtype);
    }
    void gather_loaded() { state_.gather_loaded(); }
    // Restores the dynamic loss scale of a checkpoint. Does nothing with a fixed scale.
    void restore(const optim::LossScaleState& state) { scaler_.restore(state); }
    // Sets the loss scale of the next step, even if the scale is fixed.
    void set_loss_scale(const optim::LossScaleState& state) { scaler_.set_state(state); }

    // Sets the sequence length of later batches, at most the model's. Memory stays allocated for
    // the model's sequence length.
    void set_seq_length(i64 seq_length);

    // A training step calls compute_gradients(). If the verdict on the result (StepGuard) allows an
    // update, it then calls update(). Both functions are collective.
    //
    // Computes the loss and the gradients of `n_micro_batches` micro-batches of each data-parallel
    // rank, sums the gradients over the ranks and computes their norm. Adjusts a dynamic loss
    // scale. Changes no weights and no optimizer state. Returns nullopt, without a result, when
    // `must_end` has ended the step.
    std::optional<StepResult> compute_gradients(BatchSource& batches, i64 n_micro_batches,
                                                const MustEnd& must_end);
    StepResult compute_gradients(BatchSource& batches, i64 n_micro_batches) {
        return *compute_gradients(batches, n_micro_batches, {});
    }
    // Clips the gradients of `step`, the last result of compute_gradients(), and makes the
    // optimizer step. Changes the data of checkpoint_pieces().
    void update(const StepResult& step, const spec::UpdateRates& rates);

    // Returns the loss of `n_micro_batches` micro-batches of each data-parallel rank, without
    // dropout; nullopt when `must_end` has ended the evaluation. Changes no state. Collective.
    std::optional<LossSum> evaluate(BatchSource& batches, i64 n_micro_batches,
                                    const MustEnd& must_end);
    LossSum evaluate(BatchSource& batches, i64 n_micro_batches) {
        return *evaluate(batches, n_micro_batches, {});
    }

    using VisitRow = std::function<void(i64 row, std::span<const float> logits)>;
    // Computes the logits of one micro-batch, without dropout. Needs a single rank with the whole
    // model. Calls `visit` for each row (b * T + t) with the logits of the unpadded vocabulary.
    void logits(const data::Batch& batch, const VisitRow& visit);

    // Returns this rank's part of a checkpoint: TrainingState::checkpoint_pieces(). Collective.
    std::vector<ckpt::Piece> checkpoint_pieces() { return state_.checkpoint_pieces(); }
    // Throws JointError(self_stopped) when replicas of the same state differ. Collective.
    void check_replicas() {
        const PhaseScope phase(phases_, StepPhase::check);
        Context context = this->context();
        state_.check_replicas(context);
    }

    // Returns the mean loss of this rank's samples in the last step or evaluation; 0 on stages that
    // do not compute the loss and on tensor ranks other than 0.
    double local_loss() const { return local_loss_; }
    // Returns the gradient norms of the embedding, of each layer and of the head, before clipping.
    // `step`: the result of the last training step. Collective.
    std::vector<double> gradient_norms(const StepResult& step);
    StepProbe& probe() { return probe_; }
    // The times of this rank's phases. The time of an evaluation is in the phase `other`.
    PhaseTimes& phases() { return phases_; }
    // Returns the L2 norm of the fp32 weights. Collective.
    double params_norm();
    // Returns the number of elements of the last step's gradients that are zero, exact up to 2^53.
    // Collective.
    double num_zeros();

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
        // Returns `phase` in a step. The time of an evaluation is counted as `other`.
        StepPhase phase(StepPhase phase) const { return training ? phase : StepPhase::other; }
    };
    Trainer(const TrainerConfig& config, device::Device& device, parallel::Grid grid,
            TrainingMemory memory);

    // Sums of a step or an evaluation over its micro-batches, and over the ranks.
    struct StepSums {
        LossSum loss;
        double gradient_squares = 0;
    };

    bool run_schedule(const StageSchedule& schedule, BatchSource& batches, const MustEnd& must_end);
    const StageSchedule& schedule_of(bool training, i64 n_micro_batches);
    model::MicroBatch micro_batch_of(const StageSchedule& schedule,
                                     const spec::PipelineAction& action) const;
    const data::Batch* next_batch(BatchSource& batches, const spec::PipelineAction& action,
                                  const MustEnd& must_end);
    bool load_batch(const StageSchedule& schedule, const spec::PipelineAction& action,
                    BatchSource& batches, const MustEnd& must_end);
    void copy_batch(const data::Batch& batch, const model::MicroBatchInputs& inputs);
    void forward(const StageSchedule& schedule, const spec::PipelineAction& action);
    void loss(const StageSchedule& schedule, const spec::PipelineAction& action);
    void backward(const StageSchedule& schedule, const spec::PipelineAction& action);
    model::GptChunk& chunk_of(const spec::PipelineAction& action) {
        return chunks_[static_cast<size_t>(action.chunk)];
    }
    double token_weight(const StageSchedule& schedule) const;
    void reserve_sms(bool collectives);
    device::View step_sums() const;  // [step_sum_count] fp64
    void zero_step_sums();
    StepSums global_step_sums();
    double sum_over_ranks(double value);

    cost::StepShape step_shape() const;
    void build_chunks();
    void write_positions();
    void build_transfers();

    using Context = device::Context;
    Context context() { return {device_, workspace_, times_}; }
    // Records the phase in the flight recorder, and counts its time until the returned scope ends.
    [[nodiscard]] PhaseScope enter(StepPhase phase, const char* recorded, i64 micro_batch = -1) {
        if (recorder_) recorder_->enter(recorded, micro_batch);
        return {phases_, phase};
    }

    TrainerConfig config_;
    std::vector<i64> windows_;  // spec::windows() of the model
    device::Device& device_;
    parallel::Grid grid_;
    TrainingMemory memory_;
    TrainingState state_;
    device::View workspace_;  // [memory_.plan.workspace] uint8
    i64 seq_length_ = 0;
    parallel::Overlap overlap_;
    StepProbe probe_;
    PhaseTimes phases_;
    std::vector<model::GptChunk> chunks_;
    std::unique_ptr<parallel::StageTransfers> transfers_;
    StageSchedule training_schedule_, evaluation_schedule_;
    std::vector<float> no_mask_;  // [B, T] ones: used for a batch without a loss mask
    double unmasked_ = 0;         // tokens of the micro-batch that was loaded last
    double loss_tokens_ = 0;      // unmasked tokens in the loss of the step so far
    // With several chunks on a stage: the batches of the current round (next_batch()).
    std::vector<data::Batch> round_;
    optim::LossScaler scaler_;
    double local_loss_ = 0;
    device::OpTimes* times_ = nullptr;
    comm::FlightRecorder* recorder_ = nullptr;
};

}  // namespace lm::train
