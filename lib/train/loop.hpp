// SPDX-License-Identifier: Apache-2.0
// The training loop around Trainer::step: data, logs, saves, validation and stopping. What to do
// when is decided by the pure functions of train/rules.hpp.
#pragma once

#include "comm/flight_recorder.hpp"
#include "comm/group.hpp"
#include "comm/watchdog.hpp"
#include "train/run_config.hpp"

namespace lm::train {

// A request to stop is noted from here on and answered behind an iteration, with the state saved.
// First of all in a program that trains: joining the ranks and opening the data can take minutes.
void catch_signals();

// Trains as `config` says, together with the other ranks of `world`, until the training is finished
// or something asks one of them to stop: then all stop behind the same iteration. Rank 0 writes the
// log lines to stdout, everything else for people to stderr. `recorder` is told what this rank
// does; SIGUSR2, and `quiet_s` seconds without any event, print it.
Exit run(const RunConfig& config, comm::Group& world, comm::FlightRecorder& recorder,
         double quiet_s);

}  // namespace lm::train
