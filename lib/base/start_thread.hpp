// SPDX-License-Identifier: Apache-2.0
// Threads whose making may be refused by a limit, which the error then names.
#pragma once

#include <system_error>
#include <thread>
#include <utility>

namespace lm {

// A run_error: no thread can be made, for the reason `error` (an errno); which limits to look at.
[[noreturn]] void no_thread(int error);

template <typename Body>
std::thread start_thread(Body&& body) {
    try {
        return std::thread(std::forward<Body>(body));
    } catch (const std::system_error& failure) {
        no_thread(failure.code().value());
    }
}

}  // namespace lm
