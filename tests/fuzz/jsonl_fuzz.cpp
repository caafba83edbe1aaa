// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as a JSON line. For each line that simdjson's DOM accepts, LineParser must
// return the same content, and so must PlainLineReader unless it declines the line.
#include <simdjson.h>

#include <cstdlib>
#include <optional>
#include <string>

#include "data/jsonl/line_parser.hpp"
#include "data/jsonl/plain_line.hpp"
#include "data/jsonl/unescape_in_place.hpp"

namespace {

using namespace lm::data;

void require(bool condition) {
    if (!condition) std::abort();
}

// Returns the string under the only "text" of an object, as simdjson reads the line; nullopt for
// every other line.
std::optional<std::string> reference(const std::string& line) {
    static simdjson::dom::parser parser;
    simdjson::dom::object object;
    if (parser.parse(line).get_object().get(object) != simdjson::SUCCESS) return std::nullopt;
    std::optional<std::string> text;
    for (const auto field : object) {
        if (field.key != "text") continue;
        std::string_view value;
        if (text || field.value.get_string().get(value) != simdjson::SUCCESS) return std::nullopt;
        text = std::string(value);
    }
    return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    std::string line(reinterpret_cast<const char*>(data), size);
    line = line.substr(0, line.find('\n'));
    std::string padded = line + std::string(LineChunk::padding, '\0');
    const std::optional<std::string> want = reference(line);

    static PlainLineReader plain("text");
    std::string_view rest(padded.data(), line.size());
    if (const auto got = plain.parse(rest)) require(rest.empty() && want && *got == *want);

    // The in-place decoder on the same bytes, as the content of a string.
    std::string content = line + std::string(LineChunk::padding, '\0');
    if (const char* end = find_string_end(content.data())) {
        const std::optional<std::string> text = reference(
            "{\"text\":\"" +
            std::string(content.cbegin(), content.cbegin() + (end - content.data())) + "\"}");
        const std::size_t n = unescape_in_place(content.data(), end);
        require(!text || *text == content.substr(0, n));
    }

    static LineParser parser({"text"}, InvalidText::refuse);
    std::optional<std::string> got;
    try {
        const auto values = parser.parse(std::string_view(padded.data(), line.size()));
        if (!values[0].is_list) got = std::string(values[0].text);
    } catch (const LineError& error) {
        require(error.byte >= 1 && error.byte <= static_cast<lm::i64>(size) + 1);
    }
    if (want) require(got == want);
    return 0;
}
