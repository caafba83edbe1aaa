// SPDX-License-Identifier: Apache-2.0
// The interface of the plugin liblm_mpi.so. The plugin exports one symbol, a function that returns
// this struct. `abi` is the first member and is compared before any other member is used. Increase
// mpi_plugin_abi with every change of MpiPlugin, Group or LaunchOptions.
#pragma once

#include "comm/launch.hpp"

namespace lm::comm {

constexpr int mpi_plugin_abi = 8;
constexpr const char* mpi_plugin_symbol = "lm_mpi_plugin";

struct MpiPlugin {
    int abi;
    std::unique_ptr<Launch> (*open)(const LaunchOptions& options);
};

}  // namespace lm::comm

// The symbol `mpi_plugin_symbol` of the library.
extern "C" __attribute__((visibility("default"))) const lm::comm::MpiPlugin* lm_mpi_plugin();
