// SPDX-License-Identifier: Apache-2.0
// Damage of a checkpoint: data that does not match its digest, files that are missing or have a
// wrong size, and metadata that is not JSON, lacks a key or has impossible values. Only damage may
// make a run load another step. An error of the system (EIO, EACCES, ENOMEM, ESTALE, EMFILE) does
// not prove damage, so code throws a plain Error for it.
#pragma once

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/error.hpp"

namespace lm::ckpt {

// An Error about damage, with Exit::failure.
class DamageError : public Error {
  public:
    using Error::Error;
};

// Throws DamageError("OBJECT: ...").
template <typename... Args>
[[noreturn]] void damaged(std::string_view object, fmt::format_string<Args...> format,
                          Args&&... args) {
    throw DamageError(Exit::failure, fmt::format("{}: {}", object,
                                                 fmt::format(format, std::forward<Args>(args)...)));
}

}  // namespace lm::ckpt
