// SPDX-License-Identifier: Apache-2.0
// The options of time and layout that describe the GPUs and the training program.
#pragma once

#include <optional>
#include <string>

#include "cli/options.hpp"
#include "cost/layer_time.hpp"

namespace lm::estimate {

struct GpuFlags {
    const cli::Options* options = nullptr;  // of the verb, whose command line layout repeats
    cli::WithDefault<std::string> gpu;
    std::string hardware_file;
    std::optional<i64> gpus_per_node;
    std::optional<cli::Bytes> node_bandwidth, network_bandwidth;
    std::string network;
    std::optional<i64> nics;
    cli::WithDefault<std::string> trainer;
};

// Declares the options. `gpu` and `trainer` are the default values of their options; an empty `gpu`
// means that by default no hardware is known.
void add_gpu_options(cli::Options& options, GpuFlags& flags, const std::string& gpu,
                     const std::string& trainer);

// Returns the hardware that --gpu or --hardware names, changed by the values of the other options.
// Throws Error(usage) for an unknown name, an invalid value, or if both are given.
cost::Hardware resolve_hardware(const GpuFlags& flags);
cost::TrainingProgram resolve_trainer(const GpuFlags& flags);
bool is_megatron(const GpuFlags& flags);  // whether resolve_trainer() returns megatron_2021

}  // namespace lm::estimate
