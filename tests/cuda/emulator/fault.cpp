// SPDX-License-Identifier: Apache-2.0
#include "fault.hpp"

#include <unistd.h>

#include <atomic>
#include <csetjmp>
#include <csignal>
#include <cstring>
#include <memory>

namespace emulator {
namespace {

// These variables are __thread and not thread_local, because a signal handler must not trigger
// dynamic initialization.
__thread sigjmp_buf* way_out = nullptr;
__thread const void* address_of_fault = nullptr;
std::atomic<Describe> describe = nullptr;
struct sigaction before_us[2];

void write_line(const char* text) {
    const ssize_t ignored = write(STDERR_FILENO, text, std::strlen(text));
    (void)ignored;
}

void on_fault(int signal, siginfo_t* info, void*) {
    if (way_out != nullptr) {
        address_of_fault = info->si_addr;
        siglongjmp(*way_out, 1);
    }
    const Describe ask = describe.load();
    if (const char* const what = ask != nullptr ? ask(info->si_addr) : nullptr) {
        write_line("emulated CUDA: host code accesses ");
        write_line(what);
        write_line("\n");
    }
    sigaction(signal, &before_us[signal == SIGBUS ? 1 : 0],
              nullptr);  // the next fault ends the process
}

// The handler needs a separate stack, because the fault may be an overflow of the thread's stack.
void use_own_stack() {
    constexpr size_t bytes = size_t{64} << 10;
    static thread_local std::unique_ptr<std::byte[]> memory;
    if (memory) return;
    memory = std::make_unique<std::byte[]>(bytes);
    stack_t stack{};
    stack.ss_sp = memory.get();
    stack.ss_size = bytes;
    sigaltstack(&stack, nullptr);
}

// Called each time, because a test framework may have installed its own handler.
void install() {
    struct sigaction action {};
    action.sa_sigaction = on_fault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    for (const int signal : {SIGSEGV, SIGBUS}) {
        struct sigaction before {};
        sigaction(signal, &action, &before);
        if (before.sa_sigaction != on_fault) before_us[signal == SIGBUS ? 1 : 0] = before;
    }
}

}  // namespace

bool catching_faults(const std::function<void()>& body) {
    install();
    use_own_stack();
    sigjmp_buf here;
    if (sigsetjmp(here, 1) != 0) {
        way_out = nullptr;
        return false;
    }
    way_out = &here;
    body();
    way_out = nullptr;
    return true;
}

const void* fault_address() {
    return address_of_fault;
}

void describe_faults_by(Describe ask) {
    describe = ask;
    install();
}

}  // namespace emulator
