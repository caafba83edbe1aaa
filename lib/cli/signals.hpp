// SPDX-License-Identifier: Apache-2.0
// Signals as flags that a loop polls. SIGUSR1, SIGTERM, SIGHUP (the terminal is gone) and SIGINT
// ask for save-and-stop; a second SIGINT or SIGTERM ends the process at once; SIGUSR2 asks for a
// state dump. Filters leave SIGPIPE alone.
#pragma once

namespace lm::cli {

// Signals are taken by one thread that does nothing else: the others, and all that they make from
// now on, hold back what comes from outside. Generated code (oneDNN's) uses the stack pointer as a
// general register, and the kernel writes the frame of a handler below it: into the heap. What the
// system directs at the thread that caused it (SIGSEGV, SIGPIPE, ...) and the signals of profilers
// are not held back; dispositions stay as they are, and a child process gets the mask that this one
// was started with. To be called before any thread is made (run_main does); repeats change nothing.
void start_signal_thread();

// Ends the process as `signal` does by default.
[[noreturn]] void end_by_signal(int signal);

enum class StopRequest { none, save_and_stop };

enum class Sigterm { as_sigint, never_at_once };

// SIGUSR1, SIGTERM, SIGHUP, SIGINT. A SIGINT or SIGTERM more than 0.2 s after the first one of the
// two ends the process as it does by default; with never_at_once SIGTERM is left out of that, since
// launchers and batch systems repeat it while a checkpoint is written. System calls that a signal
// interrupts are restarted. A SIGINT or SIGHUP that the process was started to ignore (a background
// job of a script, nohup) stays ignored.
void install_stop_signals(Sigterm sigterm = Sigterm::as_sigint);
StopRequest stop_requested();
int stop_signal_number();        // of the first one; 0 when none came
const char* stop_signal_name();  // the same: "SIGUSR1"; nullptr

void install_dump_signal();   // SIGUSR2
bool consume_dump_request();  // true once for one or more SIGUSR2 since the last call

void ignore_sigpipe();  // lm-train: a dead log pipe must not end a run

}  // namespace lm::cli
