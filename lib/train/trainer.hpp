// SPDX-License-Identifier: Apache-2.0
// One rank's training state and the step that advances it, together with the other ranks of the
// grid. All memory is allocated by the constructor, exactly as cost::plan_memory says; a step
// allocates nothing and waits for the device once. What to do around steps (data, logs, evaluation,
// saves) is the loop's (train/loop.hpp).
//
// step(), evaluate(), state(), load() and check_replicas() are collective: all ranks call them in
// the same order. Operations may be under way between two calls, so a rank that gives up tells the
// others (parallel::or_abort) before its trainer goes.
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "ckpt/checkpoint.hpp"
#include "ckpt/index.hpp"
#include "ckpt/save.hpp"
#include "comm/flight_recorder.hpp"
#include "data/sampling/loader.hpp"
#include "device/device.hpp"
#include "model/chunk.hpp"
#include "optim/loss_scaler.hpp"
#include "optim/optimizer.hpp"
#include "parallel/data_parallel.hpp"
#include "parallel/grid.hpp"
#include "parallel/overlap.hpp"
#include "parallel/pipeline.hpp"

namespace lm::train {

struct TrainerConfig {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;
    parallel::DataParallelConfig data_parallel;
    i64 micro_batch = 1;
    // The most of a step on one data-parallel rank: a pipeline keeps several of them in flight.
    i64 n_micro_batches = i64{1} << 30;
    spec::Precision precision;
    spec::LossScaleConfig loss_scale;  // of fp16
    spec::AdamWConfig adamw;
    u64 seed = 1234;
    bool document_attention = false;  // batches carry document_starts (--reset-attention-mask)
    int n_threads = 1;
    bool cuda = false;                                         // the device is a GPU
    spec::GpuAttention attention = spec::GpuAttention::flash;  // there
    bool allow_tf32 = false;
    std::string autotune;  // directory of measured choices; empty: none are made

    cost::Processor processor() const { return {n_threads, cuda, attention}; }
};

// What the trainer of this configuration on tensor rank `tp_rank` of stage `pp_rank` will allocate
// on its device.
cost::MemoryPlan memory_plan(const TrainerConfig& config, i64 tp_rank = 0, i64 pp_rank = 0);

struct StepResult {
    double loss = 0;           // mean over the micro-batches of all ranks, before the update
    double gradient_norm = 0;  // global, before clipping
    bool updated = false;      // false: loss or gradient was not finite, and nothing was changed
    double loss_scale = 1;     // of the next step
};

class Trainer {
  public:
    // Gives this data-parallel rank's next micro-batch; the reference is valid until the next call.
    using NextBatch = std::function<const data::Batch&()>;

    // `grid` is that of config.parallel.
    Trainer(const TrainerConfig& config, device::Device& device,
            parallel::Grid grid = parallel::single());
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;

    // Fresh weights from the seed.
    void initialize();

    // Batches from here on have `seq_length` tokens a sequence, at most the model's: views into the
    // same memory, which is planned for the longest.
    void set_seq_length(i64 seq_length);

    // One optimizer step over `n_micro_batches` of each data-parallel rank. The result is the same
    // on all ranks.
    StepResult step(const NextBatch& next, i64 n_micro_batches, double lr);

    // Mean loss of `n_micro_batches` of each data-parallel rank, without dropout; changes no state.
    double evaluate(const NextBatch& next, i64 n_micro_batches);

    // Logits of one micro-batch, without dropout, on one rank that has the whole model: `take` is
    // called for each of its rows (b * T + t) with the unpadded vocabulary's logits.
    using RowsOfLogits = std::function<void(i64 row, std::span<const float> logits)>;
    void logits(const data::Batch& batch, const RowsOfLogits& take);

    i64 optimizer_step() const { return optimizer_step_; }
    const optim::LossScaler& loss_scaler() const { return scaler_; }
    void restore(const optim::LossScaleState& state) { scaler_.restore(state); }
    const cost::MemoryPlan& memory() const { return plan_; }
    parallel::Grid& grid() { return grid_; }

