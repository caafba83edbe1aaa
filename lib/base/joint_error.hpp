// SPDX-License-Identifier: Apache-2.0
// An error that all ranks of a run throw alike, so that one of them alone need print it.
#pragma once

#include "base/error.hpp"

namespace lm {

class JointError : public Error {
  public:
    using Error::Error;
};

}  // namespace lm
