// SPDX-License-Identifier: Apache-2.0
// Signals as flags that a loop polls. SIGUSR1, SIGTERM and SIGHUP (the terminal is gone) ask for
// save-and-stop, a first SIGINT too; a second SIGINT stops at once; SIGUSR2 asks for a state dump.
// Filters leave SIGPIPE alone.
#pragma once

namespace lm::cli {

enum class StopRequest { none, save_and_stop };

// SIGUSR1, SIGTERM, SIGHUP, SIGINT; two SIGINTs within 0.2 s count as one. System calls that a
// signal interrupts are restarted. A SIGINT or SIGHUP that the process was started to ignore (a
// background job of a script, nohup) stays ignored.
void install_stop_signals();
StopRequest stop_requested();
int stop_signal_number();        // of the first one; 0 when none came
const char* stop_signal_name();  // the same: "SIGUSR1"; nullptr

void install_dump_signal();  // SIGUSR2
bool take_dump_request();    // true once for one or more SIGUSR2 since the last call

void ignore_sigpipe();  // lm-train: a dead log pipe must not end a run

}  // namespace lm::cli
