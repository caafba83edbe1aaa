// SPDX-License-Identifier: Apache-2.0
// BPE of many pieces at once. Nearly all the time of a single piece goes into waiting for the slots
// of its pairs; here other pieces take their steps meanwhile.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/types.hpp"
#include "text/bpe/bpe_model.hpp"
#include "text/bpe/pretoken_key.hpp"

namespace lm::text {

struct alignas(64) ShortIds {
    i32 ids[PieceKey::longest];
    u32 count;
};

struct alignas(64) MediumIds {
    static constexpr size_t longest = 64;  // bytes of a piece
    i32 ids[longest];
    u32 count;
};

// The ids of each piece are those of PieceEncoder; no piece is empty. One per thread.
class PieceMerger {
  public:
    virtual ~PieceMerger() = default;
    virtual void merge(std::span<const PieceKey> pieces, ShortIds* out) = 0;
    // Pieces of up to MediumIds::longest bytes; one byte more than that is readable at each.
    virtual void merge(std::span<const std::string_view> pieces, MediumIds* out) = 0;
    virtual u64 operations() const = 0;  // as of PieceEncoder
};

std::unique_ptr<PieceMerger> make_merger(const BpeModel& model);  // the fastest
std::unique_ptr<PieceMerger> make_portable_merger(const BpeModel& model);

// Whether ids and ranks take 16 bits or 32 in its registers.
enum class MergerWords { narrow, wide };
// nullptr: not on this machine, or these are too many for 16 bits.
std::unique_ptr<PieceMerger> make_vector_merger(const BpeModel& model, MergerWords words);

}  // namespace lm::text
