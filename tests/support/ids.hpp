// SPDX-License-Identifier: Apache-2.0
// The ids of one text by an existing encoder, whose cache may be filled.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "text/tokenizer.hpp"

namespace lm::test {

inline std::vector<i32> ids_of(text::Encoder& encoder, std::string_view text) {
    text::IdBuffer buffer(true);
    encoder.encode(text, buffer);
    const std::span<const i32> ids = buffer.ids<i32>();
    return {ids.begin(), ids.end()};
}

// Returns the ids by way of an IdBuffer of 100 bytes with a consumer.
inline std::vector<i32> ids_consumed(text::Encoder& encoder, std::string_view text) {
    std::vector<i32> ids;
    text::IdBuffer buffer(true);
    const auto consume = [&] {
        const std::span<const i32> some = buffer.ids<i32>();
        ids.insert(ids.end(), some.begin(), some.end());
    };
    buffer.consume_at(100, consume);
    const i64 n = encoder.encode(text, buffer);
    consume();
    LM_CHECK(n == std::ssize(ids) && n == buffer.count(),
             "encode() returned {} ids, the consumer got {}", n, ids.size());
    return ids;
}

// Returns the ids by way of a buffer of 16-bit ids.
inline std::vector<i32> narrow_ids_of(text::Encoder& encoder, std::string_view text) {
    text::IdBuffer buffer(false);
    encoder.encode(text, buffer);
    const std::span<const u16> ids = buffer.ids<u16>();
    return {ids.begin(), ids.end()};
}

}  // namespace lm::test
