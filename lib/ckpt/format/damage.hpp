// SPDX-License-Identifier: Apache-2.0
// Damage of a checkpoint: data that does not match its digest, files that are missing or have a
// wrong size, and metadata that is not JSON, lacks a key or has impossible values. Only damage may
// make a run load another step. An error of the system (EIO, EACCES, ENOMEM, ESTALE, EMFILE) does
// not prove damage, so code throws a plain Error for it.
#pragma once

#include <fmt/format.h>

#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "io/json.hpp"

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

// Returns parse(), which reads the content of the file `path`. An error about this content is
// damage and names `path`: text that is not JSON, a value of a wrong type or out of range, and a
// value that a function for options refuses, such as a type or a size. Other errors, such as a
// format of a newer version, stay as they are.
template <typename Parse>
auto parsed(const std::string& path, const Parse& parse) {
    try {
        return parse();
    } catch (const io::JsonError& error) {
        throw DamageError(error.code(), error.what());
    } catch (const Error& error) {
        if (error.code() != Exit::usage) throw;
        damaged(path, "corrupt: {}", error.what());
    }
}

// Returns the text of a manifest or an index part. Throws DamageError when it is too large.
inline std::string read_step_file(const std::string& path) {
    return parsed(path, [&] { return io::read_json_text(path); });
}

}  // namespace lm::ckpt
