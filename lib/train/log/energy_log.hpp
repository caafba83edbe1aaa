// SPDX-License-Identifier: Apache-2.0
// --codecarbon-dir: measures the energy of a run. The first rank of each host measures its host and
// writes emissions-RANK.csv (metrics/emissions.hpp).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "cluster/energy_meter.hpp"
#include "comm/group.hpp"
#include "metrics/emissions.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

class EnergyLog {
  public:
    // Finds the meters of the host and opens the file of the host. Returns nullptr without
    // --codecarbon-dir, and on all ranks but the first of each host. Rank 0 prints a note that
    // names the meters of its host. Collective.
    static std::unique_ptr<EnergyLog> open(const RunConfig& config, comm::Group& world);
    ~EnergyLog();  // writes the energy of the run
    EnergyLog(const EnergyLog&) = delete;
    EnergyLog& operator=(const EnergyLog&) = delete;

    // Writes the energy of this run so far.
    void write();

    // Returns the meters of this host as text: "energy of each host: processors by RAPL; memory 96
    // W; 8 GPUs by NVML".
    std::string describe() const;

  private:
    EnergyLog(cluster::EnergyMeter meter, metrics::EmissionsFile file, metrics::EmissionsRow row);
    void sample_until_ended();
    metrics::EmissionsRow sample();

    cluster::EnergyMeter meter_;
    metrics::EmissionsFile file_;
    metrics::EmissionsRow row_;  // holds the values that stay the same during the run
    double busy_s_, cpu_s_;      // ticks of all cores from boot to the construction
    std::mutex mutex_;           // guards meter_ and ended_
    std::condition_variable end_;
    bool ended_ = false;
    std::thread sampler_;  // samples the meter at least once per wrap-around of a counter
};

}  // namespace lm::train
