// SPDX-License-Identifier: Apache-2.0
// Runs a training on one rank, from its configuration to its exit code.
#pragma once

#include "comm/flight_recorder.hpp"
#include "comm/group.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

// Installs the handlers of the signals that stop the run (SIGTERM, SIGINT, SIGHUP, SIGUSR1) and of
// the signal that prints the rank's state (SIGUSR2), and ignores SIGPIPE. The first stop signal
// only records the request; the loop reads it after a micro-batch or an iteration. A second SIGINT
// or SIGTERM can end the process (cli::install_stop_signals()). A program that trains calls this
// function first, because connecting the ranks and opening the data can take minutes.
void catch_signals();

// Trains until the training is finished or one of the ranks gets a request to stop; all ranks then
// stop after the same iteration. Rank 0 writes the log lines to stdout; other messages go to
// stderr. `joined` describes how the ranks connected (comm::Launch::describe()). `recorder` records
// the events of this rank. The watchdog dumps these events on SIGUSR2, and after `quiet_s` seconds
// without an event. Collective.
Exit run(RunConfig config, comm::Group& world, const std::string& joined,
         comm::FlightRecorder& recorder, double quiet_s);

}  // namespace lm::train
