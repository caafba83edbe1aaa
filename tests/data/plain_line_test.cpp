// SPDX-License-Identifier: Apache-2.0
// The fast reader of {"text": "..."} agrees with the slow one wherever it does not stand back.
#include "data/jsonl/plain_line.hpp"

#include <catch2/catch.hpp>

#include "base/utf8.hpp"
#include "data/jsonl/json_line.hpp"
#include "data/jsonl/line_chunks.hpp"

using namespace lm;
using namespace lm::data;

namespace {

constexpr const char* stood_back = "(stood back)";

std::string taken(PlainLineReader& reader, const std::string& line) {
    std::string buffer = line + std::string(LineChunk::padding, '\0');
    std::string_view rest(buffer.data(), line.size());
    const auto text = reader.take(rest);
    if (!text) return stood_back;
    CHECK(rest.size() == (line.find('\n') == line.npos ? 0 : line.size() - line.find('\n') - 1));
    return std::string(*text);
}

}  // namespace

TEST_CASE("plain lines") {
    PlainLineReader reader("text");
    CHECK(taken(reader, R"({"text": "a"})") == "a");
    CHECK(taken(reader, " { \"text\"\t:\"a\" } \r\n{") == "a");
    CHECK(taken(reader, R"({"text":""})") == "");
    CHECK(taken(reader, R"({"text":"\ud83d\ude00\n\/\u00e9\u0000\u20AC"})") ==
          std::string("\U0001F600\n/\u00E9\0\u20AC", 12));
    const std::string longer(100, 'x');
    CHECK(taken(reader, "{\"text\":\"" + longer + "\\\\" + longer + "é\"}\n") ==
          longer + "\\" + longer + "é");
    for (const char* other : {R"({"text":"a","b":1})",
                              R"({"b":1,"text":"a"})",
                              R"({"text":1})",
                              R"({"text":"a"} x)",
                              R"({"text":"a"}})",
                              R"({"text":"a)",
                              R"({"text":"a\)",
                              R"({"text":"a\u12)",
                              R"({"text":"\ud800"})",
                              R"({"text":"\udc00\ud800"})",
                              R"({"text":"\ud800\u0041"})",
                              R"({"text":"\x"})",
                              "{\"text\":\"a\tb\"}",
                              "{\"text\":\"a\xFF\"}",
                              "{\"text\":\"a\n\"}",
                              R"({"te\u0078t":"a"})",
                              "",
                              "{",
                              R"({"text")",
                              R"({"text":)"}) {
        INFO(other);
        CHECK(taken(reader, other) == stood_back);
    }
}

TEST_CASE("a text of more than 16 MiB is unescaped where it lies") {
    PlainLineReader reader("text");
    std::string line = "{\"text\":\"", want;
    for (int i = 0; want.size() < (size_t{17} << 20); ++i) {
        const std::string run(static_cast<size_t>(i * 7 % 61), static_cast<char>('a' + i % 26));
        line += run + "\\n\\u20ac\\\"";
        want += run + "\n\u20AC\"";
    }
    CHECK(taken(reader, line + "\"}\n") == want);
    CHECK(taken(reader, line + "\\q\"}\n") == stood_back);
}

TEST_CASE("plain lines as the slow reader reads them") {
    PlainLineReader reader("text"), narrow("text", false);
    const std::vector<std::string> keys = {"text"};
    const std::vector<std::string> bits = {
        "a",  " ",    "\"", "\\",  "\\n",    "\\u00e9", "\\ud83d", "é",    "\\ude00",
        "\t", "\xC3", "}",  "\\u", "日本語", "\\/",     "x=1;",    "\\\\", "0123456789abcdef"};
    u64 state = 1;
    int n_taken = 0;
    for (int i = 0; i < 20000; ++i) {
        std::string line = "{\"text\": \"";
        const auto next = [&] {
            return state = state * 6364136223846793005ULL + 1442695040888963407ULL, state >> 33;
        };
        const auto n = next() % (i % 2 == 0 ? 12 : 90);
        for (u64 k = 0; k < n; ++k) {
            const auto pick = next() % (bits.size() * (n < 12 ? 3 : 40));
            line += bits[pick < bits.size() ? pick : pick % 2 * 4];
        }
        line += "\"}";
        const std::string got = taken(reader, line);
        INFO(line);
        REQUIRE(taken(narrow, line) == got);
        if (got == stood_back) continue;
        ++n_taken;
        REQUIRE(find_invalid_utf8(line) < 0);
        REQUIRE(read_json_line(line, keys, LoneSurrogates::refuse).values[0].text == got);
    }
    CHECK(n_taken > 2000);
}
