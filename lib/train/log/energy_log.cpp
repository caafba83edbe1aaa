// SPDX-License-Identifier: Apache-2.0
#include "train/log/energy_log.hpp"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <chrono>
#include <sstream>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "ckpt/format/manifest.hpp"
#include "cluster/limits.hpp"
#include "io/file.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"

namespace lm::train {
namespace {

constexpr double sample_interval_s = 15;
// 3 W for 8 GB of DDR4, as manufacturers state it and CodeCarbon 2 assumed.
constexpr double memory_w_per_gib = 0.375;
// Server processors have a thermal design power of 3 to 6 W for each core.
constexpr double cpu_w_per_core = 4;

i64 n_cores() {
    return sysconf(_SC_NPROCESSORS_ONLN);
}

std::string system_name() {
    utsname name{};
    uname(&name);
    return fmt::format("{}-{}-{}", name.sysname, name.release, name.machine);
}

std::string processor_name() {
    std::istringstream lines(io::read_file("/proc/cpuinfo"));
    for (std::string line; std::getline(lines, line);) {
        const size_t colon = line.find(": ");
        if (line.starts_with("model name") && colon != std::string::npos) {
            return line.substr(colon + 2);
        }
    }
    return "";
}

// Returns the value of `name` in /proc/meminfo in bytes; 0 when /proc/meminfo does not have it.
double meminfo_bytes(const std::string& name) {
    return 1024 * as_double(cluster::keyed_number("/proc/meminfo", name + ":").value_or(0));
}

// Returns the busy time and the whole time of all cores since boot, in ticks. Reads the first line
// of /proc/stat, "cpu user nice system idle iowait irq softirq steal ..." (proc(5)).
std::pair<double, double> processor_ticks() {
    std::istringstream words(io::read_file("/proc/stat"));
    std::string cpu;
    words >> cpu;
    double all = 0, idle = 0, value = 0;
    for (int i = 0; i < 8 && words >> value; ++i) {
        all += value;
        if (i == 3 || i == 4) idle += value;
    }
    return {all - idle, all};
}

metrics::EmissionsRow constant_values(const RunConfig& config, const cluster::EnergyMeter& meter) {
    metrics::EmissionsRow row;
    row.run_id = ckpt::new_run_id();
    row.experiment_id = slurm_job();
    row.intensity_g = config.logging.codecarbon_intensity;
    row.country_code = config.logging.codecarbon_country;
    row.os = system_name();
    row.n_cpus = n_cores();
    row.cpu_model = processor_name();
    row.ram_bytes = meminfo_bytes("MemTotal");
    row.n_gpus = meter.nvml() ? meter.nvml()->n_gpus() : 0;
    if (row.n_gpus > 0) row.gpu_model = meter.nvml()->name(0);
    return row;
}

cluster::EnergyMeter::Settings meter_settings(const RunConfig& config) {
    const double cpu_w = config.logging.codecarbon_cpu_power.value_or(
        cpu_w_per_core * static_cast<double>(n_cores()));
    return {.cpu_w = cpu_w, .memory_w = memory_w_per_gib * meminfo_bytes("MemTotal") / 0x1p30};
}

}  // namespace

std::unique_ptr<EnergyLog> EnergyLog::open(const RunConfig& config, comm::Group& world) {
    const std::string& directory = config.logging.codecarbon_dir;
    if (directory.empty()) return nullptr;
    const bool measures = parallel::place_on_host(world) == 0;
    std::unique_ptr<EnergyLog> log;
    parallel::together(world, [&] {
        if (!measures) return;
        io::make_directories(directory);
        cluster::EnergyMeter meter = cluster::EnergyMeter::open(meter_settings(config));
        metrics::EmissionsFile file = metrics::EmissionsFile::open(
            fmt::format("{}/emissions-{:03}.csv", directory, world.rank()));
        metrics::EmissionsRow row = constant_values(config, meter);
        log.reset(new EnergyLog(std::move(meter), std::move(file), std::move(row)));
    });
    if (world.rank() == 0) {
        note("--codecarbon-dir: {}; {:g} g of CO2 per kWh (--codecarbon-intensity)",
             log->describe(), config.logging.codecarbon_intensity);
    }
    return log;
}

EnergyLog::EnergyLog(cluster::EnergyMeter meter, metrics::EmissionsFile file,
                     metrics::EmissionsRow row)
    : meter_(std::move(meter)),
      file_(std::move(file)),
      row_(std::move(row)),
      busy_s_(processor_ticks().first),
      cpu_s_(processor_ticks().second),
      sampler_([this] { sample_until_ended(); }) {}

EnergyLog::~EnergyLog() {
    {
        const std::lock_guard lock(mutex_);
        ended_ = true;
    }
    end_.notify_one();
    sampler_.join();
    try {
        write();
    } catch (const std::exception& error) {
        warn("{}: {}", file_.path(), error.what());
    }
}

void EnergyLog::sample_until_ended() {
    std::unique_lock lock(mutex_);
    while (!ended_) {
        meter_.sample(monotonic_s());
        end_.wait_for(lock, std::chrono::duration<double>(sample_interval_s));
    }
}

metrics::EmissionsRow EnergyLog::sample() {
    const std::lock_guard lock(mutex_);
    meter_.sample(monotonic_s());
    const auto [busy, all] = processor_ticks();
    metrics::EmissionsRow row = row_;
    row.unix_time_s = unix_time_s();
    row.duration_s = meter_.measured_s();
    row.cpu_j = meter_.used().cpu_j;
    row.gpu_j = meter_.used().gpu_j;
    row.ram_j = meter_.used().memory_j;
    row.ram_used_bytes = row.ram_bytes - meminfo_bytes("MemAvailable");
    row.cpu_utilization = all > cpu_s_ ? (busy - busy_s_) / (all - cpu_s_) : 0;
    return row;
}

void EnergyLog::write() {
    file_.write(sample());
}

std::string EnergyLog::describe() const {
    const cluster::EnergyMeter::Settings& constant = meter_.settings();
    const std::string cpus = meter_.has_cpu_counters() ? "processors by RAPL"
                                                       : fmt::format(
                                                             "processors {:.4g} W without RAPL "
                                                             "(--codecarbon-cpu-power)",
                                                             constant.cpu_w);
    const std::string memory = meter_.has_memory_counters()
                                   ? "memory by RAPL"
                                   : fmt::format("memory {:.4g} W", constant.memory_w);
    const std::string gpus =
        row_.n_gpus > 0 ? fmt::format("; {} GPUs by NVML", row_.n_gpus) : "; no GPUs";
    return fmt::format("energy of each host: {}; {}{}", cpus, memory, gpus);
}

}  // namespace lm::train
