// SPDX-License-Identifier: Apache-2.0
#include "parts.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/host_list.hpp"
#include "base/units.hpp"
#include "cli/main.hpp"
#include "comm/join/join.hpp"
#include "io/json.hpp"
#include "train/start/node_check.hpp"
#include "train/start/product_speed.hpp"

namespace lm::shmcheck {
namespace {

constexpr double timeout_s = 60;
// Each table fits in 80 columns.
constexpr const char* state_columns = "{:<12}  {:>7}  {:>8}  {:>8}  {:>8}  {:>9}  {:>9}  {:>5}\n";
constexpr const char* speed_columns = "{:<12}  {:>5}  {:>7}  {:>10}  {:>10}\n";
constexpr const char* gpu_columns = "{:<12}  {:>3}  {:<21}  {:>7}  {:>3}  {:>5}  {:>7}  {:>7}\n";

std::string count_text(const std::optional<i64>& limit) {
    return limit ? fmt::format("{}", *limit) : "unlimited";
}

std::string bytes_text(const std::optional<i64>& limit) {
    return limit ? human_size(*limit) : "unlimited";
}

std::string speed_text(double value) {
    return value > 0 ? fmt::format("{:.1f}", value) : "-";
}

std::string directories_text(const cluster::NodeSample& sample) {
    if (sample.directories.empty()) return "-";
    const auto n_good = std::ranges::count_if(
        sample.directories, [](const auto& directory) { return directory.problem.empty(); });
    return fmt::format("{}/{}", n_good, sample.directories.size());
}

template <typename Value>
std::string value_text(const std::optional<Value>& value) {
    return value ? fmt::format("{:.0f}", static_cast<double>(*value)) : "-";
}

// Returns a speed as text. `gbps` is the speed in 1e9 bytes/s.
std::string copy_speed_text(double gbps) {
    return gbps > 0 ? fmt::format("{}/s", human_size(static_cast<i64>(gbps * 1e9))) : "-";
}

// Returns a table of the speeds, with a line for each host.
std::string speeds_text(const std::vector<cluster::NodeSample>& samples) {
    std::string text = fmt::format(speed_columns, "HOST", "MHZ", "GFLOP/S", "COPY", "NETWORK");
    for (const cluster::NodeSample& sample : samples) {
        text += fmt::format(speed_columns, sample.host, fmt::format("{:.0f}", sample.cpu_mhz),
                            speed_text(sample.gflops), copy_speed_text(sample.copy_gbps),
                            copy_speed_text(sample.network_gbps));
    }
    return text;
}

// Returns a table with a line for each GPU, or an empty text when the hosts have no GPU.
std::string gpus_text(const std::vector<cluster::NodeSample>& samples) {
    std::string text;
    for (const cluster::NodeSample& sample : samples) {
        for (size_t i = 0; i < sample.gpus.size(); ++i) {
            const cluster::GpuSample& gpu = sample.gpus[i];
            if (text.empty()) {
                text = fmt::format(gpu_columns, "HOST", "GPU", "NAME", "CELSIUS", "ECC", "MHZ",
                                   "MAX MHZ", "TFLOP/S");
            }
            text += fmt::format(
                gpu_columns, sample.host, i, gpu.name, value_text(gpu.sensors.temperature_c),
                value_text(gpu.sensors.uncorrected_ecc_errors), value_text(gpu.sensors.sm_mhz),
                value_text(gpu.sensors.max_sm_mhz), speed_text(gpu.tflops));
        }
    }
    return text;
}

}  // namespace

std::string nodes_text(const std::vector<cluster::NodeSample>& samples,
                       const std::vector<cluster::NodeFinding>& findings) {
    std::string text = fmt::format(state_columns, "HOST", "CLOCK", "FREE", "SWAP", "HUGEPAGE",
                                   "NOFILE", "MEMLOCK", "PATHS");
    for (const cluster::NodeSample& sample : samples) {
        text += fmt::format(state_columns, sample.host, fmt::format("{:+.3f}", sample.clock_skew_s),
                            human_size(sample.available), human_size(sample.swap_used),
                            sample.huge_pages_free, count_text(sample.open_files),
                            bytes_text(sample.locked_memory), directories_text(sample));
    }
    text += speeds_text(samples) + gpus_text(samples);
    for (const cluster::NodeFinding& finding : findings) {
        const std::string host = finding.host.empty() ? "" : finding.host + ": ";
        text += fmt::format("{}{}\n", host, finding.text);
    }
    const std::vector<std::string> hosts = cluster::hosts_of(findings);
    if (hosts.empty()) return text + "no outliers\n";
    return text + fmt::format("--exclude={}\n", host_list(hosts, hosts.size()));
}

std::string nodes_json(const std::vector<cluster::NodeSample>& samples,
                       const std::vector<cluster::NodeFinding>& findings) {
    std::string text;
    for (const cluster::NodeSample& sample : samples) {
        io::OrderedJson json = cluster::to_json(sample);
        json["findings"] = io::OrderedJson::array();
        for (const cluster::NodeFinding& finding : findings) {
            if (finding.host == sample.host) json["findings"].push_back(finding.text);
        }
        text += io::json_line(json);
    }
    io::OrderedJson of_job = {{"kind", "job"}, {"findings", io::OrderedJson::array()}};
    for (const cluster::NodeFinding& finding : findings) {
        if (finding.host.empty()) of_job["findings"].push_back(finding.text);
    }
    return of_job["findings"].empty() ? text : text + io::json_line(of_job);
}

int check_nodes(const std::vector<std::string>& directories, bool json) {
    const auto launch = comm::launch({.timeout_s = timeout_s, .rendezvous = true});
    return comm::with_one_error(*launch, [&] {
        const std::vector<cluster::NodeSample> samples =
            train::sample_nodes(launch->world(), directories, train::product_tflops_of_gpus()).all;
        const std::vector<cluster::NodeFinding> findings = cluster::find_outliers(samples);
        if (launch->world().rank() == 0) {
            cli::write_stdout(json ? nodes_json(samples, findings)
                                   : printable_lines(nodes_text(samples, findings)));
        }
        // Only rank 0 has samples and findings. The maximum over the ranks is its number of
        // findings, so that all processes return the same exit code.
        double n_findings = static_cast<double>(findings.size());
        launch->world().all_reduce({&n_findings, DType::fp64, {1}}, comm::Reduction::max);
        return static_cast<int>(n_findings > 0 ? Exit::answer_is_no : Exit::done);
    });
}

}  // namespace lm::shmcheck
