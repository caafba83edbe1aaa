// SPDX-License-Identifier: Apache-2.0
// BPE of many pre-tokens at once. Nearly all the time of a single pre-token goes into waiting for
// the slots of its pairs; here other pre-tokens take their steps meanwhile.
#pragma once

#include <memory>
#include <span>
#include <string_view>

#include "base/types.hpp"
#include "text/bpe/bpe_model.hpp"
#include "text/bpe/pretoken_key.hpp"

namespace lm::text {

struct alignas(64) ShortIds {
    i32 ids[PretokenKey::longest];
    u32 count;
};

struct alignas(64) MediumIds {
    static constexpr size_t longest = 64;  // bytes of a pre-token
    i32 ids[longest];
    u32 count;
};

// The ids of each pre-token are those of PretokenEncoder; no pre-token is empty. One per thread.
class PretokenMerger {
  public:
    virtual ~PretokenMerger() = default;
    virtual void merge(std::span<const PretokenKey> pretokens, ShortIds* out) = 0;
    // Pre-tokens of up to MediumIds::longest bytes; one byte more than that is readable at each.
    virtual void merge(std::span<const std::string_view> pretokens, MediumIds* out) = 0;
    virtual u64 operations() const = 0;  // as of PretokenEncoder
};

std::unique_ptr<PretokenMerger> make_merger(const BpeModel& model);  // the fastest
std::unique_ptr<PretokenMerger> make_portable_merger(const BpeModel& model);

}  // namespace lm::text
