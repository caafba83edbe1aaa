// SPDX-License-Identifier: Apache-2.0
// The plan of a run as text, printed before the run starts, and the lines that rank 0 prints before
// and after the plan: version, launcher, hosts, libraries, devices, memory.
#pragma once

#include <string>
#include <vector>

#include "comm/group.hpp"
#include "device/device.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

// Returns lines with parameters, ranks, schedule, data, memory and checkpoints. `data`: the opened
// data of the run.
std::string describe_plan(const RunConfig& config, const data::DataSets& data);

// Returns the lines that come before the plan. `joined`: comm::Launch::describe(). `hosts`: the
// host of each rank.
std::string describe_start(const std::string& joined, const std::vector<std::string>& hosts);

// Returns the line about the GPU libraries. `libraries`: result of cuda::Plugin::libraries().
std::string describe_cuda(const std::string& libraries);

// Returns the line about the devices: the name of this rank's device, and the number of ranks whose
// device has another name than rank 0's. Only the result of rank 0 is printed. Collective.
std::string describe_devices(const device::Device& device, comm::Group& world);

// Returns the line about the rank that has allocated the most memory on its device. Collective.
std::string describe_memory(const device::Device& device, comm::Group& world);

}  // namespace lm::train
