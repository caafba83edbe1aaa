// SPDX-License-Identifier: Apache-2.0
// Merges many pre-tokens at once. The time of a single pre-token is mostly the latency of the
// look-ups of its pairs, because each look-up depends on the previous merge. A merger works on
// several pre-tokens in turn, so that their look-ups overlap.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/types.hpp"
#include "text/bpe/merges/bpe_model.hpp"
#include "text/bpe/merges/pretoken_key.hpp"

namespace lm::text {

struct alignas(64) ShortIds {
    i32 ids[PretokenKey::longest];
    u32 count;
};

struct alignas(64) MediumIds {
    static constexpr size_t longest = 64;  // most bytes of a pre-token
    i32 ids[longest];
    u32 count;
};

// Computes the same ids as PretokenEncoder. A pre-token must not be empty. Each thread needs its
// own merger.
class PretokenMerger {
  public:
    virtual ~PretokenMerger() = default;
    virtual void merge(std::span<const PretokenKey> pretokens, ShortIds* out) = 0;
    // Merges pre-tokens of up to MediumIds::longest bytes. MediumIds::longest + 1 bytes must be
    // readable at each pre-token.
    virtual void merge(std::span<const std::string_view> pretokens, MediumIds* out) = 0;
    virtual u64 operations() const = 0;  // see PretokenEncoder::operations()
};

std::unique_ptr<PretokenMerger> make_portable_merger(const BpeModel& model);

}  // namespace lm::text
