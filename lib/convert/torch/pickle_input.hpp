// SPDX-License-Identifier: Apache-2.0
// The bytes of a pickle, with bounds checks, and the error for a refused pickle.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/error.hpp"
#include "base/types.hpp"

namespace lm::convert {

class PickleInput {
  public:
    // Reads from bytes[at]. Each read advances `at`. The arguments must outlive this object.
    // `path`: the file that errors name.
    PickleInput(std::span<const std::byte> bytes, size_t& at, const std::string& path)
        : bytes_(bytes), at_(at), path_(path) {}

    size_t left() const { return bytes_.size() - at_; }

    template <typename... Args>
    [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
        run_error(path_, "pickle refused at byte {}: {}", at_,
                  fmt::format(format, std::forward<Args>(args)...));
    }

    std::string_view take(u64 n) {
        if (n > bytes_.size() - at_) refuse("truncated: expected {} more bytes", n);
        const auto* from = reinterpret_cast<const char*>(bytes_.data()) + at_;
        at_ += static_cast<size_t>(n);
        return {from, static_cast<size_t>(n)};
    }
    template <typename T>
    T number() {
        T value;
        std::memcpy(&value, take(sizeof(T)).data(), sizeof(T));
        return value;
    }
    std::string_view line() {
        const auto* from = reinterpret_cast<const char*>(bytes_.data()) + at_;
        const std::string_view rest(from, bytes_.size() - at_);
        const size_t end = rest.substr(0, 1024).find('\n');
        if (end == rest.npos) refuse("a name does not end");
        at_ += end + 1;
        return rest.substr(0, end);
    }

  private:
    std::span<const std::byte> bytes_;
    size_t& at_;
    const std::string& path_;
};

}  // namespace lm::convert
