// SPDX-License-Identifier: Apache-2.0
// The time at which the batch system ends this job.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "comm/group.hpp"

namespace lm::train {

struct JobEnd {
    double unix_s = 0;
    std::string source;  // "SLURM_JOB_END_TIME" or "scontrol"
};

// Returns the end of the Slurm job. This is SLURM_JOB_END_TIME (unix seconds, Slurm 22.05 and
// later) if it is set, otherwise the time that `scontrol` states for SLURM_JOB_ID. Returns nullopt
// outside of a job and in a job without a time limit. `get` returns the value of an environment
// variable or nullptr. `scontrol` runs "scontrol --oneliner show job ID" and returns its output.
std::optional<JobEnd> job_end(const std::function<const char*(const char*)>& get,
                              const std::function<std::string(const std::string& id)>& scontrol);
// Returns the EndTime in the output of scontrol, which is in local time, as unix time. Returns
// nullopt when the output has no EndTime or "Unknown".
std::optional<double> parse_end_time(std::string_view text);

// Returns on all ranks the end of this job that rank 0 finds. Ignores an end in the past and prints
// a note. Collective.
std::optional<JobEnd> job_end_together(comm::Group& world);

// Follows the end of the job while the job runs, because `scontrol update JobId=... TimeLimit=...`
// can move the end. A thread calls `ask` at the start and then every `every_s` seconds, and prints
// a note when the end has moved.
class JobEndWatch {
  public:
    // Returns the end that the batch system states, or nullopt when the batch system does not
    // answer.
    using Ask = std::function<std::optional<double>()>;
    static constexpr double interval_s = 60;

    // `unix_s`: the end that is known at the start; 0: none. With an empty `ask` the end stays
    // `unix_s`.
    JobEndWatch(double unix_s, Ask ask, double every_s = interval_s);
    ~JobEndWatch();
    JobEndWatch(const JobEndWatch&) = delete;
    JobEndWatch& operator=(const JobEndWatch&) = delete;

    // Returns the newest known end; 0: none.
    double unix_s() const { return unix_s_; }

  private:
    void follow();

    std::atomic<double> unix_s_;
    Ask ask_;
    double every_s_;
    std::mutex mutex_;
    std::condition_variable end_;
    bool ended_ = false;
    std::thread thread_;
};

// Returns a function that reads the end of this Slurm job from scontrol; an empty function outside
// of a job.
JobEndWatch::Ask ask_scontrol();

}  // namespace lm::train
