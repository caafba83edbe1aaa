// SPDX-License-Identifier: Apache-2.0
// The CPU backend. It has memory in huge pages, one thread pool, and two tables of operations:
// `reference` (plain loops that define each operation) and `fast` (vectorized and multithreaded).
#pragma once

#include <memory>

#include "base/error.hpp"
#include "device/ops.hpp"
#include "device/workspace_arena.hpp"

namespace lm::cpu {

enum class Kernels { fast, reference };

// Returns a CPU device with `n_threads` threads; 0: all cores this process may use.
std::unique_ptr<device::Device> make_device(int n_threads, Kernels kernels = Kernels::fast);

class Matmul;

class CpuDevice final : public device::Device {
  public:
    CpuDevice(int n_threads, Kernels kernels);
    ~CpuDevice() override;
    std::string name() const override;
    const device::OpTable& ops() const override;
    void copy_to_host(void* host, const device::View& source) override;
    void copy_from_host(const device::View& target, const void* host) override;
    void synchronize() override {}
    bool is_host() const override { return true; }
    ThreadPool& pool() { return pool_; }
    Matmul& matmul() { return *matmul_; }

  protected:
    void* allocate_raw(i64 bytes, std::string_view purpose) override;
    void free_raw(void* data, i64 bytes) override;

  private:
    ThreadPool pool_;
    std::unique_ptr<Matmul> matmul_;
    Kernels kernels_;
};

inline Matmul& matmul_of(device::Context& context) {
    return static_cast<CpuDevice&>(context.device).matmul();
}
inline ThreadPool& pool_of(device::Context& context) {
    return static_cast<CpuDevice&>(context.device).pool();
}

// Returns the pointer of an optional argument, or nullptr when the argument is none. view: [...] of
// any dtype, with elements of type T.
template <typename T>
T* maybe(const device::View& view) {
    return view ? view.as<T>() : nullptr;
}

[[noreturn]] inline void no_such_type(DType dtype) {
    fail(Exit::usage, name_of(dtype),
         "type not supported here: the fast CPU operations support fp32, bf16 and fp16, the "
         "reference loops support fp32 and fp64");
}

// Calls body(float{}) or body(double{}), so that a reference loop gets the type as a template
// argument.
template <typename Body>
void with_type(DType dtype, Body&& body) {
    if (dtype == DType::fp32) return body(float{});
    if (dtype == DType::fp64) return body(double{});
    no_such_type(dtype);
}

// Returns an arena over the workspace [bytes] uint8, with parts at multiples of a cache line.
inline device::WorkspaceArena arena_of(const device::View& workspace) {
    constexpr i64 cache_line = 64;
    return {workspace, cache_line};
}

}  // namespace lm::cpu
