// SPDX-License-Identifier: Apache-2.0
// The keys and values of a sequence, and the attention of new tokens to themselves and to earlier
// tokens. Keys are stored transposed in blocks of 64, as small_product() reads them, so that
// attention copies no key. The softmax over the blocks is the online softmax of FlashAttention-2
// (Dao, 2023, algorithm 1).
//
// Letters: H heads, G key-value groups, D width of a head, n new tokens.
#pragma once

#include <vector>

#include "device/device.hpp"
#include "spec/model.hpp"

namespace lm::infer {

using device::View;

class KvCache {
  public:
    // Allocates memory for `context` tokens. Pages that no token has used are not resident.
    static KvCache allocate(const spec::ModelConfig& config, i64 context, device::Device& device);

    // Stores the keys and values of n tokens, which have the numbers `first`, first + 1, ... in the
    // sequence, and computes the attention of each token to itself and to the earlier tokens of the
    // window. qkv: [n, (H+2G)*D] fp32, rotated; out: [n, H*D] fp32. `context` belongs to a CPU
    // device.
    void attend(device::Context& context, i64 layer, i64 first, const View& qkv, const View& out);

  private:
    KvCache(const spec::ModelConfig& config, i64 context);
    struct Layer {
        spec::LayerConfig config;
        i64 in_group;               // H / G
        i64 first_group;            // groups of all earlier layers
        std::vector<float> slopes;  // [H]
    };
    // qkv: [n, (H+2G)*D] fp32
    void store(device::Context& context, const Layer& layer, i64 first, const View& qkv);
    struct Rows;
    void attend_rows(const Rows& rows, float* scratch) const;
    // Returns the address of a block in memory: first its keys [D, 64], then its values [64, D].
    float* block_of(const Layer& layer, i64 group, i64 block) const;
    i64 scratch_floats() const;

    i64 head_dim_;
    std::vector<Layer> layers_;
    i64 n_blocks_ = 0;  // blocks of each layer and group
    device::Buffer memory_;
    device::Buffer scratch_;
};

}  // namespace lm::infer
