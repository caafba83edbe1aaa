// SPDX-License-Identifier: Apache-2.0
#include "cost/nccl.hpp"

#include <algorithm>

#include "support/catch.hpp"

using namespace lm;
using namespace lm::cost;
using spec::ModelConfig;
using spec::ParallelConfig;

namespace {

constexpr i64 mib = i64{1} << 20;

// Returns a GPT with heads of 128.
ModelConfig gpt(i64 hidden) {
    ModelConfig model{.n_layers = 4,
                      .hidden = hidden,
                      .n_heads = hidden / 128,
                      .seq_length = 1024,
                      .vocab_size = 50304};
    model.resolve();
    return model;
}

ModelConfig llama(i64 hidden) {
    ModelConfig model = gpt(hidden);
    model.ffn_hidden = hidden * 7 / 2;
    model.n_groups = model.n_heads / 4;
    model.activation = spec::Activation::swiglu;
    model.untied_head = true;
    return model;
}

// Returns the extra time of `n` channels compared with the best number of channels.
double extra(const ModelConfig& model, const ParallelConfig& parallel, const TensorLinks& links,
             i64 n) {
    double least_s = tensor_seconds(model, parallel, links, 1);
    for (i64 other = 2; other <= 32; ++other) {
        least_s = std::min(least_s, tensor_seconds(model, parallel, links, other));
    }
    return tensor_seconds(model, parallel, links, n) / least_s - 1;
}

}  // namespace

TEST_CASE("links and data parallelism use NCCL blocks during computation") {
    CHECK(nccl_blocks({}, 0, true) == 0);
    // Tensor-parallel collectives count no blocks: only the products that overlap with them leave
    // SMs for them.
    CHECK(nccl_blocks({.tp = 8}, 0, true) == 0);
    CHECK(nccl_blocks({.dp = 8}, 0, false) == 0);
    CHECK(nccl_blocks({.dp = 8}, 0, true) == nccl_overlap_channels);
    CHECK(nccl_blocks({.pp = 4}, 0, false) == 2 * nccl_link_channels);
    CHECK(nccl_blocks({.pp = 4, .dp = 2}, 1, true) ==
          4 * nccl_link_channels + nccl_overlap_channels);
    CHECK(nccl_blocks({.pp = 4, .n_chunks = 2}, 3, false) == 4 * nccl_link_channels);
}

TEST_CASE("the SMs of tensor-parallel collectives by hand") {
    // One token, two ranks, hidden 1024: QKV has 3 * 1024 / 2 outputs, the MLP 4 * 1024 / 2. A
    // gather moves 1024 bytes: 10.24 s with 10 channels. On 100 SMs the GEMMs take
    // 2 * 1024 * 1536 / 1e6 s and 2 * 1024 * 2048 / 1e6 s, and on 90 SMs 10 / 9 of these times.
    const TensorLinks links{
        .flops = 1e6, .sms = 100, .bytes_per_s = 1e3, .channel_bytes_per_s = 10};
    const double qkv_s = 3.145728 / 0.9;
    const double up_s = 4.194304 / 0.9;
    CHECK(tensor_seconds(gpt(1024), {.tp = 2, .sequence_parallel = true}, links, 10) ==
          Approx(6 * 10.24 + 4 * 10.24));
    CHECK(tensor_seconds(gpt(1024), {.tp = 2}, links, 10) == Approx(4 * 10.24 + 4 * 10.24));
    TensorLinks slow = links;
    slow.flops = 1e5;
    CHECK(tensor_seconds(gpt(1024), {.tp = 2, .sequence_parallel = true}, slow, 10) ==
          Approx(6 * 10.24 + 20 * (qkv_s + up_s)));
    CHECK(tensor_seconds(gpt(1024), {.tp = 2}, slow, 10) ==
          Approx(4 * 10.24 + 10 * (qkv_s + up_s)));
    // 200 channels would exceed the rate of the link.
    slow.sms = 1000;
    CHECK(tensor_seconds(gpt(1024), {.tp = 2}, slow, 200) ==
          Approx(4 * 1.024 + 10 * (3.145728 + 4.194304) / 0.8));
}

