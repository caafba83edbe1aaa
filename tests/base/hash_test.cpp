// SPDX-License-Identifier: Apache-2.0
#include "base/hash.hpp"

#include <algorithm>
#include <span>
#include <string>

#include "support/catch.hpp"

using namespace lm;

TEST_CASE("digests are XXH3-128") {
    // Digest of the empty input, from the reference implementation.
    CHECK(hash64("") == 0x2d06800538d394c2);
    CHECK(digest("") == "xxh3:99aa06d3014798d86001c324468d497f");
    CHECK(digest("a") != digest("b"));
}

TEST_CASE("several updates have the digest of all bytes") {
    std::string text;
    for (int i = 0; i < 5000; ++i) text += std::to_string(i);
    Digester digester;
    for (size_t begin = 0, n = 1; begin < text.size(); begin += n, n = n * 2 % 1009) {
        digester.update(
            std::as_bytes(std::span(text).subspan(begin, std::min(n, text.size() - begin))));
        REQUIRE(digester.finish() == digest(text.substr(0, begin + n)));
    }
    CHECK(digester.finish() == digest(text));
    Digester copy = digester;
    Digester moved = std::move(digester);
    CHECK(moved.finish() == digest(text));
    copy.update(std::as_bytes(std::span("b", 1)));
    CHECK(copy.finish() == digest(text + "b"));
    CHECK(moved.finish() == digest(text));
}

TEST_CASE("BlockDigester: the digest over the digests of the blocks, after any update") {
    // Metadata files contain such digests, so these values must never change.
    BlockDigester digester;
    CHECK(digester.finish() == "xxh3-64m:99aa06d3014798d86001c324468d497f");
    std::string block(static_cast<size_t>(BlockDigester::block_bytes), 'x');
    const auto bytes = std::as_bytes(std::span(block));
    std::string whole;  // digests of whole blocks
    const auto want = [&](const std::string& rest) {
        const std::string text = whole + (rest.empty() ? "" : digest(rest));
        return "xxh3-64m:" + digest(text).substr(5);
    };
    for (int i = 0; i < 2; ++i) {
        digester.update(bytes.first(1000));
        CHECK(digester.finish() == want(std::string(1000, 'x')));
        const BlockDigester copy = digester;
        digester.update(bytes.subspan(1000));
        whole += digest(block);
        CHECK(digester.finish() == want(""));
        CHECK(copy.finish() != digester.finish());
        CHECK(digester.n_bytes() == (i + 1) * BlockDigester::block_bytes);
    }
    CHECK(digester.finish() == "xxh3-64m:7f5a1e9291105154aa4b3aaf40850cfb");
    CHECK(BlockDigester::combine({digest(block), digest(block)}) == digester.finish());
}
