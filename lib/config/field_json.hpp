// SPDX-License-Identifier: Apache-2.0
// The JSON of a section: the fields of its table (field.hpp).
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "base/error.hpp"
#include "config/field.hpp"
#include "config/resolved.hpp"
#include "io/json.hpp"

namespace lm::config {

template <typename Value>
io::OrderedJson json_of(const Value& value) {
    return value;
}
template <typename Value>
io::OrderedJson json_of(const std::optional<Value>& value) {
    return value ? io::OrderedJson(*value) : io::OrderedJson();
}
template <typename Value>
io::OrderedJson json_of(const cli::WithDefault<Value>& value) {
    return value.value;
}

// The value of a field whose key is omitted.
inline io::OrderedJson omitted() {
    return io::OrderedJson::value_t::discarded;
}

// Adds the fields of `block` to `json` in the order of the table. A field has the value that its
// getter returns for `resolved`, or without a getter that of its member in `section`. nullptr: the
// run keeps no such section, so that all fields need a getter.
template <typename Section>
void add_json(io::OrderedJson& json, Block block, const Fields<Section>& fields,
              const Section* section, const Resolved& resolved) {
    for (const Field<Section>& field : fields) {
        if (field.block != block) continue;
        const std::string key = field.key();
        if (field.json != nullptr) {
            const io::OrderedJson value = field.json(resolved);
            if (!value.is_discarded()) json[key] = value;
            continue;
        }
        LM_CHECK(section != nullptr, "expected a getter of {}, got none", key);
        std::visit(
            [&](auto member) {
                if constexpr (!std::is_same_v<decltype(member), std::monostate>) {
                    json[key] = json_of(section->*member);
                }
            },
            field.member);
    }
}

}  // namespace lm::config
