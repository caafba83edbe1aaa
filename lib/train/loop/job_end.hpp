// SPDX-License-Identifier: Apache-2.0
// The time at which the batch system ends this job.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "comm/group.hpp"

namespace lm::train {

struct JobEnd {
    double unix_s = 0;
    std::string source;  // "SLURM_JOB_END_TIME" or "scontrol"
};

// Returns the end of the Slurm job: SLURM_JOB_END_TIME (unix seconds, Slurm 22.05 and later), else
// the time that `scontrol` states for SLURM_JOB_ID. nullopt outside of a job and in a job without a
// limit. `get` returns the value of an environment variable or nullptr; `scontrol` runs "scontrol
// --oneliner show job ID" and returns its output.
std::optional<JobEnd> job_end(const std::function<const char*(const char*)>& get,
                              const std::function<std::string(const std::string& id)>& scontrol);
// Parses the EndTime of that output, in local time. nullopt: none, or "Unknown".
std::optional<double> parse_end_time(std::string_view text);

// Returns the end of this job as rank 0 finds it, on all ranks. An end in the past is ignored, with
// a note. Collective.
std::optional<JobEnd> job_end_together(comm::Group& world);

}  // namespace lm::train
