// SPDX-License-Identifier: Apache-2.0
// BPE of many short pieces at once, as ShortMerger, for ids and ranks of 16 bits: the tokens of a
// piece are one vector register and the ranks of their pairs another. Needs AVX-512 with VBMI2 (Ice
// Lake, Zen 4 and later).
#pragma once

#include <array>
#include <span>

#include "text/bpe.hpp"
#include "text/narrow_pairs.hpp"
#include "text/piece_key.hpp"

namespace lm::text {

struct alignas(32) ShortIds {
    u16 ids[PieceKey::longest];
    u16 count;
};

class VectorMerger {
  public:
    // Whether this machine and this model have what it takes.
    static bool is_for(const BpeModel& model);

    explicit VectorMerger(const BpeModel& model) : model_(&model) {}

    // The ids of each piece, those of PieceEncoder; no piece is empty.
    void merge(std::span<const PieceKey> pieces, ShortIds* out);

    u64 operations() const { return operations_; }

  private:
    static constexpr size_t n_lanes = 8;

    // Tokens and ranks stand from the left on, and nothing around them. ranks[i] is that of tokens
    // i and i + 1.
    struct alignas(64) Lane {
        u16 tokens[3 * 16];  // the piece's are those in the middle
        u16 ranks[16];
        // Where the last merge was, as a bit, and the pairs that it made: their ranks are still to
        // come.
        u32 merged;
        NarrowPairs::Probe before, after;
        size_t piece;
    };

    void begin(Lane& lane, std::span<const PieceKey> pieces, size_t piece);
    bool step(Lane& lane);

    const BpeModel* model_;
    std::array<Lane, n_lanes> lanes_;
    u64 operations_ = 0;
};

}  // namespace lm::text
