// SPDX-License-Identifier: Apache-2.0
// Measurements of this host, to compare with the measurements of the other hosts of a job: memory,
// limits, directories, processor, GPUs. The measurements take about 0.5 s, or up to 3.5 s with slow
// directories.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "cluster/nvml.hpp"
#include "io/json_fwd.hpp"

namespace lm::cluster {

// A directory in which a small file was written, read back and compared.
struct DirectorySample {
    std::string path;
    std::string problem;   // empty: none
    bool refused = false;  // the file was not written or read; only in a sample of this host
    i64 available = 0;     // bytes
    double inode_use = 0;  // used inodes / all inodes, from 0 to 1
    double seconds = 0;    // time to write, flush, read and remove the file
};

// A GPU that the driver lists, whether or not the job uses it.
struct GpuSample {
    std::string name;
    GpuSensors sensors;
    double tflops = 0;  // matrix products of the model's shapes, 1e12 operations/s; 0: not measured
};

struct NodeSample {
    std::string host;
    double clock_skew_s = 0;  // difference from the job's median; set by train::exchange_samples()
    i64 memory = 0;           // bytes of the host
    i64 available = 0;        // bytes that a process can still allocate
    i64 swap_used = 0;        // bytes
    i64 huge_pages_free = 0;
    std::optional<i64> open_files;     // soft limit; nullopt: unlimited
    std::optional<i64> locked_memory;  // soft limit, bytes; nullopt: unlimited
    double cpu_mhz = 0;                // clock of the fastest core, under load; 0: not known
    double gflops = 0;                 // matrix product on one core
    double copy_gbps = 0;              // memory copy on one core, 1e9 bytes/s, read plus written
    double network_gbps = 0;           // fastest exchange with another host, 1e9 bytes/s; 0: not
                                       // measured
    std::vector<DirectorySample> directories;
    std::vector<GpuSample> gpus;  // by index; none without a driver
};

// Measures this host. Problems of a directory are part of the sample. `nvml`: the library that
// reads the GPUs.
NodeSample sample_node(const std::vector<std::string>& directories,
                       const std::string& nvml = "libnvidia-ml.so.1");

// Converts a speed from 1e9 bytes/s, the unit of NodeSample, to GiB/s, the unit in messages.
inline double gib_per_s(double gbps) {
    return gbps * 1e9 / 0x1p30;
}

io::OrderedJson to_json(const NodeSample& sample);
// Converts the result of to_json() back. Throws Error(failure) naming `source` when a member is
// missing or has another type.
NodeSample node_sample_from_json(const io::Json& json, const std::string& source);

}  // namespace lm::cluster