    // What this rank writes to a checkpoint, so that all ranks together give each element once; to
    // be written while the trainer lives and makes no step.
    std::vector<ckpt::Piece> state();
    // `with_optimizer` false: weights only; moments start at zero and the step count at 0.
    void load(const ckpt::Checkpoint& checkpoint, bool with_optimizer);

    // Throws JointError(self_stopped) naming tensor and ranks when copies of the same state differ.
    void check_replicas();

    // Gathers the time of every operation from now on; nullptr ends it.
    void measure(device::OpTimes* times) { times_ = times; }
    // Tells the phases of each step from now on; nullptr ends it.
    void record_to(comm::FlightRecorder* recorder) { recorder_ = recorder; }

    // For tests: flat buffers, the gradients as a step left them.
    const model::ParamMap& params() const { return map_; }
    device::View weights();
    device::View gradients() const { return gradients_; }
    // For tests: plants a fault in this rank's clipping.
    void distort_clipping(std::function<double(double)> fault) { clip_fault_ = std::move(fault); }

  private:
    // One call of step() or evaluate().
    struct Pass {
        const NextBatch* next = nullptr;
        i64 n_micro_batches = 0;
        bool training = false;
    };
    using StepSums = std::array<double, model::step_sum_count>;

    cost::StepShape step_shape() const;
    void build_chunks();
    void build_data_parallel();
    void bind_optimizer();
    void warm_up();
    // body(range of the flat buffer, the masters of its elements), of what this rank updates.
    template <typename Body>
    void for_masters(const Body& body);
    void masters_from_weights();
    void load_range(const ckpt::Checkpoint& checkpoint, ckpt::SliceKind kind,
                    const device::View& target, const Range& range);
    device::Context context() { return {device_, workspace_, times_}; }

    void forward(i64 chunk, i64 micro_batch);
    void backward(i64 chunk, i64 micro_batch);
    model::MicroBatch micro_batch_of(i64 chunk, i64 micro_batch) const;
    const data::Batch& batch_of(i64 chunk, i64 micro_batch);
    // Copies a micro-batch to the device, its loss mask divided by what makes the step's loss a
    // mean: over the unmasked tokens of a micro-batch, then over the micro-batches of all ranks (as
    // Megatron does).
    void copy_in(const data::Batch& batch, const model::MicroBatchActivations& act);

    void enter(const char* phase, i64 micro_batch = -1) {
        if (recorder_) recorder_->enter(phase, micro_batch);
    }
    void begin_pass(const Pass& pass);
    void reserve_sms(bool collectives);
    void sum_tied_embedding();
    void add_gradient_squares();
    StepSums global_sums();

    TrainerConfig config_;
    device::Device& device_;
    parallel::Grid grid_;
    cost::MemoryPlan plan_;
    model::ParamMap map_;
    device::Buffer weight_buffer_, master_buffer_, gradient_buffer_, optimizer_buffer_,
        activation_buffer_;
    device::View weights_, masters_, gradients_, exp_avg_, exp_avg_sq_, workspace_;
    i64 seq_length_ = 0;
    std::unique_ptr<parallel::DataParallel> data_parallel_;
    std::unique_ptr<parallel::Overlap> overlap_;
    std::vector<model::GptChunk> chunks_;
    std::unique_ptr<parallel::Pipeline> pipeline_;
    std::unique_ptr<optim::AdamWOptimizer> optimizer_;
    std::vector<Range> counted_;  // of what this rank owns: the elements that no other rank counts
    std::vector<Range> tied_;     // of what this rank updates: the table of first and last stage
    std::vector<float> loss_weight_;  // host staging of one micro-batch
    std::vector<data::Batch> taken_;  // batches that later chunks need again, one round
    Pass pass_;
    optim::LossScaler scaler_;
    i64 optimizer_step_ = 0;
    std::function<double(double)> clip_fault_;
    device::OpTimes* times_ = nullptr;
    comm::FlightRecorder* recorder_ = nullptr;
};

}  // namespace lm::train
