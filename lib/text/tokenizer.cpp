// SPDX-License-Identifier: Apache-2.0
#include "text/tokenizer.hpp"

namespace lm::text {

void Tokenizer::decode(std::span<const i32> ids, std::string& out) const {
    for (const i32 id : ids) out.append(token(id));
}

std::vector<i32> Tokenizer::encode(std::string_view text) const {
    std::vector<i32> ids(static_cast<size_t>(max_ids(static_cast<i64>(text.size()))));
    ids.resize(static_cast<size_t>(make_encoder()->encode(text, ids.data())));
    return ids;
}

}  // namespace lm::text
