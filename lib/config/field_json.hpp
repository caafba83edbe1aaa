// SPDX-License-Identifier: Apache-2.0
// The JSON of a section: the fields of its table (field.hpp).
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <variant>

#include "base/error.hpp"
#include "config/field.hpp"
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

// Adds the fields of `block` to `json` in the order of the table. `derived` maps the keys of
// derived fields to their values; derived fields without an entry in `derived` are omitted.
template <typename Section>
void add_json(io::OrderedJson& json, Block block, const Fields<Section>& fields,
              const Section& section, const io::OrderedJson& derived) {
    for (const Field<Section>& field : fields) {
        if (field.block != block) continue;
        const std::string key = field.key();
        if (field.derived != Derived::no) {
            if (derived.contains(key)) json[key] = derived.at(key);
            continue;
        }
        std::visit(
            [&](auto member) {
                if constexpr (!std::is_same_v<decltype(member), std::monostate>) {
                    json[key] = json_of(section.*member);
                }
            },
            field.member);
    }
}

// Adds the fields of `block` of a section that RunConfig does not store. All these fields must be
// derived.
template <typename Section>
void add_derived_json(io::OrderedJson& json, Block block, const Fields<Section>& fields,
                      const io::OrderedJson& derived) {
    for (const Field<Section>& field : fields) {
        LM_CHECK(field.block != block || field.derived != Derived::no,
                 "expected a derived field, got {}", field.option);
    }
    add_json(json, block, fields, Section{}, derived);
}

}  // namespace lm::config
