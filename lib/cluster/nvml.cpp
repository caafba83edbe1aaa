// SPDX-License-Identifier: Apache-2.0
#include "cluster/nvml.hpp"

#include <dlfcn.h>

#include <vector>

namespace lm::cluster {
namespace {

// The types and constants of nvml.h that this file uses (NVML API Reference Guide, r550). Each NVML
// function returns 0 on success.
using NvmlDevice = void*;
constexpr unsigned sensor_of_chip = 0;      // NVML_TEMPERATURE_GPU
constexpr unsigned clock_of_sms = 1;        // NVML_CLOCK_SM
constexpr unsigned errors_uncorrected = 1;  // NVML_MEMORY_ERROR_TYPE_UNCORRECTED
constexpr unsigned since_reboot = 0;        // NVML_VOLATILE_ECC
constexpr size_t longest_name = 96;         // NVML_DEVICE_NAME_V2_BUFFER_SIZE

template <typename Function>
void find(void* library, const char* name, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, name));
}

// Calls `query` with a pointer to a Value. Returns the value times `factor`; nullopt when the call
// fails.
template <typename To, typename Value, typename Query>
std::optional<To> value_of(Query&& query, double factor = 1) {
    Value value = 0;
    if (query(&value) != 0) return std::nullopt;
    return static_cast<To>(static_cast<double>(value) * factor);
}

}  // namespace

struct Nvml::Functions {
    void* library = nullptr;
    std::vector<NvmlDevice> devices;
    int (*init)() = nullptr;
    int (*shut_down)() = nullptr;
    int (*count)(unsigned*) = nullptr;
    int (*device_at)(unsigned, NvmlDevice*) = nullptr;
    int (*name)(NvmlDevice, char*, unsigned) = nullptr;
    int (*energy_mj)(NvmlDevice, unsigned long long*) = nullptr;
    int (*power_mw)(NvmlDevice, unsigned*) = nullptr;
    int (*temperature)(NvmlDevice, unsigned, unsigned*) = nullptr;
    int (*clock)(NvmlDevice, unsigned, unsigned*) = nullptr;
    int (*max_clock)(NvmlDevice, unsigned, unsigned*) = nullptr;
    int (*ecc_errors)(NvmlDevice, unsigned, unsigned, unsigned long long*) = nullptr;

    void find_all() {
        find(library, "nvmlInit_v2", init);
        find(library, "nvmlShutdown", shut_down);
        find(library, "nvmlDeviceGetCount_v2", count);
        find(library, "nvmlDeviceGetHandleByIndex_v2", device_at);
        find(library, "nvmlDeviceGetName", name);
        find(library, "nvmlDeviceGetTotalEnergyConsumption", energy_mj);
        find(library, "nvmlDeviceGetPowerUsage", power_mw);
        find(library, "nvmlDeviceGetTemperature", temperature);
        find(library, "nvmlDeviceGetClockInfo", clock);
        find(library, "nvmlDeviceGetMaxClockInfo", max_clock);
        find(library, "nvmlDeviceGetTotalEccErrors", ecc_errors);
    }
    bool complete() const {
        return init && shut_down && count && device_at && name && energy_mj && power_mw &&
               temperature && clock && max_clock && ecc_errors;
    }
};

std::optional<Nvml> Nvml::open(const std::string& library) {
    auto functions = std::make_unique<Functions>();
    functions->library = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (functions->library == nullptr) return std::nullopt;
    functions->find_all();
    if (!functions->complete() || functions->init() != 0) {
        dlclose(functions->library);
        return std::nullopt;
    }
    unsigned n = 0;
    functions->count(&n);
    for (unsigned i = 0; i < n; ++i) {
        NvmlDevice device = nullptr;
        if (functions->device_at(i, &device) == 0) functions->devices.push_back(device);
    }
    return Nvml(std::move(functions));
}

Nvml::Nvml(std::unique_ptr<Functions> functions) : functions_(std::move(functions)) {}
Nvml::Nvml(Nvml&&) noexcept = default;
Nvml& Nvml::operator=(Nvml&&) noexcept = default;

Nvml::~Nvml() {
    if (!functions_) return;
    functions_->shut_down();
    dlclose(functions_->library);
}

i64 Nvml::n_gpus() const {
    return static_cast<i64>(functions_->devices.size());
}

std::string Nvml::name(i64 gpu) const {
    char text[longest_name] = {};
    functions_->name(functions_->devices.at(static_cast<size_t>(gpu)), text, longest_name);
    return text;
}

GpuSensors Nvml::read(i64 gpu) const {
    const Functions& nvml = *functions_;
    const NvmlDevice device = nvml.devices.at(static_cast<size_t>(gpu));
    using Wide = unsigned long long;
    using Narrow = unsigned;
    const auto clock_with = [device](auto function) {
        return value_of<i64, Narrow>(
            [&](Narrow* mhz) { return function(device, clock_of_sms, mhz); });
    };
    GpuSensors sensors;
    sensors.energy_j =
        value_of<double, Wide>([&](Wide* mj) { return nvml.energy_mj(device, mj); }, 1e-3);
    sensors.power_w =
        value_of<double, Narrow>([&](Narrow* mw) { return nvml.power_mw(device, mw); }, 1e-3);
    sensors.temperature_c = value_of<i64, Narrow>(
        [&](Narrow* celsius) { return nvml.temperature(device, sensor_of_chip, celsius); });
    sensors.uncorrected_ecc_errors = value_of<i64, Wide>([&](Wide* errors) {
        return nvml.ecc_errors(device, errors_uncorrected, since_reboot, errors);
    });
    sensors.sm_mhz = clock_with(nvml.clock);
    sensors.max_sm_mhz = clock_with(nvml.max_clock);
    return sensors;
}

}  // namespace lm::cluster
