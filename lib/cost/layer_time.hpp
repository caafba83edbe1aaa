// SPDX-License-Identifier: Apache-2.0
// The time that one micro-batch spends in the parts of a model on one GPU.
#pragma once

#include "cost/hardware.hpp"
#include "spec/rank_layout.hpp"

namespace lm::cost {

// The properties of a training program that decide its speed.
struct TrainingProgram {
    // Attention never writes its scores to memory (arXiv 2205.14135), and skips the scores that the
    // causal mask hides.
    bool fused_attention = true;
    // CPU time to launch the kernels of the forward pass of one layer and micro-batch. A backward
    // pass needs twice this time. If the GPU finishes earlier, it waits for the CPU.
    double host_pass_s = 0;
    // True: messages between stages run during computation, and data-parallel collectives too if
    // the run overlaps them. False: nothing overlaps, and each pass waits for one message.
    bool overlaps_messages = true;
    i64 gradient_bytes = 4;  // bytes of an element in data-parallel communication
    // The GEMM of a weight's gradient adds its result to the sum over micro-batches.
    bool fused_accumulation = true;

    // Returns the bytes that the GPU reads and writes for each weight and micro-batch to sum the
    // gradients. A fused product reads and writes the sum in fp32. Without fusion, the GPU also
    // reads the 16-bit gradient; the sum has 16 bits with fp16, 32 bits with bf16.
    double accumulation_bytes(DType dtype) const {
        if (fused_accumulation) return 8;
        return dtype == DType::fp16 ? 6 : 10;
    }
};

// Megatron-LM and Megatron-DeepSpeed of 2021 and 2022, whose step times are published.
// bench/step_times.py fitted host_pass_s to these step times. PyTorch launches about 30 kernels in
// the forward pass of a layer.
constexpr TrainingProgram megatron_2021{.fused_attention = false,
                                        .host_pass_s = 2.26e-3,
                                        .overlaps_messages = false,
                                        .gradient_bytes = 2,
                                        .fused_accumulation = false};
// lm-train. host_pass_s is an estimate, not a measurement: about 9 kernel starts in the forward
// pass of a layer, some 4 us each.
constexpr TrainingProgram lm_train{.host_pass_s = 40e-6};

struct StepBatch {
    i64 micro_batch = 1;
    i64 n_micro_batches = 1;  // micro-batches of a step in one pipeline
    i64 seq_length = 0;
    DType dtype = DType::bf16;  // format of activations and weights
};

// The seconds of one pass of one micro-batch, by kind of work.
struct PassTime {
    double products_s = 0;   // products with weights
    double attention_s = 0;  // products and softmax of attention
    double stream_s = 0;     // reads and writes of norms, activation functions, residuals
    double tensor_s = 0;     // communication of tensor parallelism
    double host_s = 0;       // the GPU waits for the CPU to launch kernels
    double total() const { return products_s + attention_s + stream_s + tensor_s + host_s; }
    PassTime& operator+=(const PassTime& other);
    PassTime operator*(double n) const;
};

// The times of both passes. `backward` includes the recomputation.
struct Passes {
    PassTime forward;
    PassTime backward;
    Passes& operator+=(const Passes& other);
    Passes operator*(double n) const { return {forward * n, backward * n}; }
};

// Returns the time of `layer` on one tensor rank.
Passes layer_passes(const spec::ModelConfig& model, const spec::LayerConfig& layer,
                    const spec::ParallelConfig& parallel, const StepBatch& batch,
                    const Hardware& gpu, const TrainingProgram& trainer);
// Return the time of the embedding, and of the head with the loss.
Passes embedding_passes(const spec::ModelConfig& model, const StepBatch& batch,
                        const Hardware& gpu);
Passes head_passes(const spec::ModelConfig& model, const spec::ParallelConfig& parallel,
                   const StepBatch& batch, const Hardware& gpu);

}  // namespace lm::cost
