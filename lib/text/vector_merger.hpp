// SPDX-License-Identifier: Apache-2.0
// BPE of many short pieces at once, as ShortMerger, for ids and ranks of 16 bits: the tokens of a
// piece are one vector register and the ranks of their pairs another. Needs AVX-512 with VBMI2 (Ice
// Lake, Zen 4 and later).
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "text/bpe.hpp"
#include "text/narrow_pairs.hpp"
#include "text/piece_key.hpp"

namespace lm::text {

struct alignas(32) ShortIds {
    u16 ids[PieceKey::longest];
    u16 count;
};

struct alignas(64) WideIds {
    u16 ids[32];
    u32 count;
};

class VectorMerger {
  public:
    static constexpr size_t longest = 32;  // bytes

    // Whether this machine and this model have what it takes.
    static bool is_for(const BpeModel& model);

    explicit VectorMerger(const BpeModel& model) : model_(&model) {}

    // The ids of each piece, those of PieceEncoder; no piece is empty.
    void merge(std::span<const PieceKey> pieces, ShortIds* out);
    // For pieces of up to 32 bytes; 33 bytes are readable at each.
    void merge(std::span<const std::string_view> pieces, WideIds* out);

    u64 operations() const { return operations_; }

  private:
    static constexpr size_t n_lanes = 8;

    // Tokens and ranks stand from the left on, and nothing around them. ranks[i] is that of tokens
    // i and i + 1.
    template <size_t width>
    struct alignas(64) Lane {
        u16 tokens[3 * width];  // the piece's are those in the middle
        u16 ranks[width];
        // Where the last merge was, as a bit, and the pairs that it made: their ranks are still to
        // come.
        u32 merged;
        NarrowPairs::Probe before, after;
        size_t piece;
    };

    template <size_t width, typename Piece, typename Ids>
    void merge_all(std::span<const Piece> pieces, Ids* out, std::array<Lane<width>, n_lanes>& own);
    template <size_t width, typename Piece>
    void begin(Lane<width>& lane, std::span<const Piece> pieces, size_t piece);
    template <size_t width>
    bool step(Lane<width>& lane);

    const BpeModel* model_;
    std::array<Lane<16>, n_lanes> lanes_;
    std::array<Lane<32>, n_lanes> wide_lanes_;
    u64 operations_ = 0;
};

}  // namespace lm::text
