// SPDX-License-Identifier: Apache-2.0
#include "train/log/straggler.hpp"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numeric>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cluster/limits.hpp"
#include "parallel/hosts.hpp"

namespace lm::train {
namespace {

constexpr i64 least_for_table = 50;        // steps
constexpr size_t n_values = n_phases + 2;  // numbers in a RankSample

// Returns the lower median, so that the faster half is the reference when half of the ranks are
// slow.
double lower_median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>((values.size() - 1) / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// Returns the resident memory of this process in bytes; 0 when it cannot be read (proc(5), statm).
double resident_bytes() {
    std::ifstream file("/proc/self/statm");
    double pages = 0;
    file >> pages >> pages;
    return file ? pages * static_cast<double>(::sysconf(_SC_PAGESIZE)) : 0;
}

std::vector<double> own_times(const std::vector<RankSample>& ranks) {
    std::vector<double> own_s;
    for (const RankSample& rank : ranks) own_s.push_back(rank.own_s());
    return own_s;
}

// Returns the samples of all ranks. Collective.
std::vector<RankSample> gather(comm::Group& world, const RankSample& own) {
    std::array<double, n_values> mine{};
    std::copy(own.seconds.begin(), own.seconds.end(), mine.begin());
    mine[n_phases] = own.resident_bytes;
    mine[n_phases + 1] = own.available_bytes;
    const auto n = static_cast<i64>(n_values);
    std::vector<double> all(n_values * static_cast<size_t>(world.size()));
    world.all_gather({mine.data(), DType::fp64, {n}},
                     {all.data(), DType::fp64, {n * world.size()}});
    std::vector<RankSample> ranks(static_cast<size_t>(world.size()));
    for (size_t r = 0; r < ranks.size(); ++r) {
        const double* const from = all.data() + r * n_values;
        std::copy(from, from + n_phases, ranks[r].seconds.begin());
        ranks[r].resident_bytes = from[n_phases];
        ranks[r].available_bytes = from[n_phases + 1];
    }
    return ranks;
}

}  // namespace

double RankSample::own_s() const {
    double sum = 0;
    for (const StepPhase phase :
         {StepPhase::data, StepPhase::forward, StepPhase::backward, StepPhase::optimizer}) {
        sum += seconds[static_cast<size_t>(phase)];
    }
    return sum;
}

PhaseSpread spread_of(const std::vector<RankSample>& ranks, i64 steps) {
    PhaseSpread spread;
    for (size_t phase = 0; phase < n_phases; ++phase) {
        double sum = 0, least = ranks[0].seconds[phase], most = least;
        for (const RankSample& rank : ranks) {
            sum += rank.seconds[phase];
            least = std::min(least, rank.seconds[phase]);
            most = std::max(most, rank.seconds[phase]);
        }
        const auto n = static_cast<double>(std::max<i64>(steps, 1));
        spread.mean[phase] = sum / n / static_cast<double>(ranks.size());
        spread.least[phase] = least / n;
        spread.most[phase] = most / n;
    }
    return spread;
}

std::string phase_lines(const PhaseSpread& spread) {
    std::string lines = "(min, max) time across ranks (ms):";
    for (size_t phase = 0; phase < n_phases; ++phase) {
        const std::string name = fmt::format("{} ", name_of(static_cast<StepPhase>(phase)));
        lines += fmt::format("\n    {:.<48}: ({:.2f}, {:.2f})", name, 1e3 * spread.least[phase],
                             1e3 * spread.most[phase]);
    }
    return lines;
}

RankSample memory_sample() {
    const std::optional<cluster::MemoryRoom> room = cluster::memory_room();
    return {.resident_bytes = resident_bytes(),
            .available_bytes = room ? static_cast<double>(room->bytes) : 0};
}

std::optional<StragglerRule::Straggler> StragglerRule::add(const std::vector<double>& own_s,
                                                           i64 steps) {
    const double reference = lower_median(own_s);
    const double noise = least_s * static_cast<double>(steps);
    const double least = std::max(ratio * reference, noise);
    const double recovered = std::max(recovered_ratio * reference, noise);
    ranks_.resize(own_s.size());
    std::optional<Straggler> found;
    for (size_t i = 0; i < own_s.size(); ++i) {
        Rank& rank = ranks_[i];
        const bool is_normal = reference <= 0 || own_s[i] < recovered;
        rank.normal_steps = is_normal ? rank.normal_steps + steps : 0;
        rank.normal_lines = is_normal ? rank.normal_lines + 1 : 0;
        if (rank.normal_steps >= recovery_steps && rank.normal_lines >= recovery_lines)
            rank.reported = false;
        if (reference <= 0 || own_s[i] < least) {
            rank.slow_steps = 0;
            continue;
        }
        rank.slow_steps += steps;
        if (rank.reported || rank.slow_steps < least_steps) continue;
        const double own_ratio = own_s[i] / reference;
        if (!found || own_ratio > found->ratio) found = Straggler{static_cast<int>(i), own_ratio};
    }
    if (found) ranks_[static_cast<size_t>(found->rank)].reported = true;
    return found;
}

// Returns the growth in bytes per second if the smallest memory use of each complete part is larger
// than that of the previous part; otherwise nullopt.
std::optional<double> LeakRule::bytes_per_s(const Parts& parts) {
    for (size_t i = 0; i + 1 < n_parts; ++i) {
        if (parts[i].number < 0 || parts[i + 1].number != parts[i].number + 1 ||
            parts[i + 1].least_bytes <= parts[i].least_bytes)
            return {};
    }
    const Part& first = parts[0];
    const Part& last = parts[n_parts - 1];
    return (last.least_bytes - first.least_bytes) / (last.time_s - first.time_s);
}

std::optional<double> LeakRule::add(double time_s, double used_bytes, double available_bytes) {
    std::optional<double> soonest;
    for (size_t i = 0; i < windows_.size(); ++i) {
        Parts& parts = windows_[i];
        const auto number = static_cast<i64>(std::floor(time_s / windows_s[i] * parts_per_window));
        Part& last = parts.back();
        if (last.number == number) {
            if (used_bytes < last.least_bytes) last = {number, time_s, used_bytes};
            continue;
        }
        std::rotate(parts.begin(), parts.begin() + 1, parts.end());
        parts.back() = {number, time_s, used_bytes};
        const std::optional<double> growth = bytes_per_s(parts);
        if (!growth) continue;
        const double hours = available_bytes / *growth / 3600;
        soonest = std::min(soonest.value_or(hours), hours);
    }
    if (reported_ || !soonest || *soonest >= 24) return {};
    reported_ = true;
    return soonest;
}

PhaseSpread RankComparison::add(const PhaseTimes::Seconds& seconds, i64 steps) {
    RankSample own = memory_sample();
    own.seconds = seconds;
    const std::vector<RankSample> ranks = gather(world_, own);
    if (hosts_.empty()) hosts_ = parallel::hosts_of(world_);
    add_times(ranks);
    warn_of_leaks(ranks);
    steps_ += steps;
    const PhaseSpread spread = spread_of(ranks, steps);
    if (world_.size() == 1) return spread;
    const auto straggler = straggler_.add(own_times(ranks), steps);
    if (straggler && world_.rank() == 0) {
        warn(
            "rank {} on {}: slow: its own work takes {:.2f} times the median of the ranks for {} "
            "steps: check that host, or exclude it",
            straggler->rank, hosts_[static_cast<size_t>(straggler->rank)], straggler->ratio,
            StragglerRule::least_steps);
    }
    return spread;
}

// Adds the phases of an interval to the sums of print_table(), and stores the newest memory.
void RankComparison::add_times(const std::vector<RankSample>& ranks) {
    total_.resize(ranks.size());
    for (size_t r = 0; r < ranks.size(); ++r) {
        for (size_t phase = 0; phase < n_phases; ++phase) {
            total_[r].seconds[phase] += ranks[r].seconds[phase];
        }
        total_[r].resident_bytes = ranks[r].resident_bytes;
    }
    if (!first_resident_.empty()) return;
    for (const RankSample& rank : ranks) first_resident_.push_back(rank.resident_bytes);
}

// Warns of each rank whose memory grows. Also warns of each host whose available memory shrinks,
// unless the memory of one of its ranks was found to grow.
void RankComparison::warn_of_leaks(const std::vector<RankSample>& ranks) {
    const double now_s = monotonic_s();
    leaks_.resize(ranks.size());
    for (size_t r = 0; r < ranks.size(); ++r) {
        const auto hours = leaks_[r].add(now_s, ranks[r].resident_bytes, ranks[r].available_bytes);
        if (!hours) continue;
        leaking_hosts_.insert(hosts_[r]);
        if (world_.rank() != 0) continue;
        warn(
            "rank {} on {}: its memory grows and would be exhausted in {:.1f} hours: {} now, "
            "{} available: save and restart before then",
            r, hosts_[r], *hours, human_size(static_cast<i64>(ranks[r].resident_bytes)),
            human_size(static_cast<i64>(ranks[r].available_bytes)));
    }
    std::set<std::string> seen;
    for (size_t r = 0; r < ranks.size(); ++r) {
        if (!seen.insert(hosts_[r]).second) continue;
        const double left = ranks[r].available_bytes;
        const auto hours = host_leaks_[hosts_[r]].add(now_s, -left, left);
        if (!hours || !leaking_hosts_.insert(hosts_[r]).second || world_.rank() != 0) continue;
        warn(
            "{}: its available memory shrinks and would be exhausted in {:.1f} hours: {} left: "
            "look on this host for a process that grows, or for files in /dev/shm that grow",
            hosts_[r], *hours, human_size(static_cast<i64>(left)));
    }
}

void RankComparison::print_table() {
    if (world_.size() == 1 || world_.rank() != 0 || steps_ < least_for_table) return;
    const std::vector<double> own_s = own_times(total_);
    const double middle = lower_median(own_s);
    std::vector<size_t> order(own_s.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return own_s[a] > own_s[b]; });
    order.resize(std::min<size_t>(order.size(), 5));
    note(
        "the slowest ranks, with the ratio of their own work to the median, the ms of a step in "
        "each phase, and their memory with its growth");
    const auto steps = static_cast<double>(steps_);
    for (const size_t rank : order) {
        std::string line = fmt::format("rank {:>5} {:<16} ratio {:.2f} |", rank, hosts_[rank],
                                       middle > 0 ? own_s[rank] / middle : 1.0);
        for (size_t phase = 0; phase < n_phases; ++phase) {
            line += fmt::format(" {} {:.1f}", name_of(static_cast<StepPhase>(phase)),
                                1e3 * total_[rank].seconds[phase] / steps);
        }
        const double growth = total_[rank].resident_bytes - first_resident_[rank];
        note("{} | memory {}, {}{}", line,
             human_size(static_cast<i64>(total_[rank].resident_bytes)), growth < 0 ? "-" : "+",
             human_size(static_cast<i64>(std::abs(growth))));
    }
}

}  // namespace lm::train
