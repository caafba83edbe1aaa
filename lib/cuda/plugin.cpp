// SPDX-License-Identifier: Apache-2.0
#include "cuda/plugin.hpp"

#include "cuda/cuda_device.hpp"
#include "cuda/driver.hpp"
#include "cuda/nccl/nccl_join.hpp"

namespace lm::cuda {
namespace {

std::unique_ptr<device::Device> open_device(int index) {
    return CudaDevice::open(index);
}

}  // namespace
}  // namespace lm::cuda

extern "C" __attribute__((visibility("default"))) const lm::cuda::Plugin* lm_cuda_plugin() {
    static const lm::cuda::Plugin plugin = {lm::cuda::plugin_abi,   lm::cuda::count_devices,
                                            lm::cuda::claim_device, lm::cuda::open_device,
                                            lm::cuda::join_nccl,    lm::cuda::libraries_text};
    return &plugin;
}
