// SPDX-License-Identifier: Apache-2.0
// Compares the ranks of a run at each log line: the time of their own work, and the growth of their
// memory.
#pragma once

#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "comm/group.hpp"
#include "train/step/phase_times.hpp"

namespace lm::train {

// The measurements of one rank in a log interval.
struct RankSample {
    PhaseTimes::Seconds seconds{};
    double resident_bytes = 0;   // memory of the process
    double available_bytes = 0;  // memory that its host or its control group has left
    // Returns the time of the rank's own work, without transfers and reductions, in which a rank
    // waits for slower ranks.
    double own_s() const;
};

// Finds a rank that stays slower than the other ranks.
class StragglerRule {
  public:
    static constexpr double ratio = 1.1;      // own time of a slow rank / lower median of all ranks
    static constexpr i64 least_steps = 10;    // steps in a row in which a rank is slow
    static constexpr double least_s = 0.001;  // shorter own times of a step are noise
    // A reported rank counts as recovered after so many steps and log lines in a row below
    // recovered_ratio. On a loaded host the ranks are slow in turn, and near the ratio a slow rank
    // is above and below it: each would be reported at every turn.
    static constexpr double recovered_ratio = 1.05;
    static constexpr i64 recovery_steps = 100;
    static constexpr i64 recovery_lines = 10;

    struct Straggler {
        int rank = 0;
        double ratio = 0;
    };
    // Adds the own times of all ranks in `steps` steps. Returns a rank that has been slow for at
    // least least_steps steps in a row, but each such rank only once until it is no longer slow. If
    // several ranks are slow, returns the slowest rank; later calls return the other slow ranks.
    std::optional<Straggler> add(const std::vector<double>& own_s, i64 steps);

  private:
    struct Rank {
        i64 slow_steps = 0;    // in a row
        i64 normal_steps = 0;  // in a row, below recovered_ratio
        i64 normal_lines = 0;
        bool reported = false;
    };
    std::vector<Rank> ranks_;
};

// Finds a growth of memory use that would exhaust the memory within 24 hours. Divides each of three
// windows of time into parts, and compares the smallest use in each part, so that temporary
// allocations do not hide the growth. A longer window finds a growth in jumps, for example a jump
// at each save.
class LeakRule {
  public:
    static constexpr std::array<double, 3> windows_s = {600, 3600, 6 * 3600};
    static constexpr double parts_per_window = 6;
    // The number of compared parts. The first and the last of them are one window apart.
    static constexpr size_t n_parts = 7;
    // Adds a measurement at `time_s`. Returns the hours until `available_bytes` are used up, if
    // they are fewer than 24 and if the memory has grown from each part of a window to the next.
    // Returns a value only once.
    std::optional<double> add(double time_s, double used_bytes, double available_bytes);

  private:
    struct Part {
        i64 number = -1;  // time / length of a part
        double time_s = 0, least_bytes = 0;
    };
    using Parts = std::array<Part, n_parts + 1>;  // the last part has not ended yet

    static std::optional<double> bytes_per_s(const Parts& parts);

    std::array<Parts, windows_s.size()> windows_;
    bool reported_ = false;
};

// Returns the seconds of a step in each phase of ranks that have made `steps` steps.
PhaseSpread spread_of(const std::vector<RankSample>& ranks, i64 steps);
// Returns Megatron's lines of --timing-log-level.
std::string phase_lines(const PhaseSpread& spread);

// Returns this process's resident memory and the host's available memory (proc(5)).
RankSample memory_sample();

// Compares all ranks. Rank 0 prints the warnings.
class RankComparison {
  public:
    // `world` outlives this object.
    explicit RankComparison(comm::Group& world) : world_(world) {}
    // Compares the ranks after `steps` steps. `seconds`: this rank's time in each phase. Returns
    // the seconds of a step in each phase over all ranks. Collective.
    PhaseSpread add(const PhaseTimes::Seconds& seconds, i64 steps);
    // Prints a table of the slowest ranks of the run on rank 0; does nothing on the other ranks.
    void print_table();

  private:
    void add_times(const std::vector<RankSample>& ranks);
    void warn_of_leaks(const std::vector<RankSample>& ranks);

    comm::Group& world_;
    std::vector<std::string> hosts_;  // by rank
    StragglerRule straggler_;
    std::vector<LeakRule> leaks_;                 // by rank
    std::map<std::string, LeakRule> host_leaks_;  // by host, for the available memory of the host
    std::set<std::string> leaking_hosts_;         // hosts with a reported leak
    std::vector<RankSample> total_;       // sums of the phases over all intervals; newest memory
    std::vector<double> first_resident_;  // memory of the ranks at the first comparison
    i64 steps_ = 0;
};

}  // namespace lm::train
