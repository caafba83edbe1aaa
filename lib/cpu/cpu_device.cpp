// SPDX-License-Identifier: Apache-2.0
#include <sys/mman.h>

#include <cerrno>
#include <cstring>

#include "base/units.hpp"
#include "cpu/cpu_device.hpp"
#include "cpu/matmul.hpp"
#include "cpu/ops.hpp"
#include "cpu/vector/vector_kernels.hpp"

namespace lm::cpu {
namespace {

constexpr i64 huge_page = i64{2} << 20;

i64 mapped_bytes(i64 bytes) {
    return round_up(bytes, bytes >= huge_page ? huge_page : 4096);
}

#define LM_REFERENCE(name, Args) reference::name,
#define LM_FAST(name, Args) fast::name,
const device::OpTable reference_table{LM_OPS(LM_REFERENCE)};
const device::OpTable fast_table{LM_OPS(LM_FAST)};

// Returns the instruction sets that the fast operations use.
std::string instructions() {
    return fmt::format("{}{}", vector_kernels().name, amx_packed_kernels() ? ", AMX" : "");
}

}  // namespace

CpuDevice::CpuDevice(int n_threads, Kernels kernels)
    : pool_(n_threads > 0 ? n_threads : available_cores(), use_one_library_thread),
      matmul_(std::make_unique<Matmul>(pool_.size(), ProductCode::best)),
      kernels_(kernels) {}

CpuDevice::~CpuDevice() = default;

std::string CpuDevice::name() const {
    return fmt::format("cpu ({} thread{}, {})", pool_.size(), pool_.size() == 1 ? "" : "s",
                       kernels_ == Kernels::fast ? instructions() : "reference loops");
}

const device::OpTable& CpuDevice::ops() const {
    return kernels_ == Kernels::fast ? fast_table : reference_table;
}

void CpuDevice::copy_to_host(void* host, const device::View& source) {
    if (source.bytes() > 0) std::memcpy(host, source.data, static_cast<size_t>(source.bytes()));
}

void CpuDevice::copy_from_host(const device::View& target, const void* host) {
    if (target.bytes() > 0) std::memcpy(target.data, host, static_cast<size_t>(target.bytes()));
}

// The memory is anonymous, so the system zeroes it. Large buffers are aligned to huge pages and
// request such pages, because with 4 KiB pages, page faults and TLB misses can take half of a
// training step's time.
void* CpuDevice::allocate_raw(i64 bytes, std::string_view purpose) {
    const bool huge = bytes >= huge_page;
    const auto mapped = static_cast<size_t>(mapped_bytes(bytes));
    const size_t slack = huge ? huge_page : 0;
    void* const raw =
        mmap(nullptr, mapped + slack, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (raw == MAP_FAILED) {
        run_error(purpose, "cannot allocate {}: {}", human_size(bytes), std::strerror(errno));
    }
    if (!huge) return raw;
    auto* const begin = static_cast<std::byte*>(raw);
    const size_t before = (slack - reinterpret_cast<uintptr_t>(raw) % slack) % slack;
    if (before > 0) munmap(begin, before);
    if (before < slack) munmap(begin + before + mapped, slack - before);
    madvise(begin + before, mapped, MADV_HUGEPAGE);
    return begin + before;
}

void CpuDevice::free_raw(void* data, i64 bytes) {
    munmap(data, static_cast<size_t>(mapped_bytes(bytes)));
}

std::unique_ptr<device::Device> make_device(int n_threads, Kernels kernels) {
    return std::make_unique<CpuDevice>(n_threads, kernels);
}

}  // namespace lm::cpu
