// SPDX-License-Identifier: Apache-2.0
#include "base/machine.hpp"

#include <pwd.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <mutex>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace lm {
namespace {

Vectors max_allowed() {
    const char* const value = std::getenv("LM_PROCESSOR");
    if (value == nullptr || *value == '\0') return Vectors::amx;
    if (value == std::string_view("avx512")) return Vectors::avx512;
    if (value == std::string_view("avx2")) return Vectors::avx2;
    if (value == std::string_view("portable")) return Vectors::none;
    usage_error("LM_PROCESSOR",
                "expected avx512, avx2 or portable, got '{}': correct or unset the variable",
                value);
}

std::mutex device_mutex;
std::string& own_device() {
    static std::string device;
    return device;
}

}  // namespace

void set_own_device(const std::string& device) {
    const std::lock_guard lock(device_mutex);
    own_device() = device;
}

std::string own_place(int rank) {
    const std::lock_guard lock(device_mutex);
    const std::string& device = own_device();
    return fmt::format("rank {} on {}{}{}", rank, host_name(), device.empty() ? "" : ", ", device);
}

std::string host_name() {
    const char* const given = std::getenv("LM_HOST");
    if (given != nullptr && *given != '\0') return given;
    // All bytes are 0, because a truncated name may lack the final zero (POSIX).
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) != 0) return "unknown";
    return name.data();
}

std::string own_user() {
    passwd entry = {};
    passwd* found = nullptr;
    std::vector<char> buffer(16384);
    ::getpwuid_r(::geteuid(), &entry, buffer.data(), buffer.size(), &found);
    return found != nullptr ? found->pw_name : std::to_string(::geteuid());
}

bool may_use(Vectors vectors) {
    static const Vectors most = max_allowed();
    return vectors <= most;
}

}  // namespace lm
