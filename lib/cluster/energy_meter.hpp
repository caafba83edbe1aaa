// SPDX-License-Identifier: Apache-2.0
// Measures the energy that this host uses. Reads the RAPL counters of processors and memory (Linux
// powercap files) and the NVML sensors of NVIDIA GPUs. Assumes a constant power for processors or
// memory without RAPL counters.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/nvml.hpp"

namespace lm::cluster {

// The energy that the processors, the memory and the GPUs of a host used, in joules.
struct EnergyUse {
    double cpu_j = 0, memory_j = 0, gpu_j = 0;
};

class EnergyMeter {
  public:
    struct Settings {
        std::string powercap = "/sys/class/powercap";
        std::string nvml = "libnvidia-ml.so.1";  // empty: no GPUs
        double cpu_w = 0;                        // assumed power of processors that have no counter
        double memory_w = 0;                     // assumed power of memory that has no counter
    };
    // Returns a meter with the counters that this host has.
    static EnergyMeter open(const Settings& settings);

    // Adds the energy since the previous call, or since open(). Call it at least every few minutes,
    // because a RAPL counter of 2^32 units of 61 uJ restarts at 0 after 11 minutes at 400 W.
    void sample(double now_s);
    const EnergyUse& used() const { return used_; }
    double measured_s() const { return last_s_ - first_s_; }  // from open() to the last sample()
    const Settings& settings() const { return settings_; }

    bool has_cpu_counters() const { return !packages_.empty(); }
    bool has_memory_counters() const { return !memories_.empty(); }
    const std::optional<Nvml>& nvml() const { return nvml_; }

  private:
    // A RAPL zone: the energy counter of a processor package or of memory.
    struct Zone {
        std::string file;   // energy_uj
        double max_uj = 0;  // the counter restarts at 0 above this value
        double reading_uj = 0;
    };
    EnergyMeter(const Settings& settings, double now_s)
        : settings_(settings), first_s_(now_s), last_s_(now_s) {}
    void find_zones();
    static double joules_since(std::vector<Zone>& zones);
    double gpu_joules_since(double elapsed_s);

    Settings settings_;
    std::vector<Zone> packages_, memories_;
    std::optional<Nvml> nvml_;
    std::vector<double> gpu_j_;  // last reading of each GPU, in joules
    double first_s_, last_s_;    // monotonic time of open() and of the last sample()
    EnergyUse used_;
};

}  // namespace lm::cluster
