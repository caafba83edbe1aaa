// SPDX-License-Identifier: Apache-2.0
// Small JSON documents (configurations, manifests, metadata files): nlohmann/json with errors that
// name the file and the key, and reads that never convert silently (no truncated or wrapped
// numbers). data/jsonl reads corpora with simdjson instead.
#pragma once

#include <concepts>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/types.hpp"
#include "io/json_fwd.hpp"

namespace lm::io {

// An Error about a document, with Exit::failure: text that is not JSON, a missing key, or a value
// of a wrong type or out of range.
class JsonError : public Error {
  public:
    using Error::Error;
};

// The limits of every document. nlohmann/json copies, compares and writes values by recursion, so
// the depth is limited before a value exists; no document of a tool has more than 20 levels. A
// value needs some 100 bytes of memory, so the number of values is limited, too. A tokenizer.json
// of 262,144 tokens has 2 million values in 33 MB, and no other document has as many.
constexpr int max_json_depth = 100;
constexpr i64 max_json_values = i64{8} << 20;
constexpr i64 max_json_bytes = i64{256} << 20;

// Throws JsonError: "PATH: not valid JSON at line L, column C: ...", or a text
// beyond the limits. Throws Error(failure) naming `path` when memory runs out.
Json parse_json(std::string_view text, const std::string& path);
OrderedJson parse_ordered_json(std::string_view text, const std::string& path);
// Returns null for text that parse_json() refuses.
Json json_or_null(std::string_view text);
OrderedJson ordered_json_or_null(std::string_view text);
// Returns the text of a file. Throws JsonError for more than max_json_bytes.
std::string read_json_text(const std::string& path);
Json read_json(const std::string& path);

// Returns the text of a document for a file: indented by 2, with a newline at the end. Bytes that
// are not UTF-8 become U+FFFD, because a command line may contain such file names.
std::string json_text(const Json& document);
std::string json_text(const OrderedJson& document);
// Returns the document on one line with a newline, as --json prints it; DEL and C1 are escaped.
std::string json_line(const OrderedJson& document);

namespace json_detail {

// `name` is the subject in messages: "PATH: NAME is not a whole number".
bool to_bool(const Json& value, std::string_view name, const std::string& path);
i64 to_integer(const Json& value, i64 least, i64 greatest, std::string_view name,
               const std::string& path);
u64 to_u64(const Json& value, std::string_view name, const std::string& path);
double to_number(const Json& value, double greatest, std::string_view name,
                 const std::string& path);
const std::string& to_string(const Json& value, std::string_view name, const std::string& path);
const Json& to_array(const Json& value, std::string_view name, const std::string& path);
const Json* find(const Json& object, const std::string& key, const std::string& path);
[[noreturn]] void missing(const std::string& key, const std::string& path);
std::string quoted(const std::string& key);

template <typename T>
struct IsVector : std::false_type {};
template <typename T>
struct IsVector<std::vector<T>> : std::true_type {};
template <typename T>
struct IsOptional : std::false_type {};
template <typename T>
struct IsOptional<std::optional<T>> : std::true_type {};

}  // namespace json_detail

// Returns `value` as T: bool, an integer type (2.0 is not an integer), float or double,
// std::string, Json, or a vector of these. Throws JsonError "PATH: NAME is not a ..." for any other
// type.
template <typename T>
T json_as(const Json& value, std::string_view name, const std::string& path) {
    namespace detail = json_detail;
    if constexpr (std::same_as<T, Json>) {
        return value;
    } else if constexpr (std::same_as<T, bool>) {
        return detail::to_bool(value, name, path);
    } else if constexpr (std::same_as<T, u64>) {
        return detail::to_u64(value, name, path);
    } else if constexpr (std::integral<T>) {
        using Limits = std::numeric_limits<T>;
        return static_cast<T>(detail::to_integer(value, Limits::min(), Limits::max(), name, path));
    } else if constexpr (std::floating_point<T>) {
        return static_cast<T>(detail::to_number(value, std::numeric_limits<T>::max(), name, path));
    } else if constexpr (detail::IsVector<T>::value) {
        T items;
        for (const Json& item : detail::to_array(value, name, path)) {
            const std::string item_name =
                std::string(name) + "[" + std::to_string(items.size()) + "]";
            items.push_back(json_as<typename T::value_type>(item, item_name, path));
        }
        return items;
    } else {
        static_assert(std::same_as<T, std::string>, "no JSON conversion for this type");
        return detail::to_string(value, name, path);
    }
}

// Returns the value of `key`. Throws JsonError "PATH: 'key' is missing" or "'key' is not a
// number".
template <typename T>
T json_get(const Json& object, const std::string& key, const std::string& path) {
    const Json* value = json_detail::find(object, key, path);
    if (!value) json_detail::missing(key, path);
    return json_as<T>(*value, json_detail::quoted(key), path);
}

// Returns the whole number of `key`. Throws JsonError "PATH: 'key' is out of range: ..." for a
// number that is not in [least, greatest].
i64 json_integer(const Json& object, const std::string& key, i64 least, i64 greatest,
                 const std::string& path);

// Returns the value of `key`, or `fallback` when it is missing or null. Throws for a wrong type.
template <typename T>
T json_get_or(const Json& object, const std::string& key, T fallback, const std::string& path) {
    const Json* value = json_detail::find(object, key, path);
    if (!value || value->is_null()) return fallback;
    return json_as<T>(*value, json_detail::quoted(key), path);
}

// A struct S as a JSON object. `fields` is a tuple of pairs {"key", &S::member}. A member without a
// value (std::optional) is null.
template <typename S, typename... Fields>
OrderedJson object_of(const S& value, const std::tuple<Fields...>& fields) {
    OrderedJson object = OrderedJson::object();
    const auto put = [&](const auto& field) {
        const auto& member = value.*field.second;
        if constexpr (json_detail::IsOptional<std::remove_cvref_t<decltype(member)>>::value) {
            object[field.first] = member ? OrderedJson(*member) : OrderedJson();
        } else {
            object[field.first] = member;
        }
    };
    std::apply([&](const auto&... field) { (put(field), ...); }, fields);
    return object;
}

// Sets the members of `value` to the values of their keys. Throws as json_get() does; only a key of
// a std::optional may be missing.
template <typename S, typename... Fields>
void read_object(S& value, const Json& object, const std::tuple<Fields...>& fields,
                 const std::string& path) {
    const auto read = [&](const auto& field) {
        auto& member = value.*field.second;
        using T = std::remove_cvref_t<decltype(member)>;
        if constexpr (json_detail::IsOptional<T>::value) {
            const Json* found = json_detail::find(object, field.first, path);
            member.reset();
            if (found && !found->is_null())
                member = json_get<typename T::value_type>(object, field.first, path);
        } else {
            member = json_get<T>(object, field.first, path);
        }
    };
    std::apply([&](const auto&... field) { (read(field), ...); }, fields);
}

}  // namespace lm::io
