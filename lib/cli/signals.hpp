// SPDX-License-Identifier: Apache-2.0
// Signals as flags that a loop polls. SIGUSR1 and SIGTERM ask for save-and-stop, a first SIGINT
// too; a second SIGINT stops at once; SIGUSR2 asks for a state dump. Filters leave SIGPIPE alone.
#pragma once

namespace lm::cli {

enum class StopRequest { none, save_and_stop };

void install_stop_signals();  // SIGUSR1, SIGTERM, SIGINT
StopRequest stop_requested();
const char* stop_signal_name();  // "SIGUSR1", or nullptr
void ignore_sigpipe();           // lm-train: a dead log pipe must not end a run

}  // namespace lm::cli
