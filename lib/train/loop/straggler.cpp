// SPDX-License-Identifier: Apache-2.0
#include "train/loop/straggler.hpp"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <numeric>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "parallel/hosts.hpp"

namespace lm::train {
namespace {

constexpr i64 least_for_table = 50;        // steps
constexpr size_t n_values = n_phases + 2;  // numbers in a RankSample

double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
}

// Returns the number of bytes after `key` in a file of lines "Key: N kB"; 0 without the key.
double kilobytes_of(const char* path, const std::string& key) {
    std::ifstream file(path);
    for (std::string line; std::getline(file, line);) {
        if (line.starts_with(key)) return 1024 * std::strtod(line.c_str() + key.size(), nullptr);
    }
    return 0;
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

RankSample memory_sample() {
    return {.resident_bytes = kilobytes_of("/proc/self/status", "VmRSS:"),
            .available_bytes = kilobytes_of("/proc/meminfo", "MemAvailable:")};
}

std::optional<StragglerRule::Straggler> StragglerRule::add(const std::vector<double>& own_s,
                                                           i64 steps) {
    const auto slowest = std::max_element(own_s.begin(), own_s.end());
    // With two ranks, the faster one is the reference.
    const double reference =
        own_s.size() == 2 ? *std::min_element(own_s.begin(), own_s.end()) : median(own_s);
    const auto rank = static_cast<int>(slowest - own_s.begin());
    const bool slow = reference > 0 && *slowest >= ratio * reference &&
                      *slowest >= least_s * static_cast<double>(steps);
    if (!slow || rank != rank_) {
        steps_ = 0;
        reported_ = false;
    }
    rank_ = rank;
    if (!slow) return {};
    steps_ += steps;
    if (reported_ || steps_ < least_steps) return {};
    reported_ = true;
    return Straggler{rank, *slowest / reference};
}

std::optional<double> LeakRule::add(double time_s, double resident_bytes, double available_bytes) {
    // Memory that does not grow ends the series: buffers that fill up stop growing.
    if (!points_.empty() && resident_bytes <= points_.back().bytes) points_.clear();
    points_.push_back({time_s, resident_bytes});
    while (points_.size() > 2 && time_s - points_[1].time_s >= window_s) points_.pop_front();
    const Point& first = points_.front();
    if (reported_ || points_.size() < 3 || time_s - first.time_s < window_s) return {};
    const double bytes_per_s = (resident_bytes - first.bytes) / (time_s - first.time_s);
    const double hours = available_bytes / bytes_per_s / 3600;
    if (hours >= 24) return {};
    reported_ = true;
    return hours;
}

PhaseSpread RankComparison::add(const PhaseTimes::Seconds& seconds, i64 steps) {
    RankSample own = memory_sample();
    own.seconds = seconds;
    const std::vector<RankSample> ranks = gather(world_, own);
    if (hosts_.empty()) hosts_ = parallel::hosts_of(world_);
    total_.resize(ranks.size());
    leaks_.resize(ranks.size());
    steps_ += steps;
    const PhaseSpread spread = spread_of(ranks, steps);
    const double now_s = monotonic_s();
    for (size_t r = 0; r < ranks.size(); ++r) {
        for (size_t phase = 0; phase < n_phases; ++phase) {
            total_[r].seconds[phase] += ranks[r].seconds[phase];
        }
        total_[r].resident_bytes = ranks[r].resident_bytes;
        const auto hours = leaks_[r].add(now_s, ranks[r].resident_bytes, ranks[r].available_bytes);
        if (hours && world_.rank() == 0) {
            warn(
                "rank {} on {}: its memory grows and would be exhausted in {:.1f} hours: {} now, "
                "{} available: save and restart before then",
                r, hosts_[r], *hours, human_size(static_cast<i64>(ranks[r].resident_bytes)),
                human_size(static_cast<i64>(ranks[r].available_bytes)));
        }
    }
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

void RankComparison::print_table() {
    if (world_.size() == 1 || world_.rank() != 0 || steps_ < least_for_table) return;
    const std::vector<double> own_s = own_times(total_);
    const double middle = median(own_s);
    std::vector<size_t> order(own_s.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(),
                     [&](size_t a, size_t b) { return own_s[a] > own_s[b]; });
    order.resize(std::min<size_t>(order.size(), 5));
    note("the slowest ranks, in ms of each step (ratio: own work to the median)");
    const auto steps = static_cast<double>(steps_);
    for (const size_t rank : order) {
        std::string line = fmt::format("rank {:>5} {:<16} ratio {:.2f} |", rank, hosts_[rank],
                                       middle > 0 ? own_s[rank] / middle : 1.0);
        for (size_t phase = 0; phase < n_phases; ++phase) {
            line += fmt::format(" {} {:.1f}", name_of(static_cast<StepPhase>(phase)),
                                1e3 * total_[rank].seconds[phase] / steps);
        }
        note("{} | memory {}", line, human_size(static_cast<i64>(total_[rank].resident_bytes)));
    }
}

}  // namespace lm::train
