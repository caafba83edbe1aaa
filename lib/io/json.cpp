// SPDX-License-Identifier: Apache-2.0
#include "io/json.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <new>
#include <utility>

#include "io/file.hpp"
#include "io/other_format.hpp"

namespace lm::io {
namespace {

// Throws JsonError "PATH: ...".
template <typename... Args>
[[noreturn]] void json_error(const std::string& path, fmt::format_string<Args...> format,
                             Args&&... args) {
    throw JsonError(Exit::failure,
                    fmt::format("{}: {}", path, fmt::format(format, std::forward<Args>(args)...)));
}

// Returns the cause that nlohmann's message states, such as "unexpected end of input; expected
// '}'". The message is "[json.exception.parse_error.101] parse error at line 1, column 2: syntax
// error while parsing value - CAUSE".
std::string_view cause_in(std::string_view message) {
    for (const std::string_view before : {"] ", ": ", " - "}) {
        const size_t at = message.find(before);
        if (at != message.npos) message.remove_prefix(at + before.size());
    }
    return message;
}

// Returns "line L, column C" of a byte, counted from 1 as nlohmann counts it.
std::string position_of(size_t byte, std::string_view text) {
    const std::string_view before = text.substr(0, byte == 0 ? 0 : byte - 1);
    const size_t line_start = before.rfind('\n') + 1;  // 0 without a newline: npos + 1
    return fmt::format("line {}, column {}", std::ranges::count(before, '\n') + 1,
                       before.size() - line_start + 1);
}

// The structure of a text, from its brackets and commas outside of strings.
struct Structure {
    size_t too_deep = std::string_view::npos;  // first bracket of a level below max_json_depth
    i64 n_values = 1;                          // at most, and exact without empty containers
};

Structure structure_of(std::string_view text) {
    Structure result;
    int depth = 0;
    bool in_string = false;
    for (size_t at = 0; at < text.size(); ++at) {
        const char c = text[at];
        if (c == '"') {
            in_string = !in_string;
        } else if (in_string) {
            if (c == '\\') ++at;
        } else if (c == '[' || c == '{') {
            ++result.n_values;
            if (++depth > max_json_depth) {
                result.too_deep = at;
                return result;
            }
        } else if (c == ']' || c == '}') {
            --depth;
        } else if (c == ',') {
            ++result.n_values;
        }
    }
    return result;
}

void check_size(i64 n_bytes, const std::string& path) {
    if (n_bytes <= max_json_bytes) return;
    json_error(path, "too large: expected at most {} bytes of JSON, got {}", max_json_bytes,
               n_bytes);
}

template <typename Document>
Document parse(std::string_view text, const std::string& path) {
    check_size(std::ssize(text), path);
    const Structure structure = structure_of(text);
    if (structure.too_deep != text.npos) {
        if (const auto other = other_format(text); !other.empty()) json_error(path, "is {}", other);
        json_error(path, "nested too deeply: expected at most {} levels of JSON, got more at {}",
                   max_json_depth, position_of(structure.too_deep + 1, text));
    }
    if (structure.n_values > max_json_values) {
        if (const auto other = other_format(text); !other.empty()) json_error(path, "is {}", other);
        json_error(path, "too large: expected at most {} values of JSON, got {}", max_json_values,
                   structure.n_values);
    }
    try {
        return Document::parse(text);
    } catch (const Json::parse_error& error) {
        if (const auto other = other_format(text); !other.empty()) json_error(path, "is {}", other);
        json_error(path, "not valid JSON at {}: {}", position_of(error.byte, text),
                   cause_in(error.what()));
    } catch (const Json::exception& error) {
        json_error(path, "not valid JSON: {}", cause_in(error.what()));
    } catch (const std::bad_alloc&) {
        run_error(path, "out of memory for {} bytes of JSON", text.size());
    }
}

template <typename Document>
Document parse_or_null(std::string_view text) {
    try {
        return parse<Document>(text, "");
    } catch (const JsonError&) {
        return nullptr;
    }
}

template <typename Document>
std::string text_of(const Document& document) {
    return document.dump(2, ' ', false, Document::error_handler_t::replace) + "\n";
}

[[noreturn]] void wrong_type(std::string_view name, std::string_view wanted, const Json& value,
                             const std::string& path) {
    constexpr size_t max_shown = 40;
    std::string shown = value.dump(-1, ' ', false, Json::error_handler_t::replace);
    if (shown.size() > max_shown) shown = value.type_name();
    json_error(path, "{} is not {}: got {}", name, wanted, shown);
}

}  // namespace

Json parse_json(std::string_view text, const std::string& path) {
    return parse<Json>(text, path);
}

OrderedJson parse_ordered_json(std::string_view text, const std::string& path) {
    return parse<OrderedJson>(text, path);
}

Json json_or_null(std::string_view text) {
    return parse_or_null<Json>(text);
}

OrderedJson ordered_json_or_null(std::string_view text) {
    return parse_or_null<OrderedJson>(text);
}

std::string read_json_text(const std::string& path) {
    if (exists(path)) check_size(file_size(path), path);  // before the file is read
    return read_file(path);
}

Json read_json(const std::string& path) {
    return parse_json(read_json_text(path), path);
}

std::string json_text(const Json& document) {
    return text_of(document);
}

std::string json_text(const OrderedJson& document) {
    return text_of(document);
}

std::string json_line(const OrderedJson& document) {
    const std::string text =
        document.dump(-1, ' ', false, OrderedJson::error_handler_t::replace) + "\n";
    std::string line;
    line.reserve(text.size());
    for (size_t i = 0; i < text.size(); ++i) {
        const auto byte = static_cast<unsigned char>(text[i]);
        if (byte == 0x7F) {
            line += "\\u007f";
        } else if (byte == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0) {  // U+0080..9F
            line += fmt::format("\\u{:04x}", static_cast<unsigned char>(text[++i]));
        } else {
            line += text[i];
        }
    }
    return line;
}

namespace json_detail {

bool to_bool(const Json& value, std::string_view name, const std::string& path) {
    if (!value.is_boolean()) wrong_type(name, "true or false", value, path);
    return value.get<bool>();
}

i64 to_integer(const Json& value, i64 least, i64 greatest, std::string_view name,
               const std::string& path) {
    if (!value.is_number_integer()) wrong_type(name, "a whole number", value, path);
    const bool too_big = value.is_number_unsigned() &&
                         value.get<u64>() > static_cast<u64>(std::numeric_limits<i64>::max());
    if (too_big || value.get<i64>() < least || value.get<i64>() > greatest) {
        json_error(path, "{} is out of range: expected {}..{}, got {}", name, least, greatest,
                   value.dump());
    }
    return value.get<i64>();
}

u64 to_u64(const Json& value, std::string_view name, const std::string& path) {
    if (value.is_number_unsigned()) return value.get<u64>();
    constexpr i64 greatest = std::numeric_limits<i64>::max();
    return static_cast<u64>(to_integer(value, 0, greatest, name, path));
}

double to_number(const Json& value, double greatest, std::string_view name,
                 const std::string& path) {
    if (!value.is_number()) wrong_type(name, "a number", value, path);
    const double number = value.get<double>();
    if (std::abs(number) > greatest) {
        json_error(path, "{} is out of range: expected at most {} in magnitude, got {}", name,
                   greatest, value.dump());
    }
    return number;
}

const std::string& to_string(const Json& value, std::string_view name, const std::string& path) {
    if (!value.is_string()) wrong_type(name, "a string", value, path);
    return value.get_ref<const std::string&>();
}

const Json& to_array(const Json& value, std::string_view name, const std::string& path) {
    if (!value.is_array()) wrong_type(name, "a list", value, path);
    return value;
}

const Json* find(const Json& object, const std::string& key, const std::string& path) {
    if (!object.is_object())
        wrong_type("the value that should contain '" + key + "'", "an object", object, path);
    const auto found = object.find(key);
    return found == object.end() ? nullptr : &*found;
}

void missing(const std::string& key, const std::string& path) {
    json_error(path, "'{}' is missing", key);
}

std::string quoted(const std::string& key) {
    return "'" + key + "'";
}

}  // namespace json_detail

i64 json_integer(const Json& object, const std::string& key, i64 least, i64 greatest,
                 const std::string& path) {
    return json_detail::to_integer(json_get<Json>(object, key, path), least, greatest,
                                   json_detail::quoted(key), path);
}

}  // namespace lm::io