TEST_CASE("the default of --tensor-comm-sms follows the plan") {
    CHECK(tensor_comm_sms(gpt(4096), {}) == 0);
    // Narrow layers or many ranks: the collectives saturate the link.
    CHECK(tensor_comm_sms(gpt(2048), {.tp = 4}) == 23);
    CHECK(tensor_comm_sms(gpt(8192), {.tp = 8, .sequence_parallel = true}) == 23);
    // Wide layers and few ranks: GEMMs are long compared with the collectives that overlap.
    CHECK(tensor_comm_sms(gpt(8192), {.tp = 2}) == 16);
    CHECK(tensor_comm_sms(gpt(8192), {.tp = 2, .sequence_parallel = true}) == 14);
    CHECK(tensor_comm_sms(gpt(16384), {.tp = 2}) < tensor_comm_sms(gpt(8192), {.tp = 2}));
}

// docs/cuda.md states these bounds. The rate of a channel is not known: 15 to 20 GB/s on an H100,
// 10 to 13 GB/s on an A100.
TEST_CASE("the default of --tensor-comm-sms is near the best number of several GPUs") {
    double largest = 0;
    double of_22 = 0;
    for (const double channel : {15e9, 16e9, 18e9, 20e9, 10e9, 11e9, 12e9, 13e9}) {
        const TensorLinks h100{600e12, 132, 360e9, channel};
        const TensorLinks a100{240e12, 108, 230e9, channel};
        const TensorLinks& links = channel < 14e9 ? a100 : h100;
        for (const i64 hidden : {2048, 4096, 5120, 8192, 12288, 16384}) {
            for (const i64 tp : {2, 4, 8}) {
                for (const bool sequence : {false, true}) {
                    const ParallelConfig parallel{.tp = tp, .sequence_parallel = sequence};
                    for (const ModelConfig& model : {gpt(hidden), llama(hidden)}) {
                        const i64 n = tensor_comm_sms(model, parallel);
                        largest = std::max(largest, extra(model, parallel, links, n));
                        of_22 = std::max(of_22, extra(model, parallel, links, 22));
                    }
                }
            }
        }
    }
    CHECK(largest < 0.06);
    CHECK(of_22 > 0.12);  // 22 SMs for all models
}

TEST_CASE("the tensor group's NCCL memory follows the limit of its SMs") {
    const ParallelConfig parallel{.tp = 2};
    const ModelConfig model = gpt(8192);
    const auto bytes = [&](std::optional<i64> n) {
        return nccl_bytes(model, parallel, 0, {.tensor_comm_sms = n});
    };
    CHECK(bytes(2) - bytes(1) == 20 * mib);  // two connections of 10 MiB
    CHECK(bytes(std::nullopt) == bytes(16));
    CHECK(bytes(0) == bytes(24));  // no limit
}

TEST_CASE("NVLS buffers are counted where three ranks or more share a node") {
    const ModelConfig model = gpt(4096);
    const auto nvls = [&](const ParallelConfig& parallel, const NcclUse& use = {}) {
        NcclUse without = use;
        without.nvls = false;
        return (nccl_bytes(model, parallel, 0, use) - nccl_bytes(model, parallel, 0, without)) /
               mib;
    };
    CHECK(nvls({.tp = 2}) == 0);
    CHECK(nvls({.tp = 4}) == 2 + 16 * 2 * 4);
    CHECK(nvls({.tp = 8}) == 2 + 16 * 2 * 8);
    CHECK(nvls({.tp = 8}, {.tensor_comm_sms = 4}) == 2 + 4 * 2 * 8);  // fewer channels
    CHECK(nvls({.tp = 16}) == nvls({.tp = 8}));                       // two nodes
    // The ranks of a data-parallel group are tp ranks apart.
    CHECK(nvls({.dp = 64}) == 2 + 16 * 2 * 8);
    CHECK(nvls({.tp = 2, .dp = 64}) == 2 + 16 * 2 * 4);
    CHECK(nvls({.tp = 4, .dp = 64}) == nvls({.tp = 4}));
    // The group of the first and the last stage has two ranks.
    CHECK(nvls({.pp = 2}) == 0);
}
