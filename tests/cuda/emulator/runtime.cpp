// SPDX-License-Identifier: Apache-2.0
// Devices, memory, errors and launches of the emulated CUDA runtime. Environment variables describe
// the machine: EMULATED_CUDA_DEVICES (8), EMULATED_CUDA_MEMORY (MiB, 8192),
// EMULATED_CUDA_CAPABILITY (90), EMULATED_CUDA_SMS (132, like an H100), EMULATED_CUDA_DRIVER (the
// driver's version of CUDA, by default the runtime's), EMULATED_CUDA_TAKEN (MiB of device memory
// that others use, 0), EMULATED_CUDA_ERROR (an error of the driver, returned by the function that
// returns it on a real machine, which is cudaGetDeviceCount() or cudaSetDevice()).
#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "block.hpp"
#include "events.hpp"
#include "memory.hpp"
#include "stream.hpp"

using emulator::noted;

namespace {

constexpr size_t granted_shared_bytes = 48 << 10;
// Static shared memory that a kernel may have; the emulator does not know its real size.
constexpr size_t static_shared_bytes = 4 << 10;

thread_local int current_device = 0;
std::mutex functions_mutex;
std::map<const void*, size_t> shared_bytes_of;  // set by cudaFuncSetAttribute

int number_of(const char* variable, int otherwise) {
    const char* const text = std::getenv(variable);
    return text != nullptr ? std::atoi(text) : otherwise;
}

int n_devices() {
    return number_of("EMULATED_CUDA_DEVICES", 8);
}

struct ErrorName {
    cudaError_t error;
    const char* name;
    const char* text;
};
constexpr ErrorName error_names[] = {
    {cudaSuccess, "cudaSuccess", "no error"},
    {cudaErrorInvalidValue, "cudaErrorInvalidValue", "invalid argument"},
    {cudaErrorMemoryAllocation, "cudaErrorMemoryAllocation", "out of memory"},
    {cudaErrorInitializationError, "cudaErrorInitializationError", "initialization error"},
    {cudaErrorInvalidConfiguration, "cudaErrorInvalidConfiguration",
     "invalid configuration argument"},
    {cudaErrorStubLibrary, "cudaErrorStubLibrary", "CUDA driver is a stub library"},
    {cudaErrorInsufficientDriver, "cudaErrorInsufficientDriver",
     "CUDA driver version is insufficient for CUDA runtime version"},
    {cudaErrorDevicesUnavailable, "cudaErrorDevicesUnavailable",
     "CUDA-capable device(s) is/are busy or unavailable"},
    {cudaErrorNoDevice, "cudaErrorNoDevice", "no CUDA-capable device is detected"},
    {cudaErrorInvalidDevice, "cudaErrorInvalidDevice", "invalid device ordinal"},
    {cudaErrorInvalidResourceHandle, "cudaErrorInvalidResourceHandle", "invalid resource handle"},
    {cudaErrorNotReady, "cudaErrorNotReady", "device not ready"},
    {cudaErrorIllegalAddress, "cudaErrorIllegalAddress",
     "an illegal memory access was encountered"},
    {cudaErrorLaunchFailure, "cudaErrorLaunchFailure", "unspecified launch failure"},
};

const ErrorName& name_of(cudaError_t error) {
    static const ErrorName unknown = {error, "cudaErrorUnknown", "unknown error"};
    for (const ErrorName& name : error_names) {
        if (name.error == error) return name;
    }
    return unknown;
}

}  // namespace

const char* cudaGetErrorString(cudaError_t error) {
    return name_of(error).text;
}

const char* cudaGetErrorName(cudaError_t error) {
    return name_of(error).name;
}

// ---- Devices -----------------------------------------------------------------------------------

cudaError_t cudaDriverGetVersion(int* version) {
    *version = number_of("EMULATED_CUDA_DRIVER", CUDART_VERSION);
    return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
    *version = CUDART_VERSION;
    return cudaSuccess;
}

namespace {

// Returns EMULATED_CUDA_ERROR if the calling function is the one that returns this error on a real
// machine. `context`: the caller creates a context (cudaSetDevice()); else it counts the devices.
cudaError_t error_of(bool context) {
    const auto error = static_cast<cudaError_t>(number_of("EMULATED_CUDA_ERROR", 0));
    const bool late = error == cudaErrorDevicesUnavailable || error == cudaErrorMemoryAllocation;
    return late == context ? error : cudaSuccess;
}

}  // namespace

cudaError_t cudaGetDeviceCount(int* count) {
    const char* const loading = std::getenv("CUDA_MODULE_LOADING");
    emulator::log(fmt::format("kernels are loaded: {}", loading != nullptr ? loading : "LAZY"));
    const cudaError_t error = error_of(false);
    *count = error != cudaSuccess ? 0 : n_devices();
    return noted(error);
}

cudaError_t cudaSetDevice(int device) {
    if (device < 0 || device >= n_devices()) return noted(cudaErrorInvalidDevice);
    const cudaError_t error = error_of(true);
    if (error != cudaSuccess) return noted(error);
    current_device = device;
    return noted(cudaSuccess);
}

