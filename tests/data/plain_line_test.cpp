// SPDX-License-Identifier: Apache-2.0
// The one-pass reader of {"text": "..."} returns what the exact reader returns, or declines.
#include "data/jsonl/plain_line.hpp"

#include "base/utf8.hpp"
#include "data/jsonl/json_line.hpp"
#include "data/jsonl/line_chunks.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::data;

namespace {

bool is_skipped() {
    if (PlainLineReader::has_one_pass()) return false;
    WARN("skipped: this processor has no AVX-512 VBMI2");
    return true;
}

constexpr const char* declined = "(declined)";

std::string parsed(PlainLineReader& reader, const std::string& line) {
    const std::string buffer = line + std::string(LineChunk::padding, '\0');
    std::string_view rest(buffer.data(), line.size());
    const auto text = reader.parse(rest);
    if (!text) {
        CHECK(rest.size() == line.size());
        return declined;
    }
    CHECK(rest.size() == (line.find('\n') == line.npos ? 0 : line.size() - line.find('\n') - 1));
    return std::string(*text);
}

}  // namespace

TEST_CASE("the one-pass reader reads lines with one string and common escapes") {
    if (is_skipped()) return;
    PlainLineReader reader("text");
    CHECK(parsed(reader, R"({"text": "a"})") == "a");
    CHECK(parsed(reader, " { \"text\"\t:\"a\" } \r\n{") == "a");
    CHECK(parsed(reader, R"({"text":""})") == "");
    CHECK(parsed(reader, R"({"text":"\n\/\t\r\"\\"})") == "\n/\t\r\"\\");
    const std::string longer(100, 'x');
    CHECK(parsed(reader, "{\"text\":\"" + longer + "\\\\" + longer + "é\"}\n") ==
          longer + "\\" + longer + "é");
}

TEST_CASE("the one-pass reader declines every other line") {
    if (is_skipped()) return;
    PlainLineReader reader("text");
    for (const char* other :
         {R"({"text":"a","b":1})", R"({"b":1,"text":"a"})", R"({"text":1})", R"({"text":"a"} x)",
          R"({"text":"a"}})", R"({"text":"a)", R"({"text":"a\)", R"({"text":"a\u00e9"})",
          R"({"text":"a\b"})", R"({"text":"\ud800"})", R"({"text":"\x"})", "{\"text\":\"a\tb\"}",
          "{\"text\":\"a\xFF\"}", "{\"text\":\"a\n\"}", R"({"te\u0078t":"a"})", "", "{",
          R"({"text")", R"({"text":)"}) {
        INFO(other);
        CHECK(parsed(reader, other) == declined);
    }
}

TEST_CASE("the text of a line above 16 MiB is decoded in place") {
    PlainLineReader reader("text");
    std::string line = "{\"text\":\"", want;
    for (int i = 0; want.size() < (size_t{17} << 20); ++i) {
        const std::string run(static_cast<size_t>(i * 7 % 61), static_cast<char>('a' + i % 26));
        line += run + "\\n\\u20ac\\\"\\ud83d\\ude00\\\\";
        want += run + "\n\u20AC\"\U0001F600\\";
    }
    CHECK((parsed(reader, line + "\"}\n") == want));
    for (const char* wrong : {"\\q\"}\n", "\\ud800\"}\n", "\\udc00\"}\n", "\t\"}\n", "\xFF\"}\n",
                              "\",\"b\":1}\n", "\\u12\"}\n", ""})
        CHECK((parsed(reader, line + wrong) == declined));
}

TEST_CASE("the one-pass reader agrees with the exact one on random lines") {
    if (is_skipped()) return;
    PlainLineReader reader("text");
    const std::vector<std::string> keys = {"text"};
    const std::vector<std::string> bits = {
        "a",  " ",    "\"", "\\",   "\\n",    "\\t", "\\u00e9", "é",    "\\r",
        "\t", "\xC3", "}",  "\\\"", "日本語", "\\/", "x=1;",    "\\\\", "0123456789abcdef"};
    u64 state = 1;
    int n_parsed = 0;
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
        const std::string got = parsed(reader, line);
        INFO(line);
        if (got == declined) continue;
        ++n_parsed;
        REQUIRE(find_invalid_utf8(line) < 0);
        REQUIRE(read_json_line(line, keys, InvalidText::refuse).values[0].text == got);
    }
    CHECK(n_parsed > 2000);
}
