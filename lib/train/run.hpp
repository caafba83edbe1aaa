// SPDX-License-Identifier: Apache-2.0
// A training run of one rank, from its configuration to its exit code.
#pragma once

#include "comm/flight_recorder.hpp"
#include "comm/group.hpp"
#include "train/run_config.hpp"

namespace lm::train {

// Installs handlers that record requests to stop (SIGTERM, SIGINT, SIGUSR1) and to print the rank's
// state (SIGUSR2); the loop acts on them after an iteration. A program that trains calls this
// first, because joining the ranks and opening the data can take minutes.
void catch_signals();

// Trains until the training is finished or something asks one of the ranks to stop; then all stop
// after the same iteration. Rank 0 writes the log lines to stdout; other messages are written to
// stderr. `recorder` records what this rank does; SIGUSR2, or `quiet_s` seconds
// without any event, print it. Collective.
Exit run(const RunConfig& config, comm::Group& world, comm::FlightRecorder& recorder,
         double quiet_s);

}  // namespace lm::train
