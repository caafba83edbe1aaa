// SPDX-License-Identifier: Apache-2.0
#include "text/byte_tokenizer.hpp"

#include <string>
#include <vector>

#include "support/catch.hpp"

using namespace lm;
using namespace lm::text;

TEST_CASE("ByteTokenizer: ids are bytes, 256 is the end of document") {
    const auto tokenizer = make_byte_tokenizer();
    CHECK(tokenizer->encode("a\xFF") == std::vector<i32>{97, 255});
    CHECK(tokenizer->vocab_size() == 257);
    std::string back;
    tokenizer->decode(std::vector<i32>{104, 105, 256}, back);
    CHECK(back == "hi");
}
