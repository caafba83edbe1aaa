// SPDX-License-Identifier: Apache-2.0
#include "fiber.hpp"

#include "races.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

namespace emulator {
namespace {

constexpr size_t page = 4096;
constexpr size_t stack_bytes = size_t{128} << 10;

}  // namespace

Fiber::Fiber() {
    stack_ = mmap(nullptr, stack_bytes, PROT_READ | PROT_WRITE,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (stack_ == MAP_FAILED) std::abort();
    mprotect(stack_, page, PROT_NONE);
}

Fiber::~Fiber() {
    munmap(stack_, stack_bytes);
}

#if defined(__x86_64__)

// Pushes the callee-saved registers of the System V ABI, switches stacks, and pops these registers
// from the other stack.
extern "C" void emulator_switch(void** from, void* to);
asm(R"(
.text
.type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch, .-emulator_switch

.type emulator_begin, @function
emulator_begin:
    movq %r12, %rdi
    callq *%r13
    ud2
.size emulator_begin, .-emulator_begin
)");
extern "C" void emulator_begin();

void Fiber::begin(void (*main)(void*), void* argument) {
    if (context_.sanitizer == nullptr) context_.sanitizer = races::new_fiber();
    auto* top = reinterpret_cast<uintptr_t*>(static_cast<char*>(stack_) + stack_bytes);
    *--top = 0;  // the stack is aligned to 16 bytes in emulator_begin
    *--top = 0;
    *--top = reinterpret_cast<uintptr_t>(&emulator_begin);
    *--top = 0;                                      // rbp
    *--top = 0;                                      // rbx
    *--top = reinterpret_cast<uintptr_t>(argument);  // r12
    *--top = reinterpret_cast<uintptr_t>(main);      // r13
    *--top = 0;                                      // r14
    *--top = 0;                                      // r15
    context_.stack = top;
}

void Fiber::enter(Context& from) {
    from.sanitizer = races::current_fiber();
    races::switch_to(context_.sanitizer);
    emulator_switch(&from.stack, context_.stack);
}

void Fiber::leave(Context& to) {
    races::switch_to(to.sanitizer);
    emulator_switch(&context_.stack, to.stack);
}

void Fiber::leave_for_good(Context& to) {
    races::switch_to(to.sanitizer);
    void* nowhere = nullptr;
    emulator_switch(&nowhere, to.stack);
    std::abort();
}

#else

void Fiber::begin(void (*main)(void*), void* argument) {
    if (context_.sanitizer == nullptr) context_.sanitizer = races::new_fiber();
    getcontext(&context_.machine);
    context_.machine.uc_stack.ss_sp = stack_;
    context_.machine.uc_stack.ss_size = stack_bytes;
    context_.machine.uc_link = nullptr;
    // makecontext() passes only ints, so each pointer is passed in two halves.
    const auto f = reinterpret_cast<uintptr_t>(main);
    const auto a = reinterpret_cast<uintptr_t>(argument);
    const auto start = +[](unsigned f0, unsigned f1, unsigned a0, unsigned a1) {
        const auto whole = [](unsigned high, unsigned low) {
            return static_cast<uintptr_t>(high) << 32 | low;
        };
        reinterpret_cast<void (*)(void*)>(whole(f0, f1))(reinterpret_cast<void*>(whole(a0, a1)));
    };
    makecontext(&context_.machine, reinterpret_cast<void (*)()>(start), 4,
                static_cast<unsigned>(f >> 32), static_cast<unsigned>(f),
                static_cast<unsigned>(a >> 32), static_cast<unsigned>(a));
}

void Fiber::enter(Context& from) {
    from.sanitizer = races::current_fiber();
    races::switch_to(context_.sanitizer);
    swapcontext(&from.machine, &context_.machine);
}

void Fiber::leave(Context& to) {
    races::switch_to(to.sanitizer);
    swapcontext(&context_.machine, &to.machine);
}

void Fiber::leave_for_good(Context& to) {
    races::switch_to(to.sanitizer);
    setcontext(&to.machine);
    std::abort();
}

#endif

}  // namespace emulator
