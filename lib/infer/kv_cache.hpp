// SPDX-License-Identifier: Apache-2.0
// The keys and values of sequences, and the attention of new tokens to themselves and to earlier
// tokens of their sequence. Keys are stored transposed in blocks of 64, as small_product() reads
// them, so that attention copies no key. The softmax over the blocks is the online softmax of
// FlashAttention-2 (Dao, 2023, algorithm 1).
//
// A layer with a window keeps the blocks of the last tokens only, in a ring: those of the window,
// and of the tokens of two passes, so that a sequence may lose the tokens of a pass again.
//
// Letters: H heads, G key-value groups, D width of a head, n new tokens of all sequences.
#pragma once

#include <span>
#include <vector>

#include "device/device.hpp"
#include "spec/model.hpp"

namespace lm::infer {

using device::View;

// New tokens of one sequence, which have the numbers first, first + 1, ... in it. The rows of a
// pass are the tokens of its segments in their order.
struct Segment {
    i64 sequence;
    i64 first;
    i64 n;
    bool longer = false;  // rotated by the frequencies beyond the original context (LongRoPE)
};

class KvCache {
  public:
    // The most tokens that a pass appends to a sequence.
    static constexpr i64 most_tokens = 512;

    // Returns the bytes of the keys and values of `tokens` tokens of a sequence.
    static i64 bytes_of(const spec::ModelConfig& config, i64 tokens);
    // Allocates memory for `sequences` sequences of `context` tokens. Pages that no token has used
    // are not resident.
    static KvCache allocate(const spec::ModelConfig& config, i64 sequences, i64 context,
                            device::Device& device);

    // Returns the shortest length, apart from 0, to which a sequence of `length` tokens can be
    // shortened: the windows of the tokens after it are still in memory.
    i64 shortest(i64 length) const;

    // Stores the keys and values of n tokens, and computes the attention of each token to itself
    // and to the earlier tokens of the window. qkv: [n, (H+2G)*D] fp32, rotated; out: [n, H*D]
    // fp32. The bits of a row do not depend on the other segments. `context` belongs to a CPU
    // device.
    void attend(device::Context& context, i64 layer, std::span<const Segment> segments,
                const View& qkv, const View& out);

  private:
    KvCache(const spec::ModelConfig& config, i64 context);
    struct Layer {
        spec::LayerConfig config;
        i64 in_group;               // H / G
        i64 n_blocks;               // blocks of each sequence and group
        i64 first_block;            // blocks of a sequence in all earlier layers
        std::vector<float> slopes;  // [H]
    };
    // qkv: [n, (H+2G)*D] fp32
    void store(device::Context& context, const Layer& layer, std::span<const Segment> segments,
               const View& qkv);
    struct Rows;
    void attend_rows(const Rows& rows, float* scratch) const;
    // Returns the address of a block in memory: first its keys [D, 64], then its values [64, D].
    float* block_of(const Layer& layer, i64 sequence, i64 group, i64 block) const;
    // Returns the blocks of a sequence in all layers.
    i64 n_blocks() const {
        const Layer& last = layers_.back();
        return last.first_block + last.config.n_groups * last.n_blocks;
    }
    i64 scratch_floats() const;

    i64 head_dim_;
    double scale_;  // ModelConfig::score_scale()
    std::vector<Layer> layers_;
    device::Buffer memory_;
    device::Buffer scratch_;
};

}  // namespace lm::infer
