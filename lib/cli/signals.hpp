// SPDX-License-Identifier: Apache-2.0
// Signals as flags that a loop polls. SIGUSR1, SIGTERM, SIGHUP (terminal closed) and SIGINT request
// save-and-stop; a second SIGINT or SIGTERM ends the process at once; SIGUSR2 requests a state
// dump. SIGPIPE keeps its default action except in lm-train (ignore_sigpipe()).
#pragma once

#include <functional>
#include <string_view>

namespace lm::cli {

// Starts one thread that only handles signals. Blocks signals in the calling thread and in all
// threads that it creates later, because code that oneDNN generates uses the stack pointer as a
// general register. The kernel would write the frame of a signal handler below that address, into
// the heap. Two kinds of signals are not blocked: signals that the kernel sends to the thread that
// caused them (SIGSEGV, SIGPIPE, ...), and signals of profilers. Dispositions do not change, and a
// child process gets the original mask. Call this function before any thread is created (run_main()
// does); further calls do nothing.
void start_signal_thread();

// Ends the process with the default action of `signal`.
[[noreturn]] void end_by_signal(int signal);

enum class StopRequest { none, save_and_stop };

enum class Sigterm { as_sigint, after_10_s };

// Installs the handlers of SIGUSR1, SIGTERM, SIGHUP and SIGINT. A second SIGINT or SIGTERM, more
// than 0.2 s after the first, ends the process with the default action. With after_10_s, a second
// SIGTERM ends the process only if it arrives more than 10 s after the first signal, because
// launchers and batch systems repeat SIGTERM. Interrupted system calls are restarted. A SIGINT or
// SIGHUP that was ignored when the process started (background job of a script, nohup) stays
// ignored.
void install_stop_signals(Sigterm sigterm = Sigterm::as_sigint);
// Sets a function that a separate thread calls once, with the name of the first stop signal.
// nullptr removes the function. If the previous function is running, waits until it returns.
void on_stop_signal(std::function<void(std::string_view signal)> report);
StopRequest stop_requested();
int stop_signal_number();  // number of the first signal; 0 when none was received
const char*
stop_signal_name();  // name of the first signal: "SIGUSR1"; nullptr when none was received

void install_dump_signal();   // SIGUSR2
bool consume_dump_request();  // true once for one or more SIGUSR2 since the last call

void ignore_sigpipe();  // for lm-train, because a closed log pipe must not end a run

}  // namespace lm::cli
