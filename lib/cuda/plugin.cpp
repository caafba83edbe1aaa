// SPDX-License-Identifier: Apache-2.0
#include "cuda/plugin.hpp"

#include <cublasLt.h>
#include <fmt/format.h>

#include "cuda/device/cuda_device.hpp"
#include "cuda/device/driver.hpp"
#include "cuda/nccl/nccl_join.hpp"
#include "cuda/nccl/nccl_library.hpp"

namespace lm::cuda {
namespace {

std::unique_ptr<device::Device> open_device(int index) {
    return CudaDevice::open(index);
}

// Returns the versions of CUDA's libraries, in the form that Plugin::libraries() states.
std::string libraries_text(int n_ranks) {
    int runtime = 0, driver = 0, nccl_version = 0;
    cudaRuntimeGetVersion(&runtime);
    cudaDriverGetVersion(&driver);
    const size_t blas = cublasLtGetVersion();
    std::string text =
        fmt::format("CUDA {}, driver for CUDA {}, cuBLASLt {}.{}.{}", version_text(runtime),
                    version_text(driver), blas / 10000, blas / 100 % 100, blas % 100);
    if (n_ranks == 1) return text;
    nccl().GetVersion(&nccl_version);
    return text + fmt::format(", NCCL {}.{}.{}", nccl_version / 10000, nccl_version / 100 % 100,
                              nccl_version % 100);
}

}  // namespace
}  // namespace lm::cuda

const lm::cuda::Plugin* lm_cuda_plugin() {
    static const lm::cuda::Plugin plugin = {lm::cuda::plugin_abi,   lm::cuda::count_devices,
                                            lm::cuda::claim_device, lm::cuda::open_device,
                                            lm::cuda::join_nccl,    lm::cuda::libraries_text};
    return &plugin;
}
