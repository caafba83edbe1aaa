// SPDX-License-Identifier: Apache-2.0
// The error of the functions of json.hpp.
#pragma once

#include "base/error.hpp"

namespace lm::io {

// An Error about a document, with Exit::failure: text that is not JSON, a missing key, or a value
// of a wrong type or out of range.
class JsonError : public Error {
  public:
    using Error::Error;
};

}  // namespace lm::io
