// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/merges/pretoken_merger.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "text/bpe/merges/pretoken_encoder.hpp"

namespace lm::text {
namespace {

// A pair is stored as rank << 4 | position. A value >= `none` is a pair without a rank.
constexpr i32 none = static_cast<i32>(BpeModel::no_rank << 4);

i32 pack(u32 rank, u32 i) {
    return static_cast<i32>(rank << 4 | i);
}

class PortableMerger : public PretokenMerger {
  public:
    explicit PortableMerger(const BpeModel& model) : model_(&model), alone_(model) {
        for (size_t i = 0; i < n_lanes; ++i) order_[i] = &lanes_[i];
    }

    void merge(std::span<const PretokenKey> pretokens, ShortIds* out) override {
        size_t next = 0, n_busy = 0;
        while (n_busy < n_lanes && next < pretokens.size()) begin(n_busy++, pretokens, next++);
        while (n_busy > 0) {
            for (size_t lane = 0; lane < n_busy; ++lane) settle(*order_[lane]);
            for (size_t lane = 0; lane < n_busy;) {
                Lane& own = *order_[lane];
                if (step(own)) {
                    ++lane;
                    continue;
                }
                store_ids_of(own, out[own.pretoken]);
                if (next < pretokens.size()) {
                    begin(lane++, pretokens, next++);
                } else {
                    std::swap(order_[lane], order_[--n_busy]);
                }
            }
        }
    }

    void merge(std::span<const std::string_view> pretokens, MediumIds* out) override {
        for (const std::string_view pretoken : pretokens) {
            const std::span<const i32> ids = alone_.encode(pretoken);
            std::ranges::copy(ids, out->ids);
            out->count = static_cast<u32>(ids.size());
            ++out;
        }
    }

    u64 operations() const override { return operations_ + alone_.operations(); }

  private:
    static constexpr size_t n_lanes = 8;
    static constexpr u32 n_pairs = PretokenKey::longest + 1;

    // The state of one of the pre-tokens that are merged in turn. A token stays at the position of
    // its first byte, counted from 1, and `next` and `previous` link the tokens. Position 0 and the
    // position after the last token hold no_id, which has no merges. So the first and the last
    // token need no special case.
    struct alignas(64) Lane {
        i32 pairs[n_pairs];  // the pair of the token at i and the next token
        i32 ids[n_pairs + 1];
        u8 next[n_pairs + 1], previous[n_pairs + 1];
        u32 n_bytes;
        size_t pretoken;
        // The two pairs that the last merge created. Their look-ups are pending until settle()
        // reads the ranks.
        u32 left, before;
        PairTable::Probe left_probe, before_probe;
    };

    PairTable::Probe probe(i32 left, i32 right) const {
        return model_->ranks().probe(PairTable::key_of(left, right));
    }

    void begin(size_t lane, std::span<const PretokenKey> pretokens, size_t pretoken) {
        Lane& own = *order_[lane];
        const PretokenKey& key = pretokens[pretoken];
        own.pretoken = pretoken;
        own.n_bytes = key.length();
        const auto byte = [&](u32 i) { return key.byte(i - 1); };
        for (u32 i = 0; i < n_pairs; ++i) own.pairs[i] = none;
        for (u32 i = 0; i <= n_pairs; ++i) {
            own.next[i] = static_cast<u8>(i + 1);
            own.previous[i] = static_cast<u8>(i - 1);
        }
        own.ids[0] = own.ids[own.n_bytes + 1] = BpeModel::no_id;
        for (u32 i = 1; i <= own.n_bytes; ++i) own.ids[i] = model_->byte_id(byte(i));
        for (u32 i = 1; i < own.n_bytes; ++i)
            own.pairs[i] = pack(model_->byte_rank(byte(i), byte(i + 1)), i);
        // No look-up is pending. With these values settle() writes to position 0, which never has a
        // rank.
        own.left = own.before = 0;
        own.left_probe = own.before_probe = probe(BpeModel::no_id, own.ids[1]);
        operations_ += own.n_bytes;
    }

    static void settle(Lane& lane) {
        lane.pairs[lane.left] = pack(lane.left_probe.rank(), lane.left);
        lane.pairs[lane.before] = pack(lane.before_probe.rank(), lane.before);
    }

    // Does the next merge, the one with the minimum of (rank, position), and starts the look-ups of
    // the two new pairs. Returns false if no pair has a rank.
    bool step(Lane& lane) {
        operations_ += lane.n_bytes;
        i32 best = none;
        for (u32 i = 0; i < n_pairs; ++i) best = std::min(best, lane.pairs[i]);
        if (best >= none) return false;
        const u32 left = static_cast<u32>(best) & 15;
        const u32 right = lane.next[left];
        const u32 after = lane.next[right];
        const u32 before = lane.previous[left];
        const i32 id = model_->result(static_cast<u32>(best) >> 4);
        lane.ids[left] = id;
        lane.next[left] = static_cast<u8>(after);
        lane.previous[after] = static_cast<u8>(left);
        lane.pairs[right] = none;
        lane.left = left;
        lane.before = before;
        lane.left_probe = probe(id, lane.ids[after]);
        lane.before_probe = probe(lane.ids[before], id);
        lane.left_probe.prefetch();
        lane.before_probe.prefetch();
        return true;
    }

    static void store_ids_of(const Lane& lane, ShortIds& out) {
        out.count = 0;
        for (u32 i = 1; i <= lane.n_bytes; i = lane.next[i]) out.ids[out.count++] = lane.ids[i];
    }

    const BpeModel* model_;
    PretokenEncoder alone_;
    std::array<Lane, n_lanes> lanes_;
    std::array<Lane*, n_lanes> order_;  // busy lanes come first
    u64 operations_ = 0;
};

}  // namespace

std::unique_ptr<PretokenMerger> make_portable_merger(const BpeModel& model) {
    return std::make_unique<PortableMerger>(model);
}

}  // namespace lm::text
