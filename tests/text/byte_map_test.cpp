// SPDX-License-Identifier: Apache-2.0
#include "text/bpe/byte_map.hpp"

#include "support/catch.hpp"

using namespace lm;
using namespace lm::text;

TEST_CASE("byte map: spelling and its inverse") {
    CHECK(token_of_bytes(" a\n") == "\u0120a\u010A");
    CHECK(bytes_of_token("\u0120a\u010A\u0143") == std::string(" a\n\xAD"));
    CHECK_FALSE(bytes_of_token(" a"));
    for (int byte = 0; byte < 256; ++byte) {
        const std::string raw(1, static_cast<char>(byte));
        CHECK(bytes_of_token(token_of_bytes(raw)) == raw);
    }
}
