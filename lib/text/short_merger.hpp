// SPDX-License-Identifier: Apache-2.0
// BPE of many short pieces at once. Nearly all the time of a single piece goes into waiting for the
// slots of its pairs; here other pieces take their steps meanwhile.
#pragma once

#include <array>
#include <span>

#include "text/bpe.hpp"
#include "text/piece_key.hpp"

namespace lm::text {

class ShortMerger {
  public:
    explicit ShortMerger(const BpeModel& model) : model_(&model) {
        for (size_t i = 0; i < n_lanes; ++i) order_[i] = &lanes_[i];
    }

    // Calls done(i, ids) once for each piece, in any order; `ids` are those of PieceEncoder.
    template <typename Done>
    void merge(std::span<const PieceKey> pieces, Done done) {
        size_t next = 0, n_busy = 0;
        while (n_busy < n_lanes && next < pieces.size()) begin(n_busy++, pieces, next++);
        while (n_busy > 0) {
            for (size_t lane = 0; lane < n_busy; ++lane) settle(*order_[lane]);
            for (size_t lane = 0; lane < n_busy;) {
                Lane& own = *order_[lane];
                if (step(own)) {
                    ++lane;
                    continue;
                }
                i32 ids[PieceKey::longest];
                done(own.piece, std::span<const i32>(ids, take_ids(own, ids)));
                if (next < pieces.size()) {
                    begin(lane++, pieces, next++);
                } else {
                    std::swap(order_[lane], order_[--n_busy]);
                }
            }
        }
    }

    u64 operations() const { return operations_; }

  private:
    static constexpr size_t n_lanes = 8;
    static constexpr u32 n_pairs = PieceKey::longest + 1;

    // Tokens stay where their first byte was, from 1 on, linked by next and previous; before and
    // behind them stands one that merges with nothing.
    struct alignas(64) Lane {
        i32 pairs[n_pairs];  // of the token at i and the one after it: rank << 4 | i
        i32 ids[n_pairs + 1];
        u8 next[n_pairs + 1], previous[n_pairs + 1];
        u32 n_bytes;
        size_t piece;
        // The pairs whose ranks have been asked for.
        u32 left, before;
        PairTable::Probe left_probe, before_probe;
    };

    void begin(size_t lane, std::span<const PieceKey> pieces, size_t piece);
    static void settle(Lane& lane);
    PairTable::Probe probe(i32 left, i32 right) const {
        return model_->ranks().probe(PairTable::key_of(left, right));
    }
    bool step(Lane& lane);
    static size_t take_ids(const Lane& lane, i32* ids);

    const BpeModel* model_;
    std::array<Lane, n_lanes> lanes_;
    std::array<Lane*, n_lanes> order_;  // the busy ones first
    u64 operations_ = 0;
};

}  // namespace lm::text
