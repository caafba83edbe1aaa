// SPDX-License-Identifier: Apache-2.0
// The output of lm-shmcheck: a line for the host and a line for each segment, or JSON Lines.
#pragma once

#include <optional>
#include <string>

#include "cluster/health.hpp"
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

}  // namespace lm::shmcheck
