// SPDX-License-Identifier: Apache-2.0
// The ids of one text, by an encoder that may know others already.
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

// Through a buffer that hands them over whenever it holds a few.
inline std::vector<i32> ids_consumed(text::Encoder& encoder, std::string_view text) {
    std::vector<i32> ids;
    text::IdBuffer buffer(true);
    const auto take = [&] {
        const std::span<const i32> some = buffer.ids<i32>();
        ids.insert(ids.end(), some.begin(), some.end());
    };
    buffer.consume_at(100, take);
    const i64 n = encoder.encode(text, buffer);
    take();
    LM_CHECK(n == std::ssize(ids) && n == buffer.count(), "ids are lost");
    return ids;
}

// Encoded in 16 bits.
inline std::vector<i32> narrow_ids_of(text::Encoder& encoder, std::string_view text) {
    text::IdBuffer buffer(false);
    encoder.encode(text, buffer);
    const std::span<const u16> ids = buffer.ids<u16>();
    return {ids.begin(), ids.end()};
}

}  // namespace lm::test
