// SPDX-License-Identifier: Apache-2.0
// Digests, overflow-checked products, shapes, errors, the log sink.
#include <catch2/catch.hpp>
#include <limits>
#include <vector>

#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/shape.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using test::caught;

TEST_CASE("digests are XXH3-128") {
    // Digest of the empty input, from the reference implementation.
    CHECK(hash64("") == 0x2d06800538d394c2);
    CHECK(digest("") == "xxh3:99aa06d3014798d86001c324468d497f");
    CHECK(digest("a") != digest("b"));
}

TEST_CASE("the digest of several updates is that of all bytes") {
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
    // Values of metadata files.
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

TEST_CASE("products are checked for overflow") {
    CHECK(checked_mul(3, 4) == 12);
    CHECK(checked_mul(0, std::numeric_limits<i64>::max()) == 0);
    CHECK(caught([] { checked_mul(i64{1} << 32, i64{1} << 31); }).code == Exit::usage);
    CHECK(ceil_div(0, 4) == 0);
    CHECK(ceil_div(5, 4) == 2);
    CHECK(round_up(8, 4) == 8);
    CHECK(round_up(9, 4) == 12);
}

TEST_CASE("shapes") {
    const Shape shape = {50257, 768};
    CHECK(shape.rank() == 2);
    CHECK(shape.numel() == 50257 * 768);
    CHECK(shape.str() == "[50257, 768]");
    CHECK(shape == Shape{50257, 768});
    CHECK_FALSE(shape == Shape{50257, 768, 1});
    CHECK(Shape{}.numel() == 1);
    CHECK(caught([] { Shape{i64{1} << 40, i64{1} << 40}.numel(); }).threw);
    CHECK(caught([] { Shape{1, 2, 3, 4, 5}; }).code == Exit::bug);
}

TEST_CASE("errors carry an exit code and one line") {
    const auto usage = caught([] { usage_error("--x", "'{}' is wrong", 5); });
    CHECK(usage.code == Exit::usage);
    CHECK(usage.message == "--x: '5' is wrong");
    CHECK(caught([] { run_error("f", "gone"); }).code == Exit::failure);
    const auto ours = caught([] { LM_CHECK(1 > 2, "odd"); });
    CHECK(ours.code == Exit::bug);
    CHECK(ours.says("base_test.cpp:"));
    CHECK(ours.says("odd"));
}

TEST_CASE("the log sink gets all messages; without a sink they are dropped") {
    std::vector<std::string> seen;
    set_log_sink([&](Severity severity, std::string_view text) {
        seen.push_back((severity == Severity::warning ? "W " : "N ") + std::string(text));
    });
    note("x: {} y", 1);
    warn("z");
    set_log_sink(nullptr);
    warn("unheard");
    CHECK(seen == std::vector<std::string>{"N x: 1 y", "W z"});
}
