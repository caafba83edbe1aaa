// SPDX-License-Identifier: Apache-2.0
// The meaning of the calls in a torch file that describe data.
#pragma once

#include <functional>
#include <string>

#include "convert/torch/pickle_value.hpp"

namespace lm::convert {

// Turns `call`, a fresh object with callable and arguments, into the data that it describes, or
// leaves it a record. Returns a text that states what is wrong with a tensor, or an empty text.
std::string interpret_call(PickleValue& call);
// Turns the tuple of a persistent id into a storage; the same result.
std::string interpret_storage(const PickleValue& id, PickleValue& storage);

}  // namespace lm::convert
