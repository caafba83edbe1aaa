// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.hpp"

namespace lm::text {

void Tokenizer::decode(std::span<const i32> ids, std::string& out) const {
    for (const i32 id : ids) out.append(token(id));
}

std::vector<i32> Tokenizer::encode(std::string_view text) const {
    IdBuffer buffer(true);
    make_encoder(static_cast<i64>(text.size()))->encode(text, buffer);
    const std::span<const i32> ids = buffer.ids<i32>();
    return {ids.begin(), ids.end()};
}

}  // namespace lm::text
