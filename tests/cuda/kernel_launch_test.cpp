// SPDX-License-Identifier: Apache-2.0
// Launches the kernels whose blocks per SM bench/cuda.md states, in the shapes of its tables, on
// the emulator. machine_code.py reads threads and dynamic shared memory of the launches from the
// log of EMULATED_CUDA_LAUNCHES. The operations' results are tested elsewhere.
#include "device/ops.hpp"
#include "support/catch.hpp"
#include "train/start/open_device.hpp"

using namespace lm;
using device::View;

namespace {

constexpr i64 n_rows = 16;

// Memory for the arguments of operations. It is zero at first.
class Arguments {
  public:
    explicit Arguments(device::Device& device) : device_(device) {}
    View bf16(const Shape& shape) { return make(DType::bf16, shape); }
    View fp32(const Shape& shape) { return make(DType::fp32, shape); }
    View int32(const Shape& shape) { return make(DType::int32, shape); }
    device::Dropout dropout(bool on) {
        return {.p = on ? 0.1 : 0, .sample_ids = make(DType::int64, {1})};
    }
    device::Context context() { return {device_, make(DType::uint8, {i64{64} << 20})}; }

  private:
    View make(DType type, const Shape& shape) {
        buffers_.push_back(device_.allocate(shape.numel() * size_of(type), "arguments"));
        return buffers_.back().view(type, shape);
    }
    device::Device& device_;
    std::vector<device::Buffer> buffers_;
};

void attend(device::Device& device, i64 width, bool dropout) {
    Arguments of(device);
    device::Context context = of.context();
    const View qkv = of.bf16({1, n_rows, 3 * width});
    const View out = of.bf16({1, n_rows, width});
    const View lse = of.fp32({1, 1, n_rows});
    device::attention_forward(context, {.qkv = qkv,
                                        .out = out,
                                        .lse = lse,
                                        .n_heads = 1,
                                        .n_groups = 1,
                                        .head_dim = width,
                                        .scale = 0.125,
                                        .dropout = of.dropout(dropout)});
    device::attention_backward(context, {.dout = of.bf16(out.shape),
                                         .qkv = qkv,
                                         .out = out,
                                         .lse = lse,
                                         .dqkv = of.bf16(qkv.shape),
                                         .n_heads = 1,
                                         .n_groups = 1,
                                         .head_dim = width,
                                         .scale = 0.125,
                                         .dropout = of.dropout(dropout)});
    device.synchronize();
}

// Adds a branch to the residual stream and normalizes the sum. The backward pass also computes the
// gradient of the bias that the branch ends with.
void normalize(device::Device& device, i64 columns, bool dropout) {
    Arguments of(device);
    device::Context context = of.context();
    const Shape shape{n_rows, columns};
    const View sum = of.bf16(shape);
    const View weight = of.bf16({columns});
    const View mean = of.fp32({n_rows});
    const View rstd = of.fp32({n_rows});
    device::residual_norm_forward(context, {.branch = of.bf16(shape),
                                            .residual = of.bf16(shape),
                                            .dropout = of.dropout(dropout),
                                            .sum = sum,
                                            .weight = weight,
                                            .bias = of.bf16({columns}),
                                            .y = of.bf16(shape),
                                            .mean = mean,
                                            .rstd = rstd});
    device::residual_norm_backward(context, {.dy = of.bf16(shape),
                                             .sum = sum,
                                             .weight = weight,
                                             .mean = mean,
                                             .rstd = rstd,
                                             .dsum_in = of.bf16(shape),
                                             .dsum = of.bf16(shape),
                                             .dropout = of.dropout(dropout),
                                             .dbranch = dropout ? of.bf16(shape) : View{},
                                             .dweight = of.fp32({columns}),
                                             .dbias = of.fp32({columns}),
                                             .dbranch_bias = of.fp32({columns})});
    device.synchronize();
}

void normalize_heads(device::Device& device, i64 width) {
    Arguments of(device);
    device::Context context = of.context();
    const View x = of.bf16({1, n_rows, 3 * width});
    const View weight = of.bf16({width});
    device::head_norm_forward(context, {.norm = device::Norm::rms_norm,
                                        .x = x,
                                        .query_weight = weight,
                                        .key_weight = weight,
                                        .y = of.bf16(x.shape),
                                        .n_heads = 1,
                                        .n_groups = 1});
    const View dy = of.bf16(x.shape);
    device::head_norm_backward(context, {.norm = device::Norm::rms_norm,
                                         .dy = dy,
                                         .x = x,
                                         .query_weight = weight,
                                         .key_weight = weight,
                                         .dx = dy,
                                         .dquery_weight = of.fp32({width}),
                                         .dkey_weight = of.fp32({width}),
                                         .n_heads = 1,
                                         .n_groups = 1});
    device.synchronize();
}

void compute_loss(device::Device& device, i64 vocab) {
    Arguments of(device);
    device::Context context = of.context();
    device::cross_entropy(context, {.logits = of.bf16({1, vocab}),
                                    .targets = of.int32({1}),
                                    .n_valid = vocab,
                                    .weight = of.fp32({1}),
                                    .row_max = of.fp32({1}),
                                    .row_sum = of.fp32({1}),
                                    .target_logit = of.fp32({1}),
                                    .losses = of.fp32({1})});
    device.synchronize();
}

}  // namespace

TEST_CASE("launches of the kernels in bench/cuda.md", "[.launches]") {
    const auto gpu = train::cuda_plugin().open_device(0);
    CHECK(gpu->name().find("emulated") != std::string::npos);
    for (const bool dropout : {false, true}) {
        for (const i64 width : {64, 128, 256}) attend(*gpu, width, dropout);
        for (const i64 columns : {2048, 4096, 8192}) normalize(*gpu, columns, dropout);
    }
    normalize_heads(*gpu, 128);
    compute_loss(*gpu, 50304);
}
