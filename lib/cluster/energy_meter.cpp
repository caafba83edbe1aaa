// SPDX-License-Identifier: Apache-2.0
#include "cluster/energy_meter.hpp"

#include <cstdlib>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "io/file.hpp"

namespace lm::cluster {
namespace {

// Returns the text of a file without the newline; nullopt when the file cannot be read. Since Linux
// 5.10 only root may read the files energy_uj.
std::optional<std::string> line_of(const std::string& path) {
    try {
        std::string text = io::read_file(path);
        while (text.ends_with('\n')) text.pop_back();
        return text;
    } catch (const Error&) {
        return std::nullopt;
    }
}

}  // namespace

EnergyMeter EnergyMeter::open(const Settings& settings) {
    EnergyMeter meter(settings, monotonic_s());
    meter.find_zones();
    if (!settings.nvml.empty()) meter.nvml_ = Nvml::open(settings.nvml);
    const i64 n_gpus = meter.nvml_ ? meter.nvml_->n_gpus() : 0;
    for (i64 gpu = 0; gpu < n_gpus; ++gpu) {
        meter.gpu_j_.push_back(meter.nvml_->read(gpu).energy_j.value_or(0));
    }
    return meter;
}

// Finds the RAPL zones in settings_.powercap. "intel-rapl:0" is a processor package,
// "intel-rapl:0:1" is a part of that package (Documentation/power/powercap/powercap.rst). The
// energy of a package includes its cores, but not its memory. Zones of other drivers
// ("intel-rapl-mmio") repeat the same counters and are skipped.
void EnergyMeter::find_zones() {
    if (!io::is_directory(settings_.powercap)) return;
    for (const std::string& zone : io::list_directory(settings_.powercap)) {
        if (!zone.starts_with("intel-rapl:")) continue;
        const std::string directory = settings_.powercap + "/" + zone + "/";
        const std::string name = line_of(directory + "name").value_or("");
        const auto reading = line_of(directory + "energy_uj");
        const auto most = line_of(directory + "max_energy_range_uj");
        if (!reading || !most) continue;
        const Zone found{directory + "energy_uj", std::strtod(most->c_str(), nullptr),
                         std::strtod(reading->c_str(), nullptr)};
        if (name.starts_with("package")) packages_.push_back(found);
        if (name == "dram") memories_.push_back(found);
    }
}

double EnergyMeter::joules_since(std::vector<Zone>& zones) {
    double joules = 0;
    for (Zone& zone : zones) {
        const auto text = line_of(zone.file);
        if (!text) continue;
        const double now_uj = std::strtod(text->c_str(), nullptr);
        const double restarted_uj = now_uj < zone.reading_uj ? zone.max_uj : 0;
        joules += 1e-6 * (now_uj + restarted_uj - zone.reading_uj);
        zone.reading_uj = now_uj;
    }
    return joules;
}

double EnergyMeter::gpu_joules_since(double elapsed_s) {
    double joules = 0;
    for (size_t gpu = 0; gpu < gpu_j_.size(); ++gpu) {
        const GpuSensors sensors = nvml_->read(static_cast<i64>(gpu));
        if (sensors.energy_j) {
            joules += *sensors.energy_j - gpu_j_[gpu];
            gpu_j_[gpu] = *sensors.energy_j;
        } else {
            joules += sensors.power_w.value_or(0) * elapsed_s;  // GPUs before Volta have no counter
        }
    }
    return joules;
}

void EnergyMeter::sample(double now_s) {
    const double elapsed_s = now_s - last_s_;
    last_s_ = now_s;
    used_.cpu_j += has_cpu_counters() ? joules_since(packages_) : settings_.cpu_w * elapsed_s;
    used_.memory_j +=
        has_memory_counters() ? joules_since(memories_) : settings_.memory_w * elapsed_s;
    if (nvml_) used_.gpu_j += gpu_joules_since(elapsed_s);
}

}  // namespace lm::cluster
