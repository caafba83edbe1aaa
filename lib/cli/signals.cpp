// SPDX-License-Identifier: Apache-2.0
// The handlers only store into lock-free atomics, which is async-signal-safe; the polling loop does
// the rest.
#include "cli/signals.hpp"

#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <mutex>
#include <utility>

#include "base/error.hpp"
#include "base/threads.hpp"
#include "base/types.hpp"

namespace lm::cli {
namespace {

std::atomic<int> first_stop_signal{0};
std::atomic<i64> pressed_ms{0};        // time of the first SIGINT or SIGTERM; 0: none
std::atomic<i64> sigterm_pause_ms{0};  // a SIGTERM within this time after pressed_ms is ignored
std::atomic<bool> dump_wanted{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<i64>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

i64 now_ms() {
    struct timespec now = {};
    clock_gettime(CLOCK_MONOTONIC, &now);  // async-signal-safe (POSIX)
    return i64{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000 + 1;
}

// One Ctrl-C may cause two signals: from the terminal and from a launcher. Signals within this time
// count as one signal.
constexpr i64 same_press_ms = 200;

bool is_second_press(int signal) {
    const i64 now = now_ms();
    i64 first = 0;
    if (pressed_ms.compare_exchange_strong(first, now)) return false;
    return now - first > (signal == SIGTERM ? sigterm_pause_ms.load() : same_press_ms);
}

extern "C" void on_stop_signal(int signal) {
    const bool presses = signal == SIGINT || signal == SIGTERM;
    if (presses &&
        is_second_press(signal)) {  // the default action follows when this handler returns
        std::signal(signal, SIG_DFL);
        std::raise(signal);
        return;
    }
    int none = 0;
    first_stop_signal.compare_exchange_strong(none, signal);
}

extern "C" void on_dump_signal(int) {
    dump_wanted.store(true);
}

void install(int signal, void (*handler)(int)) {
    struct sigaction action = {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigemptyset(&action.sa_mask);
    LM_CHECK(sigaction(signal, &action, nullptr) == 0, "sigaction() failed for signal {}", signal);
}

sigset_t mask_at_start;

// Returns all signals except two kinds: signals that the kernel sends to the thread that caused
// them, and signals of profilers.
sigset_t signals_to_block() {
    sigset_t set;
    sigfillset(&set);
    for (const int own : {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGPIPE, SIGPROF, SIGSEGV, SIGSYS,
                          SIGTRAP, SIGVTALRM, SIGXFSZ}) {
        sigdelset(&set, own);
    }
    return set;
}

std::mutex report_mutex;
std::function<void(std::string_view)> stop_report;
bool reported = false;

void report_stop() {
    const std::lock_guard lock(report_mutex);
    const char* const name = stop_signal_name();
    if (name == nullptr || reported || !stop_report) return;
    reported = true;
    stop_report(name);
}

// Handles signals only in sigsuspend(). A signal that arrives outside of sigsuspend() stays pending
// until the next sigsuspend().
void* wait_for_signals(void*) {
    const sigset_t held = signals_to_block();
    sigset_t open;
    pthread_sigmask(SIG_BLOCK, &held, &open);
    while (true) {
        sigsuspend(&open);
        report_stop();
    }
}

void create_signal_thread() {
    // The stack is small, because handlers and a report need little stack and ulimit -v counts the
    // whole stack.
    constexpr size_t stack_bytes = size_t{256} << 10;
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_attr_setstacksize(&attributes, stack_bytes);
    pthread_t thread = {};
    const int error = pthread_create(&thread, &attributes, wait_for_signals, nullptr);
    pthread_attr_destroy(&attributes);
    if (error != 0) throw_no_thread(error);
}

bool is_ignored(int signal) {
    struct sigaction action = {};
    return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void start_signal_thread() {
    static bool done = false;
    if (done) return;
    create_signal_thread();  // inherits the mask, so that it receives all signals
    const sigset_t held = signals_to_block();
    pthread_sigmask(SIG_BLOCK, &held, &mask_at_start);
    pthread_atfork(nullptr, nullptr, [] { pthread_sigmask(SIG_SETMASK, &mask_at_start, nullptr); });
    done = true;
}

void end_by_signal(int signal) {
    std::signal(signal, SIG_DFL);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
    std::raise(signal);
    _exit(128 + signal);  // for a signal whose default action is to do nothing
}

void install_stop_signals(Sigterm sigterm) {
    sigterm_pause_ms.store(sigterm == Sigterm::as_sigint ? same_press_ms : 10'000);
    install(SIGUSR1, on_stop_signal);
    install(SIGTERM, on_stop_signal);
    for (const int signal : {SIGINT, SIGHUP}) {
        if (!is_ignored(signal)) install(signal, on_stop_signal);
    }
}

void on_stop_signal(std::function<void(std::string_view)> report) {
    const std::lock_guard lock(report_mutex);
    stop_report = std::move(report);
}

StopRequest stop_requested() {
    return first_stop_signal.load() == 0 ? StopRequest::none : StopRequest::save_and_stop;
}

int stop_signal_number() {
    return first_stop_signal.load();
}

const char* stop_signal_name() {
    switch (stop_signal_number()) {
        case 0:
            return nullptr;
        case SIGUSR1:
            return "SIGUSR1";
        case SIGTERM:
            return "SIGTERM";
        case SIGHUP:
            return "SIGHUP";
        default:
            return "SIGINT";
    }
}

void install_dump_signal() {
    install(SIGUSR2, on_dump_signal);
}

bool consume_dump_request() {
    return dump_wanted.exchange(false);
}

void ignore_sigpipe() {
    install(SIGPIPE, SIG_IGN);
}

}  // namespace lm::cli
