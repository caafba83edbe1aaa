// SPDX-License-Identifier: Apache-2.0
#include "cluster/node_outliers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>
#include <set>

#include "base/units.hpp"

namespace lm::cluster {
namespace {

constexpr double max_clock_skew_s = 1;
constexpr double least_speed = 0.75;   // share of the median, for matrix product and memory copy
constexpr double least_clock = 0.7;    // share of the median; cores vary their clock
constexpr double least_memory = 0.8;   // share of the median
constexpr double least_network = 0.5;  // share of the median
constexpr double max_swap = 0.05;      // share of the memory
constexpr double max_inodes = 0.95;
constexpr double slow_file_s = 1;  // a file is slow if it takes this time and 5 times the median
constexpr i64 least_space = i64{1} << 30;
constexpr i64 max_gpu_celsius = 90;  // data-center GPUs slow down from about 90 (H100: 87 to 95)
constexpr i64 max_gpu_warmer = 20;   // degrees above the median GPU of the job
constexpr double least_gpu_speed =
    0.9;  // share of the median: GPUs of one model differ by a few percent

double median(std::vector<double> values) {
    std::erase_if(values, [](double value) { return value <= 0; });  // not measured
    if (values.empty()) return 0;
    std::ranges::sort(values);
    return values[values.size() / 2];
}

// Returns the lower median, so that with two hosts the slower one is compared with the faster one.
double lower_median(std::vector<double> times) {
    std::ranges::sort(times);
    return times.empty() ? 0 : times[(times.size() - 1) / 2];
}

// Collects the findings by host.
class Findings {
  public:
    explicit Findings(const std::vector<NodeSample>& samples)
        : samples_(samples), texts_(samples.size()) {}

    void add(size_t host, std::string text) { texts_[host].push_back(std::move(text)); }

    // Adds a finding for each host whose value is below `least` times the median. Values of 0 were
    // not measured.
    template <typename Value>
    void slow(Value&& value, double least, const char* what, const char* unit) {
        const double usual = median_of(value);
        for (size_t i = 0; i < samples_.size(); ++i) {
            const double own = value(samples_[i]);
            if (own <= 0 || own >= least * usual) continue;
            add(i, fmt::format("{} {:.4g} {}, median {:.4g} {}", what, own, unit, usual, unit));
        }
    }

    // Adds a finding for each host whose value differs from the most frequent value. When two
    // values are equally frequent, compares with the higher value. `text` formats a value.
    template <typename Value, typename Text>
    void unusual(Value&& value, Text&& text, const char* what) {
        std::map<i64, size_t> counts;
        for (const NodeSample& sample : samples_) ++counts[value(sample)];
        auto usual = counts.begin();
        for (auto at = counts.begin(); at != counts.end(); ++at) {
            if (at->second >= usual->second) usual = at;
        }
        const std::string hosts =
            2 * usual->second > samples_.size()
                ? "most hosts"
                : fmt::format("{} of {} hosts", usual->second, samples_.size());
        for (size_t i = 0; i < samples_.size(); ++i) {
            const i64 own = value(samples_[i]);
            if (own == usual->first) continue;
            add(i, fmt::format("{} {}, {} on {}", what, text(own), text(usual->first), hosts));
        }
    }

    // Adds a finding for each host with less than half of the median number of free huge pages. The
    // bound is low, because programs on healthy hosts use huge pages, too. 0 is a measured value.
    void few_huge_pages() {
        std::vector<i64> counts;
        for (const NodeSample& sample : samples_) counts.push_back(sample.huge_pages_free);
        std::ranges::sort(counts);
        const i64 usual = counts[counts.size() / 2];
        for (size_t i = 0; i < samples_.size(); ++i) {
            const i64 own = samples_[i].huge_pages_free;
            if (2 * own >= usual) continue;
            add(i, fmt::format("free huge pages {}, median {}", own, usual));
        }
    }

    // Adds a finding about all hosts of the job.
    void add_to_job(std::string text) { of_job_.push_back(std::move(text)); }

    template <typename Value>
    double median_of(Value&& value) const {
        std::vector<double> values;
        for (const NodeSample& sample : samples_) values.push_back(value(sample));
        return median(values);
    }

