// SPDX-License-Identifier: Apache-2.0
// Waits for the writers of pipes and FIFOs that the user named as inputs.
#pragma once

#include <string>

#include "io/file.hpp"

namespace lm::io {

// Like open_input(), but does not wait for the first writer of a FIFO. Until a writer has opened
// it, poll(2) waits, but read(2) returns 0. For a caller whose wait can be interrupted.
Fd open_before_writer(const std::string& path);

// Waits until a process has opened a FIFO for writing, or has left data in it. Throws after 10
// seconds without a writer. Returns at once for any other file.
void await_first_writer(const Fd& fd, const std::string& path);

// Waits until read(2) would not block: for data or for the end.
void await_data(const Fd& fd, const std::string& path);

// Makes both waits throw Error(run_again) as soon as `stop_signal` returns the name of a signal
// (cli::stop_signal_name()). For programs whose handlers of stop signals only set a flag; nullptr:
// the waits do not end so.
void end_waits_on(const char* (*stop_signal)());

}  // namespace lm::io