cudaError_t cudaGetDevice(int* device) {
    *device = current_device;
    return noted(cudaSuccess);
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
    if (device < 0 || device >= n_devices()) return noted(cudaErrorInvalidDevice);
    const int capability = number_of("EMULATED_CUDA_CAPABILITY", 90);
    *properties = {};
    std::strcpy(properties->name, "emulated GPU");
    size_t free = 0;
    emulator::device_memory(free, properties->totalGlobalMem);
    properties->major = capability / 10;
    properties->minor = capability % 10;
    properties->multiProcessorCount = number_of("EMULATED_CUDA_SMS", 132);
    properties->l2CacheSize = 1 << 20;
    properties->memoryBusWidth = 5120;
    properties->sharedMemPerBlock = granted_shared_bytes;
    // CUDA C++ Programming Guide, "Technical Specifications per Compute Capability".
    const bool small = capability == 86 || capability == 89 || capability == 120;
    const size_t of_block = small ? 99 : capability < 90 ? 163 : 227;
    properties->sharedMemPerBlockOptin = of_block << 10;
    properties->reservedSharedMemPerBlock = size_t{1} << 10;
    properties->sharedMemPerMultiprocessor = (of_block + 1) << 10;
    properties->pciBusID = device;
    return noted(cudaSuccess);
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
    cudaDeviceProp properties;
    const cudaError_t status = cudaGetDeviceProperties(&properties, device);
    if (status != cudaSuccess) return status;
    switch (attribute) {
        case cudaDevAttrMultiProcessorCount:
            *value = properties.multiProcessorCount;
            return cudaSuccess;
        case cudaDevAttrComputeCapabilityMajor:
            *value = properties.major;
            return cudaSuccess;
        case cudaDevAttrComputeCapabilityMinor:
            *value = properties.minor;
            return cudaSuccess;
        case cudaDevAttrMaxSharedMemoryPerBlockOptin:
            *value = static_cast<int>(properties.sharedMemPerBlockOptin);
            return cudaSuccess;
    }
    return noted(cudaErrorInvalidValue);
}

// ---- Memory ------------------------------------------------------------------------------------

cudaError_t cudaMalloc(void** data, size_t bytes) {
    emulator::log(fmt::format("cudaMalloc({})", bytes));
    *data = bytes > 0 ? emulator::allocate_device(bytes) : nullptr;
    return noted(*data != nullptr || bytes == 0 ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaFree(void* data) {
    cudaDeviceSynchronize();
    if (data != nullptr && !emulator::free_device(data)) return noted(cudaErrorInvalidValue);
    return noted(cudaSuccess);
}

cudaError_t cudaHostAlloc(void** data, size_t bytes, unsigned) {
    *data = emulator::allocate_pinned(bytes);
    return noted(*data != nullptr ? cudaSuccess : cudaErrorMemoryAllocation);
}

cudaError_t cudaMallocHost(void** data, size_t bytes) {
    return cudaHostAlloc(data, bytes, cudaHostAllocDefault);
}

cudaError_t cudaFreeHost(void* data) {
    return noted(data == nullptr || emulator::free_pinned(data) ? cudaSuccess
                                                                : cudaErrorInvalidValue);
}

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
    emulator::device_memory(*free, *total);
    return noted(cudaSuccess);
}

// ---- Launches ----------------------------------------------------------------------------------

cudaError_t cudaFuncSetAttribute(const void* function, cudaFuncAttribute, int value) {
    cudaDeviceProp properties;
    cudaGetDeviceProperties(&properties, current_device);
    if (value < 0 || static_cast<size_t>(value) > properties.sharedMemPerBlockOptin) {
        return noted(cudaErrorInvalidValue);
    }
    const std::lock_guard lock(functions_mutex);
    shared_bytes_of[function] = static_cast<size_t>(value);
    return noted(cudaSuccess);
}

namespace emulator {
namespace {

bool fits(const cudaLaunchConfig_t& config, const void* kernel) {
    const dim3 grid = config.gridDim;
    const dim3 block = config.blockDim;
    const std::lock_guard lock(functions_mutex);
    const auto asked = shared_bytes_of.find(kernel);
    const size_t shared =
        asked == shared_bytes_of.end() ? granted_shared_bytes - static_shared_bytes : asked->second;
    return config.numAttrs == 0 && config.dynamicSmemBytes <= shared && grid.x > 0 && grid.y > 0 &&
           grid.z > 0 && grid.x <= 0x7fffffffU && grid.y <= 65535 && grid.z <= 65535 &&
           block.x > 0 && block.y > 0 && block.z > 0 && block.z <= 64 &&
           size_t{block.x} * block.y * block.z <= 1024;
}

}  // namespace

cudaError_t launch(const cudaLaunchConfig_t& config, const void* kernel,
                   std::function<void()> thread) {
    if (!fits(config, kernel)) return noted(cudaErrorInvalidConfiguration);
    log("kernel");
    log_launch(config, kernel);
    return enqueue(config.stream, [config, thread = std::move(thread)] {
        const GridResult result =
            run_grid(config.gridDim, config.blockDim, config.dynamicSmemBytes, thread);
        if (result.problem.empty()) return cudaSuccess;
        return device_lost(result.illegal_access ? cudaErrorIllegalAddress : cudaErrorLaunchFailure,
                           result.problem.c_str());
    });
}

}  // namespace emulator
