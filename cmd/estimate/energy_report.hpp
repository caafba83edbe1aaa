// SPDX-License-Identifier: Apache-2.0
// lm-estimate time: energy, money and CO2 of a training.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "figures.hpp"

namespace lm::estimate {

struct EnergyFlags {
    std::optional<double> watts;
    std::optional<double> pue;
    std::string price;
    std::optional<double> carbon;
};
void add_energy_options(cli::Options& options, EnergyFlags& flags);

// Throws Error(usage) for values out of range.
void check(const EnergyFlags& flags);

// The GPUs of a training and their time.
struct GpuTime {
    i64 n_gpus = 0;
    double running_s = 0;                  // without waiting in the queue
    std::optional<double> hardware_watts;  // power of a GPU and its share of the node
};

// Returns the figures: the GPU-hours; the energy if the power of the GPUs is known; money and CO2
// if their flags are given. Throws Error(usage) when a given flag needs the power and the power is
// not known.
std::vector<Figure> energy_figures(const EnergyFlags& flags, const GpuTime& time);

}  // namespace lm::estimate
