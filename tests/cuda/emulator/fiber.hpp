// SPDX-License-Identifier: Apache-2.0
// A coroutine with its own stack: enter() resumes it, leave() suspends it. Switching takes a few
// instructions on x86-64; other processors use ucontext.
#pragma once

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include <cstddef>

namespace emulator {

class Fiber {
  public:
    // The state of the code that called enter().
    struct Context {
#if defined(__x86_64__)
        void* stack = nullptr;
#else
        ucontext_t machine;
#endif
        void* sanitizer = nullptr;  // ThreadSanitizer's fiber
    };

    Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber();

    // The next enter() runs main(argument) on an empty stack; main must end with leave_for_good().
    void begin(void (*main)(void*), void* argument);
    void enter(Context& from);
    void leave(Context& to);  // returns at the next enter()
    [[noreturn]] static void leave_for_good(Context& to);

  private:
    void* stack_ = nullptr;
    Context context_;
};

}  // namespace emulator
