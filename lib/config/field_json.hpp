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

// Adds the fields of `block` to `json` in the order of the table. `resolved` maps keys to the
// values that the run computed from the flags; a discarded value omits its key. The other fields
// have the values of `section`; nullptr: the run keeps no such section, so that all fields are
// resolved.
template <typename Section>
void add_json(io::OrderedJson& json, Block block, const Fields<Section>& fields,
              const Section* section, const io::OrderedJson& resolved) {
    for (const Field<Section>& field : fields) {
        if (field.block != block) continue;
        const std::string key = field.key();
        if (const auto value = resolved.find(key); value != resolved.end()) {
            if (!value->is_discarded()) json[key] = *value;
            continue;
        }
        LM_CHECK(section != nullptr, "expected a resolved value of {}, got none", key);
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
