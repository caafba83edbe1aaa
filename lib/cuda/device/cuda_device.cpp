// SPDX-License-Identifier: Apache-2.0
#include <dlfcn.h>
#include <fmt/format.h>

#include <cstdlib>

#include "base/error.hpp"
#include "base/units.hpp"
#include "cuda/cudnn/cudnn_attention.hpp"
#include "cuda/device/cublas_matmul.hpp"
#include "cuda/device/cuda_device.hpp"
#include "cuda/device/driver.hpp"
#include "cuda/device/ops.hpp"

namespace lm::cuda {
namespace {

// Returns the path of the cuDNN plugin, which is in the directory of this plugin.
std::string plugin_path() {
    Dl_info info;
    if (dladdr(reinterpret_cast<void*>(&plugin_path), &info) == 0) return cudnn_plugin_file;
    const std::string self = info.dli_fname;
    return self.substr(0, self.rfind('/') + 1) + cudnn_plugin_file;
}

// Opens the cuDNN plugin. When the plugin cannot be used, returns nullptr and sets `why` to the
// reason.
const CudnnAttention* open_plugin(std::string& why) {
    void* const library = dlopen(plugin_path().c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) {
        why = fmt::format("cannot open the cuDNN plugin: {}", dlerror());
        return nullptr;
    }
    // The plugins may be of different builds, so no struct is passed between them unless their ABI
    // numbers are equal.
    const auto entry = reinterpret_cast<CudnnPluginEntry>(dlsym(library, cudnn_plugin_entry));
    if (entry != nullptr && entry()->abi == CudnnAttention{}.abi) return entry();
    why = fmt::format("{} was built from another version: expected ABI {}, got {}: reinstall it",
                      plugin_path(), CudnnAttention{}.abi, entry == nullptr ? 0 : entry()->abi);
    return nullptr;
}

// The entry of the operation table that runs `operation`. Stores the operation's name for error
// messages, enqueues the operation, and throws when a launch has failed.
template <typename Args, void (*operation)(device::Context&, const Args&)>
void run_named(device::Context& context, const Args& args, const char* name) {
    CudaDevice& device = device_of(context);
    device.enter(name);
    operation(context, args);
    device.check(cudaGetLastError());
}

#define LM_NAMED(name, Args)                                                \
    void named_##name(device::Context& context, const device::Args& args) { \
        run_named<device::Args, ops::name>(context, args, #name);           \
    }
LM_OPS(LM_NAMED)
#undef LM_NAMED

#define LM_ENTRY(name, Args) named_##name,
const device::OpTable table{LM_OPS(LM_ENTRY)};
#undef LM_ENTRY

}  // namespace

void misaligned_workspace(const void* begin) {
    bug(__FILE__, __LINE__,
        fmt::format("workspace: expected an address that is a multiple of {}, got {}",
                    cost::cuda_alignment, begin));
}

void CudaDevice::missing(const char* argument) const {
    bug(__FILE__, __LINE__, fmt::format("{}: expected {}, got none", operation_, argument));
}

CudaDevice::CudaDevice(int index) : index_(index) {}

std::unique_ptr<CudaDevice> CudaDevice::open(int index) {
    claim_device(index);
    std::unique_ptr<CudaDevice> device(new CudaDevice(index));
    device->check(cudaGetDeviceProperties(&device->properties_, index));
    device->check(cudaStreamCreateWithFlags(&device->stream_, cudaStreamNonBlocking));
    device->staging_.open();
    device->matmul_ = std::make_unique<CublasMatmul>(*device);
    device->in_use_at_start_ = device->memory_in_use().now;
    return device;
}

// Ignores errors, because they were reported before, and one of them may be the reason why the
// process exits.
CudaDevice::~CudaDevice() {
    if (stream_ == nullptr) return;  // open() has failed
    cudaStreamSynchronize(stream_);
    staging_.close();
    timer_.close();
    cudaStreamDestroy(stream_);
}

std::string CudaDevice::name() const {
    return fmt::format("cuda:{} ({})", index_, properties_.name);
}

const device::OpTable& CudaDevice::ops() const {
    return table;
}

void CudaDevice::throw_error(cudaError_t status) const {
    run_error(fmt::format("cuda:{}", index_), "{}: {} ({}){}", operation_,
              cudaGetErrorString(status), cudaGetErrorName(status), advice_on(status));
}

void CudaDevice::copy_to_host(void* host, const device::View& source) {
    if (source.bytes() == 0) return;
    after_wait(staging_.to_host(host, source.data, source.bytes(), stream_));
}

void CudaDevice::copy_from_host(const device::View& target, const void* host) {
    check(staging_.to_device(target.data, host, target.bytes(), stream_));
}

void CudaDevice::synchronize() {
    after_wait(cudaStreamSynchronize(stream_));
}

// Calls on_wait_ before it checks `status`, because after an abort the error of on_wait_ states the
// cause, and `status` is only a consequence.
void CudaDevice::after_wait(cudaError_t status) {
    if (on_wait_) on_wait_();
    check(status);
    check(timer_.collect());
}

bool CudaDevice::holds(const void* data) const {
    const auto* const at = static_cast<const std::byte*>(data);
    const auto next = allocations_.upper_bound(at);
    if (next == allocations_.begin()) return false;
    const auto& [begin, bytes] = *std::prev(next);
    return at < begin + bytes;
}

void CudaDevice::measure(const std::function<void()>& work, double& seconds) {
    check(timer_.begin(stream_));
    work();
    check(timer_.end(stream_, seconds));
}

CudaDevice::InUse CudaDevice::memory_in_use() {
    size_t free = 0;
    size_t total = 0;
    check(cudaMemGetInfo(&free, &total));
    return {static_cast<i64>(total - free), in_use_at_start_, static_cast<i64>(total)};
}

void CudaDevice::allow_tf32() {
    matmul_->allow_tf32();
}

std::string CudaDevice::use_cudnn(bool on) {
    std::string why;
    cudnn_ = on ? open_plugin(why) : nullptr;
    return why;
}

void CudaDevice::plan_for_reserved(int sms, int more_sms) {
    matmul_->reserve_sms(sms + more_sms);
}

void CudaDevice::tune(device::TunedChoices* choices) {
    matmul_->tune(choices);
}

void* CudaDevice::allocate_raw(i64 bytes, std::string_view purpose) {
    void* data = nullptr;
    const cudaError_t status = cudaMalloc(&data, static_cast<size_t>(bytes));
    if (status == cudaErrorMemoryAllocation) {
        cudaGetLastError();  // clears the error, so that the next launch does not report it again
        size_t free = 0;
        size_t total = 0;
        cudaMemGetInfo(&free, &total);
        run_error(purpose, "cannot allocate {} on cuda:{}: {} of {} are free", human_size(bytes),
                  index_, human_size(static_cast<i64>(free)), human_size(static_cast<i64>(total)));
    }
    check(status);
    check(cudaMemsetAsync(data, 0, static_cast<size_t>(bytes), stream_));
    check(cudaStreamSynchronize(stream_));  // other streams must see the zeros, too
    allocations_[static_cast<const std::byte*>(data)] = bytes;
    return data;
}

void CudaDevice::free_raw(void* data, i64) {
    allocations_.erase(static_cast<const std::byte*>(data));
    cudaFree(data);
}

}  // namespace lm::cuda
