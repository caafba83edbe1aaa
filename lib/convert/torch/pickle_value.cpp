// SPDX-License-Identifier: Apache-2.0
#include "convert/torch/pickle_value.hpp"

namespace lm::convert {

const PickleValue* PickleValue::find(std::string_view key) const {
    const PickleValue* dict = kind == Kind::object ? state : this;
    if (dict == nullptr || dict->kind != Kind::dict) return nullptr;
    // If a key occurs several times, the last value counts, as in Python.
    for (size_t i = dict->items.size(); i >= 2; i -= 2) {
        const PickleValue& name = *dict->items[i - 2];
        if (name.kind == Kind::text && name.text == key) return dict->items[i - 1];
    }
    return nullptr;
}

const PickleValue* PickleValue::find(i64 key) const {
    for (size_t i = 0; kind == Kind::dict && i + 1 < items.size(); i += 2) {
        if (items[i]->kind == Kind::integer && items[i]->integer == key) return items[i + 1];
    }
    return nullptr;
}

std::string_view name_of(PickleValue::Kind kind) {
    switch (kind) {
        case PickleValue::Kind::none:
            return "None";
        case PickleValue::Kind::boolean:
            return "bool";
        case PickleValue::Kind::integer:
        case PickleValue::Kind::big_integer:
            return "int";
        case PickleValue::Kind::real:
            return "float";
        case PickleValue::Kind::text:
            return "str";
        case PickleValue::Kind::bytes:
            return "bytes";
        case PickleValue::Kind::tuple:
            return "tuple";
        case PickleValue::Kind::list:
            return "list";
        case PickleValue::Kind::set:
            return "set";
        case PickleValue::Kind::dict:
            return "dict";
        case PickleValue::Kind::global:
            return "class";
        case PickleValue::Kind::storage:
            return "storage";
        case PickleValue::Kind::tensor:
            return "tensor";
        case PickleValue::Kind::object:
            return "object";
    }
    return "?";
}

}  // namespace lm::convert
