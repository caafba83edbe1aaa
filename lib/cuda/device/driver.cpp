// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/driver.hpp"

#include <cstdlib>
#include <fstream>

#include "base/error.hpp"

namespace lm::cuda {
namespace {

constexpr int oldest_capability = 80;  // Ampere: the first of CMAKE_CUDA_ARCHITECTURES

// The oldest driver that works with every toolkit of this major version of CUDA (NVIDIA, "CUDA
// Compatibility", minor version compatibility).
constexpr int oldest_driver = CUDART_VERSION >= 13000 ? 580 : 525;

// Returns the version of NVIDIA's kernel module, such as " 550.54.15"; "" without the module. The
// first line of the file is "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue ...".
std::string module_version() {
    std::ifstream file("/proc/driver/nvidia/version");
    for (std::string word; file >> word;) {
        const bool number = !word.empty() && word[0] >= '0' && word[0] <= '9';
        if (number && word.find('.') != std::string::npos) return " " + word;
    }
    return "";
}

[[noreturn]] void no_driver() {
    int version = 0;
    if (cudaDriverGetVersion(&version) != cudaSuccess || version == 0) {
        run_error("cuda",
                  "no NVIDIA driver: run this on a machine with a GPU, or use --device cpu");
    }
    const std::string older = CUDART_VERSION >= 13000
                                  ? fmt::format(", or build with CUDA {}", version_text(version))
                                  : "";
    run_error("cuda",
              "the NVIDIA driver{} is for CUDA {}, too old for CUDA {}: update the driver to {} or "
              "later{}",
              module_version(), version_text(version), version_text(CUDART_VERSION), oldest_driver,
              older);
}

[[noreturn]] void no_device() {
    const char* const visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (visible == nullptr) run_error("cuda", "the driver finds no GPU: use --device cpu");
    run_error(
        "cuda",
        "no GPU with CUDA_VISIBLE_DEVICES={}: set the variable to a GPU that nvidia-smi lists",
        visible[0] == 0 ? "\"\"" : visible);
}

[[noreturn]] void refused(const std::string& what, cudaError_t status) {
    cudaGetLastError();  // clears the error, because the caller reports it
    run_error(what, "{} ({}){}", cudaGetErrorString(status), cudaGetErrorName(status),
              advice_on(status));
}

}  // namespace

std::string version_text(int version) {
    return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

int count_devices() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status != cudaSuccess) cudaGetLastError();
    if (status == cudaErrorInsufficientDriver) no_driver();
    if (status == cudaErrorStubLibrary) {
        run_error("cuda",
                  "libcuda.so.1 is the toolkit's stub, not a driver: remove .../lib64/stubs from "
                  "LD_LIBRARY_PATH");
    }
    if (status == cudaErrorNoDevice || (status == cudaSuccess && count == 0)) no_device();
    if (status != cudaSuccess) refused("cuda", status);
    return count;
}

// If another process uses the device in exclusive mode, the driver refuses to create a context.
// Since CUDA 12.0 cudaSetDevice() creates the context, so the calls before cudaSetDevice() still
// succeed.
void claim_device(int index) {
    const std::string name = fmt::format("cuda:{}", index);
    cudaDeviceProp properties;
    cudaError_t status = cudaGetDeviceProperties(&properties, index);
    if (status != cudaSuccess) refused(name, status);
    if (properties.major * 10 + properties.minor < oldest_capability) {
        run_error(name, "{} has compute capability {}.{}; the kernels need 8.0 (A100) or later",
                  properties.name, properties.major, properties.minor);
    }
    status = cudaSetDevice(index);
    if (status != cudaSuccess) refused(name, status);
}

std::string advice_on(cudaError_t status) {
    switch (status) {
        case cudaErrorNoKernelImageForDevice:
            return ": build with the GPU's architecture in CMAKE_CUDA_ARCHITECTURES";
        case cudaErrorSystemNotReady:
        case cudaErrorSystemDriverMismatch:
            return ": the fabric manager does not run, or does not match the driver; ask the "
                   "administrator";
        case cudaErrorDevicesUnavailable:
            return ": another process uses the GPU in exclusive mode; see nvidia-smi";
        case cudaErrorECCUncorrectable:
            return ": the GPU's memory is defective; exclude this node";
        case cudaErrorIllegalAddress:
        case cudaErrorLaunchFailure:
        case cudaErrorMisalignedAddress:
            return ": caused by this or an earlier operation; set CUDA_LAUNCH_BLOCKING=1 to find "
                   "it";
        default:
            return "";
    }
}

}  // namespace lm::cuda
