// SPDX-License-Identifier: Apache-2.0
// A library with the functions of NVML that cluster/nvml.cpp uses, and two GPUs. Each reading of
// GPU 0 adds 5 J; GPU 1 has no energy counter.
#include <cstdio>

namespace {

constexpr int not_supported = 3;
int gpus[2] = {0, 1};
int index_of(void* device) {
    return *static_cast<int*>(device);
}

}  // namespace

extern "C" {

int nvmlInit_v2() {
    return 0;
}
int nvmlShutdown() {
    return 0;
}
int nvmlDeviceGetCount_v2(unsigned* n) {
    *n = 2;
    return 0;
}
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void** device) {
    *device = &gpus[index];
    return 0;
}
int nvmlDeviceGetName(void* device, char* name, unsigned size) {
    std::snprintf(name, size, "Fake GPU %d", index_of(device));
    return 0;
}
int nvmlDeviceGetTotalEnergyConsumption(void* device, unsigned long long* millijoules) {
    static unsigned long long reading = 0;
    if (index_of(device) == 1) return not_supported;
    *millijoules = reading += 5000;
    return 0;
}
int nvmlDeviceGetPowerUsage(void* /*device*/, unsigned* milliwatts) {
    *milliwatts = 250000;
    return 0;
}
int nvmlDeviceGetTemperature(void* device, unsigned /*sensor*/, unsigned* celsius) {
    *celsius = 60 + static_cast<unsigned>(index_of(device));
    return 0;
}
int nvmlDeviceGetClockInfo(void* /*device*/, unsigned /*clock*/, unsigned* mhz) {
    *mhz = 1500;
    return 0;
}
int nvmlDeviceGetMaxClockInfo(void* /*device*/, unsigned /*clock*/, unsigned* mhz) {
    *mhz = 2000;
    return 0;
}
int nvmlDeviceGetTotalEccErrors(void* device, unsigned /*type*/, unsigned /*counter*/,
                                unsigned long long* errors) {
    *errors = index_of(device) == 1 ? 3 : 0;
    return 0;
}
}
