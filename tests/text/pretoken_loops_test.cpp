// SPDX-License-Identifier: Apache-2.0
// The loops for AVX2 and AVX-512 against the portable ones.
#include "text/bpe/merges/pretoken_loops.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "support/catch.hpp"
#include "text/bpe/merges/bpe_model.hpp"
#include "text/bpe/x86/pretoken_loops_aes.hpp"

using namespace lm;
using namespace lm::text;

namespace {

// Compares keys, long pre-tokens, and which pre-tokens are missing from the caches. The places in
// the caches differ, because the hash functions differ.
template <typename Id>
void compare_loops(const PretokenLoops<Id>& aes) {
    const PretokenLoops<Id> portable = portable_loops<Id>();
    PretokenCache<Id> cache(-1), other_cache(-1);
    const auto batch = std::make_unique<PretokenBatch<Id>>(cache);
    const auto other = std::make_unique<PretokenBatch<Id>>(other_cache);
    std::string text;
    const i64 n = PretokenBatch<Id>::capacity;
    for (u32 i = 0; i < n; ++i) {
        text.append(1 + i % 18, static_cast<char>('a' + i % 26));
        batch->ends[i] = other->ends[i] = static_cast<u32>(text.size());
    }
    text.append(16, ' ');
    portable.load(text.data(), 0, n, *batch, cache);
    for (const i64 i : {0, 1, 7, 100})  // in several calls
        aes.load(text.data(), i, i == 0 ? 1 : i == 1 ? 7 : i == 7 ? 100 : n, *other, other_cache);
    REQUIRE(std::ranges::equal(
        std::span(batch->long_pretokens).first(static_cast<size_t>(batch->n_long)),
        std::span(other->long_pretokens).first(static_cast<size_t>(other->n_long))));
    CHECK(batch->n_long > 0);
    std::set<const void*> lines;
    for (i64 i = 0; i < n; ++i) {
        CHECK(batch->keys[i] == other->keys[i]);
        CHECK(aes.place_of(batch->keys[i], other_cache) == other->at[i]);
        const bool alone =
            lines.insert(std::min(batch->at[i], cache.neighbour_of(batch->at[i]))).second &&
            lines.insert(std::min(other->at[i], other_cache.neighbour_of(other->at[i]))).second;
        if (i % 5 == 0 || !alone || !batch->keys[i].is_short()) continue;
        const i32 ids[PackedIds<Id>::most] = {static_cast<i32>(i), static_cast<i32>(i + 1)};
        typename PretokenCache<Id>::Entry entry{batch->keys[i], {}};
        entry.ids.set(ids, static_cast<u32>(1 + i % 2));
        cache.insert(batch->at[i], entry);
        other_cache.insert(other->at[i], entry);
    }
    for (const i64 from : {0, 1, 15, 16, 77}) {
        for (const i64 to : {i64{78}, n - 17, n}) {
            u32 missing[PretokenBatch<Id>::capacity + 16],
                other_missing[PretokenBatch<Id>::capacity + 16];
            const i64 n_missing = portable.find_missing(*batch, from, to, missing);
            REQUIRE(n_missing == aes.find_missing(*other, from, to, other_missing));
            CHECK(std::equal(missing, missing + n_missing, other_missing));
            CHECK((n_missing > 0 || to - from < 20));
        }
    }
}

template <typename Id>
void check_copy(i32 largest) {
    PretokenCache<Id> cache(-1);
    const auto batch = std::make_unique<PretokenBatch<Id>>(cache);
    constexpr u32 most = PackedIds<Id>::most;
    typename PretokenCache<Id>::Entry entries[most + 2] = {};
    std::vector<Id> want;
    for (u32 i = 1; i <= most + 1; ++i) {
        std::vector<i32> ids;
        for (u32 k = 0; k < most; ++k) ids.push_back(largest - static_cast<i32>(10 * i + k));
        entries[i].ids.set(ids.data(), i == most ? PackedIds<Id>::elsewhere : std::min(i, most));
        if (i < most) want.insert(want.end(), ids.begin(), ids.begin() + i);
        batch->at[i] = &entries[i];
    }
    Id ids[100];
    Id* out = ids;
    CHECK(copy_ids(*batch, 1, most + 2, out) == most);
    CHECK(std::ranges::equal(std::span(ids, out), want));
    Id* const before = out;
    CHECK(copy_ids(*batch, most + 1, most + 2, out) == most + 2);
    CHECK(out - before == most);
}

}  // namespace

TEST_CASE("copy_ids stops at the first pre-token whose entry does not contain its ids") {
    check_copy<u16>(0xFFFF);
    check_copy<i32>(BpeModel::no_id);
}

TEST_CASE("the loops for AVX2 and AVX-512 find the same pre-tokens as the portable ones") {
    if (!has_aes_loops()) return;
    for (const bool wide : {false, has_wide_aes()}) {
        compare_loops<u16>(aes_loops<u16>(wide));
        compare_loops<i32>(aes_loops<i32>(wide));
    }
}
