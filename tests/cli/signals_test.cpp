// SPDX-License-Identifier: Apache-2.0
// Each case runs in its own child process, since signal handlers and their flags are global to a
// process.
#include <csignal>
#include <cstring>
#include <string>

#include "child.hpp"
#include "cli/signals.hpp"
#include "support/catch.hpp"

using namespace lm::cli;

TEST_CASE("SIGUSR1 and SIGTERM request save-and-stop; repeats change nothing") {
    const Ended ended = in_child([] {
        install_stop_signals();
        if (stop_requested() != StopRequest::none || stop_signal_name()) return 1;
        std::raise(SIGUSR1);
        std::raise(SIGTERM);
        std::raise(SIGTERM);
        if (stop_requested() != StopRequest::save_and_stop) return 2;
        return std::strcmp(stop_signal_name(), "SIGUSR1") == 0 ? 0 : 3;
    });
    CHECK(ended.code == 0);
}

TEST_CASE("a second SIGTERM or SIGINT ends the process, in lm-train SIGTERM only later") {
    for (const int first : {SIGTERM, SIGINT}) {
        for (const int second : {SIGTERM, SIGINT}) {
            for (const Sigterm sigterm : {Sigterm::as_sigint, Sigterm::after_10_s}) {
                const Ended ended = in_child([&] {
                    std::signal(SIGINT, SIG_DFL);
                    install_stop_signals(sigterm);
                    std::raise(first);
                    std::raise(first);  // within 0.2 s: counts as the same signal
                    if (stop_signal_number() != first) return 1;
                    usleep(250'000);
                    std::raise(second);
                    return 2;
                });
                const bool asks_on = sigterm == Sigterm::after_10_s && second == SIGTERM;
                INFO(first << " then " << second);
                CHECK(ended.signal == (asks_on ? 0 : second));
                CHECK((!asks_on || ended.code == 2));
            }
        }
    }
}

TEST_CASE("the first SIGINT requests save-and-stop, the second ends the process") {
    const Ended ended = in_child([] {
        std::signal(SIGINT, SIG_DFL);
        install_stop_signals();
        std::raise(SIGINT);
        if (std::strcmp(stop_signal_name(), "SIGINT") != 0) return 1;
        std::raise(SIGINT);  // the launcher sends it, too: counts as the same signal
        usleep(250'000);
        std::raise(SIGINT);
        return 2;
    });
    CHECK(ended.signal == SIGINT);
}

TEST_CASE("a SIGINT that is ignored at the start stays ignored") {
    const Ended ended = in_child([] {
        std::signal(SIGINT, SIG_IGN);
        install_stop_signals();
        std::raise(SIGINT);
        std::raise(SIGINT);
        return stop_requested() == StopRequest::none ? 0 : 1;
    });
    CHECK(ended.code == 0);
}

TEST_CASE("SIGUSR2 requests one dump") {
    const Ended ended = in_child([] {
        install_dump_signal();
        if (consume_dump_request()) return 1;
        std::raise(SIGUSR2);
        std::raise(SIGUSR2);
        if (!consume_dump_request()) return 2;
        return consume_dump_request() ? 3 : 0;
    });
    CHECK(ended.code == 0);
}

TEST_CASE("with SIGPIPE ignored, write() fails") {
    const Ended ended = in_child([] {
        std::signal(SIGPIPE, SIG_DFL);
        ignore_sigpipe();
        int fds[2];
        if (pipe(fds) != 0) return 1;
        close(fds[0]);
        return write(fds[1], "x", 1) == -1 ? 0 : 2;
    });
    CHECK(ended.code == 0);
}
