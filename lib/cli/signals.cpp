// SPDX-License-Identifier: Apache-2.0
// The handlers only store into lock-free atomics; everything else is for the loop that polls.
#include "cli/signals.hpp"

#include <csignal>

#include <atomic>

#include "base/error.hpp"

namespace lm::cli {
namespace {

std::atomic<int> first_stop_signal{0};
std::atomic<bool> interrupted{false};
std::atomic<bool> dump_wanted{false};
static_assert(std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free);

extern "C" void on_stop_signal(int signal) {
    // A second SIGINT: the default action, as soon as this handler returns.
    if (signal == SIGINT && interrupted.exchange(true)) {
        std::signal(SIGINT, SIG_DFL);
        std::raise(SIGINT);
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
    LM_CHECK(sigaction(signal, &action, nullptr) == 0, "sigaction refused a signal");
}

bool is_ignored(int signal) {
    struct sigaction action = {};
    return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

}  // namespace

void install_stop_signals() {
    install(SIGUSR1, on_stop_signal);
    install(SIGTERM, on_stop_signal);
    if (!is_ignored(SIGINT)) install(SIGINT, on_stop_signal);
}

StopRequest stop_requested() {
    return first_stop_signal.load() == 0 ? StopRequest::none : StopRequest::save_and_stop;
}

const char* stop_signal_name() {
    switch (first_stop_signal.load()) {
        case 0:
            return nullptr;
        case SIGUSR1:
            return "SIGUSR1";
        case SIGTERM:
            return "SIGTERM";
        default:
            return "SIGINT";
    }
}

void install_dump_signal() {
    install(SIGUSR2, on_dump_signal);
}

bool take_dump_request() {
    return dump_wanted.exchange(false);
}

void ignore_sigpipe() {
    install(SIGPIPE, SIG_IGN);
}

}  // namespace lm::cli
