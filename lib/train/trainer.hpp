// SPDX-License-Identifier: Apache-2.0
// One rank's training state and the step that advances it. All memory is allocated by the
// constructor, exactly as spec::plan_memory says; a step allocates nothing and waits for the device
// once. What to do around steps (data, logs, evaluation, saves) is the loop's (train/loop.hpp).
#pragma once

#include <array>
#include <functional>
#include <memory>

#include "ckpt/checkpoint.hpp"
#include "ckpt/save.hpp"
#include "data/loader.hpp"
#include "device/device.hpp"
#include "model/gpt.hpp"
#include "optim/optimizer.hpp"

namespace lm::train {

struct TrainerConfig {
    spec::ModelConfig model;
    spec::ParallelConfig parallel;
    i64 micro_batch = 1;
    optim::AdamWConfig adamw;
    u64 seed = 1234;
    bool document_attention = false;  // batches carry document_starts (--reset-attention-mask)
    int n_threads = 1;
};

// What a trainer of this configuration will allocate on its device.
spec::MemoryPlan memory_plan(const TrainerConfig& config);

struct StepResult {
    double loss = 0;           // mean over the micro-batches, before the update
    double gradient_norm = 0;  // global, before clipping
    bool updated = false;      // false: loss or gradient was not finite, and nothing was changed
};

class Trainer {
  public:
    // Gives the next micro-batch of the global batch; the reference is valid until the next call.
    using NextBatch = std::function<const data::Batch&()>;

    Trainer(const TrainerConfig& config, device::Device& device);
    Trainer(const Trainer&) = delete;
    Trainer& operator=(const Trainer&) = delete;

    // Fresh weights from the seed.
    void initialize();

    // Batches from here on have `seq_length` tokens a sequence, at most the model's: views into the
    // same memory, which is planned for the longest.
    void set_seq_length(i64 seq_length);

    // One optimizer step over `n_micro_batches`.
    StepResult step(const NextBatch& next, i64 n_micro_batches, double lr);

    // Mean loss of `n_micro_batches`, without dropout; changes no state.
    double evaluate(const NextBatch& next, i64 n_micro_batches);

    // Logits of one micro-batch, without dropout: `take` is called for each of its rows (b * T + t)
    // with the unpadded vocabulary's logits.
    using RowsOfLogits = std::function<void(i64 row, std::span<const float> logits)>;
    void logits(const data::Batch& batch, const RowsOfLogits& take);

    i64 optimizer_step() const { return optimizer_step_; }
    const spec::MemoryPlan& memory() const { return plan_; }

    // What a checkpoint holds of this rank; the pointers stay valid while the trainer lives.
    std::vector<ckpt::Piece> state() const;
    // `with_optimizer` false: weights only; moments start at zero and the step count at 0.
    void load(const ckpt::Checkpoint& checkpoint, bool with_optimizer);

    // Gathers the time of every operation from now on; nullptr ends it.
    void measure(device::OpTimes* times) { times_ = times; }

    // For tests: the gradient buffer's view of each tensor after a step's backward.
    const model::ParamMap& params() const { return map_; }
    device::View weights() const { return weights_; }
    device::View gradients() const { return gradients_; }

  private:
    model::ChunkActivations place_activations();
    device::Context context() { return {device_, workspace_, times_}; }
    // Copies a micro-batch to the device, its loss mask divided by what makes the step's loss a
    // mean: over the unmasked tokens of a micro-batch, then over the micro-batches (as Megatron
    // does).
    void copy_in(const data::Batch& batch, i64 n_micro_batches);
    void clear_step_sums();
    device::View step_sum(model::StepSum which) const;
    std::array<double, model::step_sum_count> read_step_sums();

    TrainerConfig config_;
    device::Device& device_;
    spec::MemoryPlan plan_;
    model::ParamMap map_;
    device::Buffer weight_buffer_, gradient_buffer_, optimizer_buffer_, activation_buffer_;
    device::View weights_, gradients_, exp_avg_, exp_avg_sq_, workspace_;
    i64 seq_length_ = 0;
    std::unique_ptr<model::Gpt> gpt_;
    std::unique_ptr<optim::AdamWOptimizer> optimizer_;
    std::vector<float> loss_weight_;  // host staging of one micro-batch
    i64 optimizer_step_ = 0;
    device::OpTimes* times_ = nullptr;
};

}  // namespace lm::train
