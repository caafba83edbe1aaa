// SPDX-License-Identifier: Apache-2.0
// The data model of a pickle. The data model is inert: a global is a name, and a call is a record
// of its callable and arguments. The parser imports, constructs and calls nothing.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.hpp"
#include "base/types.hpp"

namespace lm::convert {

// A tensor of a torch file. Offset, shape and strides count elements.
struct PickledTensor {
    std::string storage_key;     // "0": the record data/0
    std::string type;            // "BFloat16"
    std::optional<DType> dtype;  // nullopt: a type that lm-utils does not read
    i64 element_bytes = 0;
    i64 storage_numel = 0;
    i64 offset = 0;
    std::vector<i64> shape;
    std::vector<i64> strides;
};

struct PickleValue {
    enum class Kind {
        none,
        boolean,
        integer,
        big_integer,  // does not fit in 64 bits; `text` has its bytes
        real,
        text,
        bytes,
        tuple,  // `items`
        list,
        set,
        dict,     // `items` has keys and values in turn
        global,   // `text` is "module name"
        storage,  // `tensor`, without shape and strides
        tensor,
        object  // a call: `callable`, the arguments `items`, and `state` of BUILD
    };
    Kind kind = Kind::none;
    bool boolean = false;
    int depth = 0;  // 1 + the largest depth of an item at the time of its addition
    i64 integer = 0;
    double real = 0;
    std::string text;
    std::vector<PickleValue*> items;
    PickleValue* callable = nullptr;
    PickleValue* state = nullptr;
    std::vector<PickledTensor> tensor;  // empty or one

    // Returns the value of a text key of a dict, or of an attribute of an object
    // (argparse.Namespace, or another object with a dict as state); nullptr when there is no such
    // value.
    const PickleValue* find(std::string_view key) const;
    // Returns the value of an integer key of a dict; nullptr when there is no such value.
    const PickleValue* find(i64 key) const;
    bool is(Kind wanted) const { return kind == wanted; }
};

std::string_view name_of(PickleValue::Kind kind);

// Owns the values of one pickle. Values refer to each other by pointers, and may form cycles.
struct Pickle {
    std::deque<PickleValue> values;
    PickleValue* root = nullptr;
};

}  // namespace lm::convert
