// SPDX-License-Identifier: Apache-2.0
// The energy of a run: --codecarbon-dir. The first rank of each host measures its host and writes
// emissions-RANK.csv (metrics/emissions.hpp).
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>

#include "cluster/energy_meter.hpp"
#include "comm/group.hpp"
#include "metrics/emissions.hpp"
#include "train/resolve/run_config.hpp"

namespace lm::train {

class EnergyLog {
  public:
    // Finds the meters of the host and opens its file. Returns nullptr without --codecarbon-dir,
    // and on all ranks but the first of each host. Rank 0 prints a note that names the meters.
    // Collective.
    static std::unique_ptr<EnergyLog> open(const RunConfig& config, comm::Group& world);
    ~EnergyLog();  // writes the energy of the run
    EnergyLog(const EnergyLog&) = delete;
    EnergyLog& operator=(const EnergyLog&) = delete;

    // Writes the energy of this run so far.
    void write();

    // Returns the meters, as "processors: RAPL of 2 packages; memory: 0.375 W for each GiB; GPUs:
    // ...".
    std::string describe() const;

  private:
    EnergyLog(cluster::EnergyMeter meter, metrics::EmissionsFile file, metrics::EmissionsRow row);
    void sample_until_ended();
    metrics::EmissionsRow sample();

    cluster::EnergyMeter meter_;
    metrics::EmissionsFile file_;
    metrics::EmissionsRow row_;  // with the values that do not change
    double busy_s_, cpu_s_;      // ticks of all cores since boot, when this object was made
    std::mutex mutex_;           // guards meter_ and ended_
    std::condition_variable end_;
    bool ended_ = false;
    std::thread sampler_;  // samples the meter before a counter can restart twice
};

}  // namespace lm::train
