// SPDX-License-Identifier: Apache-2.0
// A flow of control with a stack of its own, entered and left by name: a few instructions on
// x86-64, ucontext elsewhere.
#pragma once

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

#include <cstddef>

namespace emulator {

class Fiber {
  public:
    // Where enter() was called.
    struct Context {
#if defined(__x86_64__)
        void* stack = nullptr;
#else
        ucontext_t machine;
#endif
    };

    Fiber();
    Fiber(const Fiber&) = delete;
    Fiber& operator=(const Fiber&) = delete;
    ~Fiber();

    // main(argument) runs at the next enter(), on an empty stack; it ends by leave_for_good().
    void begin(void (*main)(void*), void* argument);
    void enter(Context& from);
    void leave(Context& to);  // returns at the next enter()
    [[noreturn]] static void leave_for_good(Context& to);

  private:
    void* stack_ = nullptr;
    Context context_;
};

}  // namespace emulator