    std::vector<NodeFinding> all() const {
        std::vector<NodeFinding> findings;
        for (const std::string& text : of_job_) findings.push_back({"", text});
        for (size_t i = 0; i < samples_.size(); ++i) {
            for (const std::string& text : texts_[i]) findings.push_back({samples_[i].host, text});
        }
        return findings;
    }

  private:
    const std::vector<NodeSample>& samples_;
    std::vector<std::vector<std::string>> texts_;
    std::vector<std::string> of_job_;
};

constexpr i64 unlimited = std::numeric_limits<i64>::max();

std::string limit_text(i64 limit) {
    return limit == unlimited ? "unlimited" : fmt::format("{}", limit);
}

std::string size_limit_text(i64 limit) {
    return limit == unlimited ? "unlimited" : human_size(limit);
}

// Returns for each directory whether it is unusable on all hosts. In this case no host is an
// outlier, because the path is wrong or the file system is down. Returns false for all directories
// when the job has one host.
std::vector<bool> unusable_everywhere(const std::vector<NodeSample>& samples) {
    std::vector<bool> unusable(samples.front().directories.size(), samples.size() > 1);
    for (const NodeSample& sample : samples) {
        for (size_t i = 0; i < std::min(unusable.size(), sample.directories.size()); ++i) {
            if (sample.directories[i].problem.empty()) unusable[i] = false;
        }
    }
    return unusable;
}

void check_host(const NodeSample& sample, size_t host, const std::vector<bool>& unusable,
                Findings& findings) {
    if (std::abs(sample.clock_skew_s) > max_clock_skew_s) {
        findings.add(host, fmt::format("clock {:+.1f} s from the median", sample.clock_skew_s));
    }
    const auto memory = static_cast<double>(sample.memory);
    if (static_cast<double>(sample.swap_used) > max_swap * memory) {
        findings.add(host, fmt::format("{} of swap in use", human_size(sample.swap_used)));
    }
    for (size_t i = 0; i < sample.directories.size(); ++i) {
        const DirectorySample& directory = sample.directories[i];
        if (!directory.problem.empty()) {
            if (i >= unusable.size() || !unusable[i]) findings.add(host, directory.problem);
            continue;
        }
        if (directory.available < least_space) {
            findings.add(host, fmt::format("{}: {} available", directory.path,
                                           human_size(directory.available)));
        }
        if (directory.inode_use > max_inodes) {
            findings.add(host, fmt::format("{}: {:.1f} % of the inodes in use", directory.path,
                                           100 * directory.inode_use));
        }
    }
}

void check_file_times(const std::vector<NodeSample>& samples, Findings& findings) {
    for (size_t place = 0; place < samples.front().directories.size(); ++place) {
        std::vector<double> times;
        for (const NodeSample& sample : samples) {
            if (place < sample.directories.size())
                times.push_back(sample.directories[place].seconds);
        }
        const double usual = lower_median(std::move(times));
        for (size_t i = 0; i < samples.size(); ++i) {
            if (place >= samples[i].directories.size()) continue;
            const DirectorySample& directory = samples[i].directories[place];
            if (!directory.problem.empty()) continue;
            if (directory.seconds < slow_file_s || directory.seconds < 5 * usual) continue;
            findings.add(i, fmt::format("{}: {:.1f} s for a file of 1 MiB, median {:.2f} s",
                                        directory.path, directory.seconds, usual));
        }
    }
}

// Returns the median over all GPUs of the job; GPUs without the value do not count.
template <typename Value>
double median_of_gpus(const std::vector<NodeSample>& samples, Value&& value) {
    std::vector<double> values;
    for (const NodeSample& sample : samples) {
        for (const GpuSample& gpu : sample.gpus) values.push_back(value(gpu));
    }
    return median(std::move(values));
}

double celsius(const GpuSample& gpu) {
    return static_cast<double>(gpu.sensors.temperature_c.value_or(0));
}
// Returns the SM clock under load, or 0 (not compared) for a GPU whose GEMM speed was not measured.
double loaded_mhz(const GpuSample& gpu) {
    return gpu.tflops > 0 ? static_cast<double>(gpu.sensors.sm_mhz.value_or(0)) : 0;
}
double max_mhz(const GpuSample& gpu) {
    return static_cast<double>(gpu.sensors.max_sm_mhz.value_or(0));
}
double tflops(const GpuSample& gpu) {
    return gpu.tflops;
}

void check_gpus(const std::vector<NodeSample>& samples, Findings& findings) {
    const double usual_celsius = median_of_gpus(samples, celsius);
    // Adds a finding when the value is below `least` times the median of all GPUs.
    const auto check_speed = [&](double (*value)(const GpuSample&), double least, const char* what,
                                 const char* unit) {
        const double usual = median_of_gpus(samples, value);
        for (size_t host = 0; host < samples.size(); ++host) {
            for (size_t i = 0; i < samples[host].gpus.size(); ++i) {
                const double own = value(samples[host].gpus[i]);
                if (own <= 0 || own >= least * usual) continue;
                findings.add(host, fmt::format("GPU {}: {} {:.4g} {}, median {:.4g} {}", i, what,
                                               own, unit, usual, unit));
            }
        }
    };
    for (size_t host = 0; host < samples.size(); ++host) {
        for (size_t i = 0; i < samples[host].gpus.size(); ++i) {
            const GpuSample& gpu = samples[host].gpus[i];
            const i64 n_errors = gpu.sensors.uncorrected_ecc_errors.value_or(0);
            if (n_errors > 0) {
                findings.add(host, fmt::format("GPU {}: {} uncorrected ECC errors", i, n_errors));
            }
            const double own = celsius(gpu);
            if (own < max_gpu_celsius && own < usual_celsius + max_gpu_warmer) continue;
            findings.add(host, fmt::format("GPU {}: {:.0f} degrees Celsius, median {:.0f}", i, own,
                                           usual_celsius));
        }
    }
    check_speed(max_mhz, 1, "highest clock", "MHz");
    check_speed(loaded_mhz, least_gpu_speed, "clock", "MHz");
    check_speed(tflops, least_gpu_speed, "matrix products", "TFLOP/s");
}

}  // namespace

std::vector<NodeFinding> find_outliers(const std::vector<NodeSample>& samples) {
    if (samples.empty()) return {};
    Findings findings(samples);
    const std::vector<bool> unusable = unusable_everywhere(samples);
    for (size_t i = 0; i < unusable.size(); ++i) {
        if (unusable[i]) {
            findings.add_to_job("on every host: " + samples.front().directories[i].problem);
        }
    }
    for (size_t i = 0; i < samples.size(); ++i) check_host(samples[i], i, unusable, findings);
    check_file_times(samples, findings);
    findings.slow([](const NodeSample& s) { return static_cast<double>(s.available) * 0x1p-30; },
                  least_memory, "free memory", "GiB");
    findings.slow([](const NodeSample& s) { return s.cpu_mhz; }, least_clock, "core clock", "MHz");
    findings.slow([](const NodeSample& s) { return s.gflops; }, least_speed, "matrix product",
                  "GFLOP/s");
    findings.slow([](const NodeSample& s) { return gib_per_s(s.copy_gbps); }, least_speed,
                  "memory copy", "GiB/s");
    findings.slow([](const NodeSample& s) { return gib_per_s(s.network_gbps); }, least_network,
                  "network", "GiB/s");
    findings.unusual([](const NodeSample& s) { return s.open_files.value_or(unlimited); },
                     limit_text, "limit of open files");
    findings.unusual([](const NodeSample& s) { return s.locked_memory.value_or(unlimited); },
                     size_limit_text, "limit of locked memory");
    findings.few_huge_pages();
    findings.unusual([](const NodeSample& s) { return std::ssize(s.gpus); }, limit_text, "GPUs");
    check_gpus(samples, findings);
    return findings.all();
}

std::vector<std::string> hosts_of(const std::vector<NodeFinding>& findings) {
    std::set<std::string> hosts;
    for (const NodeFinding& finding : findings) {
        if (!finding.host.empty()) hosts.insert(finding.host);
    }
    return {hosts.begin(), hosts.end()};
}

}  // namespace lm::cluster
