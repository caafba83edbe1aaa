// SPDX-License-Identifier: Apache-2.0
// Interprets calls in the pickle of a torch file that only describe data, such as OrderedDict(...)
// and _rebuild_tensor_v2(...), without executing them.
#pragma once

#include <functional>
#include <string>

#include "convert/torch/pickle_value.hpp"

namespace lm::convert {

// Turns `call`, a new object with callable and arguments, into the data that it describes. Leaves
// any other call unchanged. Returns the problem if the call describes an invalid tensor, else an
// empty text.
std::string interpret_call(PickleValue& call);
// Sets `storage` to the storage that the persistent id `id`, a tuple, describes. Returns the
// problem of an invalid id, else an empty text.
std::string interpret_storage(const PickleValue& id, PickleValue& storage);

}  // namespace lm::convert
