// SPDX-License-Identifier: Apache-2.0
// Reads the sensors of NVIDIA GPUs through NVML, the management library of the driver. The library
// is opened at run time, so that programs start on machines without a driver.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/types.hpp"

namespace lm::cluster {

// The state of one GPU. nullopt: the GPU has no such sensor.
struct GpuSensors {
    std::optional<double> energy_j;             // since the driver was loaded
    std::optional<double> power_w;              // now
    std::optional<i64> temperature_c;           // temperature of the chip
    std::optional<i64> sm_mhz, max_sm_mhz;      // clock of the SMs: now, and its maximum
    std::optional<i64> uncorrected_ecc_errors;  // since the last reboot
};

class Nvml {
  public:
    // Opens and initializes the library. Returns nullopt when the machine has no driver, or an old
    // driver that lacks a function.
    static std::optional<Nvml> open(const std::string& library = "libnvidia-ml.so.1");
    ~Nvml();
    Nvml(Nvml&&) noexcept;
    Nvml& operator=(Nvml&&) noexcept;

    i64 n_gpus() const;
    std::string name(i64 gpu) const;  // "NVIDIA H100 80GB HBM3"
    GpuSensors read(i64 gpu) const;

  private:
    struct Functions;
    explicit Nvml(std::unique_ptr<Functions> functions);
    std::unique_ptr<Functions> functions_;
};

}  // namespace lm::cluster
