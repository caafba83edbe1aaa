// SPDX-License-Identifier: Apache-2.0
// One GPU: memory, one compute stream that runs all copies and operations in order, and the table
// of operations. Apart from allocation, only copy_to_host() and synchronize() block until the GPU
// has finished. These functions, or any later call, report an error of pending work.
//
// Kernel files (.cu) include this header, so it must not include base/error.hpp: nvcc does not
// compile fmt.
#pragma once

#include <cuda_runtime.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "cost/cuda_scratch.hpp"
#include "cuda/device/op_timer.hpp"
#include "cuda/device/staging.hpp"
#include "device/ops.hpp"
#include "device/workspace_arena.hpp"

namespace lm::cuda {

class CublasMatmul;
struct CudnnAttention;

class CudaDevice final : public device::Device {
  public:
    // Opens GPU `index` of the process: claims it and creates its stream and pinned buffers. Throws
    // Error(failure).
    static std::unique_ptr<CudaDevice> open(int index);
    ~CudaDevice() override;

    std::string name() const override;  // "cuda:0 (NVIDIA H100 80GB HBM3)"
    const device::OpTable& ops() const override;
    void copy_to_host(void* host, const device::View& source) override;
    void copy_from_host(const device::View& target, const void* host) override;
    void synchronize() override;
    InUse memory_in_use() override;
    void allow_tf32() override;
    std::string use_cudnn(bool on) override;
    void tune(device::TunedChoices* choices) override;
    void measure(const std::function<void()>& work, double& seconds) override;

    int index() const { return index_; }
    // Returns true when `data` is in memory that this device allocated.
    bool holds(const void* data) const;
    // Registers `check`. The device calls it after each wait of the CPU for the GPU. `check` must
    // throw when NcclWorld has aborted the GPU's work.
    void on_wait(std::function<void()> check) { on_wait_ = std::move(check); }
    cudaStream_t stream() const { return stream_; }
    const cudaDeviceProp& properties() const { return properties_; }
    CublasMatmul& matmul() { return *matmul_; }
    // Returns nullptr when attention uses the kernels of this plugin.
    const CudnnAttention* cudnn() const { return cudnn_; }

    // enter() stores the operation that is being enqueued, for error messages.
    void enter(const char* operation) { operation_ = operation; }
    const char* operation() const { return operation_; }
    // Throws Error(bug): the operation that is being enqueued has no `argument`.
    [[noreturn]] void missing(const char* argument) const;
    // Unless `status` is success, throws Error(failure) "cuda:0: OPERATION: MESSAGE (NAME)" with
    // CUDA's message and name of `status`, followed by a remedy if advice_on() has one.
    void check(cudaError_t status) const {
        if (status != cudaSuccess) throw_error(status);
    }

  protected:
    void* allocate_raw(i64 bytes, std::string_view purpose) override;
    void free_raw(void* data, i64 bytes) override;
    void plan_for_reserved(int sms, int more_sms) override;

  private:
    explicit CudaDevice(int index);
    [[noreturn]] void throw_error(cudaError_t status) const;
    void after_wait(cudaError_t status);

    int index_;
    i64 in_use_at_start_ = 0;
    cudaDeviceProp properties_{};
    cudaStream_t stream_ = nullptr;
    const char* operation_ = "start";
    Staging staging_;
    OpTimer timer_;
    std::unique_ptr<CublasMatmul> matmul_;
    const CudnnAttention* cudnn_ = nullptr;
    std::map<const std::byte*, i64> allocations_;  // first byte, and size in bytes
    std::function<void()> on_wait_;
};

inline CudaDevice& device_of(device::Context& context) {
    return static_cast<CudaDevice&>(context.device);
}
inline cudaStream_t stream_of(device::Context& context) {
    return device_of(context).stream();
}

// Throws Error(bug) with a message that states the address `begin`.
[[noreturn]] void misaligned_workspace(const void* begin);

// Returns the beginning of a workspace [bytes] uint8. Throws Error(bug) unless the workspace is
// aligned to cuda_alignment, as cuBLASLt and cuDNN require.
inline std::byte* begin_of(const device::View& workspace) {
    if (reinterpret_cast<uintptr_t>(workspace.data) % cost::cuda_alignment != 0) {
        misaligned_workspace(workspace.data);
    }
    return static_cast<std::byte*>(workspace.data);
}

// Returns an arena over the workspace [bytes] uint8, with parts at multiples of cuda_alignment.
inline device::WorkspaceArena arena_of(const device::View& workspace) {
    begin_of(workspace);  // checks the alignment
    return {workspace, cost::cuda_alignment};
}

}  // namespace lm::cuda
