// SPDX-License-Identifier: Apache-2.0
// Follows the computation of a step from layer to layer. During a search, finds the first value of
// this rank that is not finite, in the residual stream, the loss or a gradient. Also plants the
// faults of tests (step_fault.hpp), and forwards the calls of model::ChunkHooks to
// parallel::Overlap.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/chunk.hpp"
#include "parallel/overlap.hpp"
#include "train/step/step_fault.hpp"

namespace lm::train {

// The first value of a rank that is not finite.
struct NonFinite {
    enum class Phase { forward, loss, backward };
    Phase phase = Phase::forward;
    i64 micro_batch = 0;
    i64 position = 0;          // in the order of computation within the phase
    std::string object;        // "the attention of layer 3", "the gradient of layers.3.mlp.up"
    std::vector<i64> samples;  // samples of the micro-batch
};

class StepProbe final : public model::ChunkHooks {
  public:
    // All arguments outlive this object. gradients: [E] fp32.
    StepProbe(parallel::Overlap& overlap, device::Device& device, const model::ParamMap& params,
              device::View gradients)
        : overlap_(overlap), device_(device), params_(params), gradients_(gradients) {}

    // Sets the iteration of the next step. Planted faults depend on the iteration.
    void begin_iteration(i64 iteration) { iteration_ = iteration; }
    void plant(const std::optional<StepFault>& fault) {
        fault_ = fault;
        planted_ = false;
    }

    // Begin and end a search. end_search() returns the finding. During a search, gradients are
    // reduced only after the backward pass, so that a checked gradient contains no gradients of
    // other ranks.
    void start_search();
    std::optional<NonFinite> end_search();

    // Call them before and after the forward pass of the micro-batch `micro_batch`. `samples`: the
    // indices of its samples.
    void begin_forward(const model::GptChunk& chunk, const model::MicroBatch& at, i64 micro_batch,
                       const std::vector<i64>& samples);
    void end_forward();
    // Call them after the loss and after the backward pass of a micro-batch. `loss`: [1] fp64, the
    // sum of the losses of all unmasked tokens of the step so far. `tokens`: the number of these
    // tokens.
    void after_loss(const device::View& loss, double tokens, i64 micro_batch);
    void after_micro_batch(i64 micro_batch);
    // Returns the first tensor, in the order of the backward pass, whose gradient is not finite
    // now.
    std::optional<NonFinite> scan_gradients();

    void before_forward(i64 unit) override;
    void after_backward(i64 unit) override;

  private:
    void after_layer(i64 local);
    void find_gradient();
    // Stores a finding when an element of `view` is not finite. view: [...] fp32, bf16, fp16 or
    // fp64.
    void check(const device::View& view, NonFinite::Phase phase, i64 position,
               const std::string& object);
    // view: [...] fp32, bf16, fp16 or fp64.
    bool is_finite(const device::View& view) const;
    bool faulty(StepFault::Kind kind) const;
    // Writes the value to the first element. view: [...] fp32, bf16, fp16 or fp64.
    void write(const device::View& view, double value);

    parallel::Overlap& overlap_;
    device::Device& device_;
    const model::ParamMap& params_;
    device::View gradients_;  // [E] fp32
    i64 iteration_ = 0;
    std::optional<StepFault> fault_;
    bool planted_ = false;  // the fault was planted
    bool searching_ = false;
    std::optional<NonFinite> found_;
    const model::GptChunk* chunk_ = nullptr;
    int slot_ = 0;
    bool training_ = false;
    i64 micro_batch_ = 0;
    std::vector<std::vector<i64>> samples_;  // by micro-batch, while searching
};

}  // namespace lm::train
