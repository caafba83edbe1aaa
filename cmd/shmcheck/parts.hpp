// SPDX-License-Identifier: Apache-2.0
// The parts of lm-shmcheck: its output (a line for the host and a line for each segment, or JSON
// Lines), --node, which compares the hosts of a job, and --summary, which reads the JSON lines of
// many hosts from standard input, as they arrive.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cluster/health.hpp"
#include "cluster/node_outliers.hpp"
#include "cluster/shared_memory.hpp"
#include "cluster/stress.hpp"

namespace lm::shmcheck {

using cluster::Health;

struct Sample {
    std::string host;
    std::string filesystem;
    std::string time;  // UTC, ISO 8601
    cluster::SharedMemory memory;
    Health health = Health::ok;
    std::string reason;    // empty when health is ok
    i64 highest_used = 0;  // bytes; the maximum of all samples of --watch
};

// Options of the output.
struct Shown {
    cluster::SegmentSelection selection;
    bool only_removable = false;
    bool watching = false;  // --watch: also prints time and highest use
    size_t width = 0;       // columns of the terminal; 0: no limit
};

std::string heading_text(const Shown& shown);
// Returns the host's line, then its segments.
std::string sample_text(const Sample& sample, const Shown& shown);
std::string sample_json(const Sample& sample, const Shown& shown);

std::string limits_text();
std::string limits_json();

std::string stress_text(const cluster::StressResult& result, i64 wanted);
std::string stress_json(const cluster::StressResult& result, i64 wanted);

// Returns tables of the state, the speeds and the GPUs of the hosts, then a line for each finding,
// then the line "--exclude=HOSTS" or "no outliers".
std::string nodes_text(const std::vector<cluster::NodeSample>& samples,
                       const std::vector<cluster::NodeFinding>& findings);
// Returns a JSON line for each host, with its findings. If there are findings about the whole job,
// adds a line with them.
std::string nodes_json(const std::vector<cluster::NodeSample>& samples,
                       const std::vector<cluster::NodeFinding>& findings);

// Measures the hosts of the job that started this process, or this host alone. Rank 0 prints.
// Returns the exit code. Collective.
int check_nodes(const std::vector<std::string>& directories, bool json);

// Prints the summary at the end of the input, and whenever the input pauses for a second and the
// summary has changed. `hosts_expected` is a number of hosts, or a list such as "n[001-004]";
// nullopt when it is not known. With `fail_on_dead`, dead segments are a failure. Returns the exit
// code. Throws Error for invalid input.
int summarize(const std::optional<std::string>& hosts_expected, bool fail_on_dead);

}  // namespace lm::shmcheck
