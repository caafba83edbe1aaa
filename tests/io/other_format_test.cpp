// SPDX-License-Identifier: Apache-2.0
// Files of other formats are recognized by their beginnings; those of our own formats are not.
#include "io/other_format.hpp"

#include "io/json.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace std::string_view_literals;

TEST_CASE("other formats are recognized by their first bytes") {
    const auto names = [](std::string_view head, const char* part) {
        INFO(head);
        return io::other_format(head).find(part) != std::string_view::npos;
    };
    CHECK(names("version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n", "LFS"));
    CHECK(names("<!DOCTYPE html><html>", "web page"));
    CHECK(names("\x0a\x0e\x0a\x05<unk>\x15\0\0\0\0\x18\x02"sv, "SentencePiece"));
    CHECK(names("\x0a\x09\x0a\x05<pad>\x18\x03"sv, "SentencePiece"));
    CHECK(names("IQ== 0\nIg== 1\n", "tiktoken"));
    CHECK(names("PAR1\x15\x04", "Parquet"));
    CHECK(names("\x28\xb5\x2f\xfd\x24", "compressed"));
}

TEST_CASE("text, JSON, vocabularies and safetensors are not other formats") {
    for (const std::string_view head :
         {""sv, "{\"a\": 1}"sv, "[1]"sv, "\n\n{\"a\": 1}"sv, "#version: 0.2\na b\n"sv, "th e\n"sv,
          "\x38\x00\x00\x00\x00\x00\x00\x00{\"w\":{}}"sv, "\x0a\x05{\"a\"}"sv, "abcd 12"sv,
          "abc 12\n"sv, "abcd x\n"sv, "MMIDIDX\x00\x00"sv, "\x80\x02}"sv}) {
        INFO(head);
        CHECK(io::other_format(head).empty());
    }
}

TEST_CASE("JSON that is not JSON is named by its format") {
    CHECK_THROWS_WITH(io::parse_json("version https://git-lfs.github.com/spec/v1\n", "x.json"),
                      HasInOrder("x.json: ", "Git LFS pointer"));
    CHECK_THROWS_WITH(io::parse_json("version 1", "x.json"), ContainsSubstring("line 1"));
}
