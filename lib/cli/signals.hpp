// SPDX-License-Identifier: Apache-2.0
// Signals as flags that a loop polls. SIGUSR1 and SIGTERM ask for save-and-stop, a first SIGINT
// too; a second SIGINT stops at once; SIGUSR2 asks for a state dump. Filters leave SIGPIPE alone.
#pragma once

namespace lm::cli {

enum class StopRequest { none, save_and_stop };

// SIGUSR1, SIGTERM, SIGINT; two SIGINTs within 0.2 s count as one. System calls that a signal
// interrupts are restarted. A SIGINT that the process was started to ignore (a background job of a
// script) stays ignored.
void install_stop_signals();
StopRequest stop_requested();
const char* stop_signal_name();  // of the first one: "SIGUSR1"; nullptr when none came

void install_dump_signal();  // SIGUSR2
bool take_dump_request();    // true once for one or more SIGUSR2 since the last call

void ignore_sigpipe();  // lm-train: a dead log pipe must not end a run

}  // namespace lm::cli
