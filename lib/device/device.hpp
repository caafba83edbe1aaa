// SPDX-License-Identifier: Apache-2.0
// A device: where memory comes from, how bytes move, and the table of its operations. Everything
// that a training run needs is allocated before its first step.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "base/threads.hpp"
#include "device/view.hpp"

namespace lm::device {

struct OpTable;
struct OpTimes;
class TunedChoices;
class Device;

// Owns device memory; move-only; zero-filled when made.
class Buffer {
  public:
    Buffer() = default;
    Buffer(Device* device, void* data, i64 bytes) : device_(device), data_(data), bytes_(bytes) {}
    ~Buffer();
    Buffer(Buffer&& other) noexcept { swap(other); }
    Buffer& operator=(Buffer&& other) noexcept {
        swap(other);
        return *this;
    }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;

    i64 bytes() const { return bytes_; }
    std::byte* data() const { return static_cast<std::byte*>(data_); }
    // A view of `shape` at `offset` bytes; out of the buffer's range is a bug.
    View view(i64 offset, DType dtype, const Shape& shape) const;
    View view(DType dtype, const Shape& shape) const { return view(0, dtype, shape); }

  private:
    void swap(Buffer& other) noexcept {
        std::swap(device_, other.device_);
        std::swap(data_, other.data_);
        std::swap(bytes_, other.bytes_);
    }
    Device* device_ = nullptr;
    void* data_ = nullptr;
    i64 bytes_ = 0;
};

class Device {
  public:
    virtual ~Device() = default;
    virtual std::string name() const = 0;  // "cpu (2 threads, AVX2)"
    virtual const OpTable& ops() const = 0;
    // Throws Error(failure) naming `purpose` and the size when there is not enough memory.
    Buffer allocate(i64 bytes, std::string_view purpose);
    virtual void copy_to_host(void* host, const View& source) = 0;  // waits until done
    virtual void copy_from_host(const View& target, const void* host) = 0;
    virtual void synchronize() = 0;
    // The host reads and writes the memory of views itself; else it copies.
    virtual bool is_host() const { return false; }
    // Does `work`, which tells the device what to do, and adds the seconds that the device takes
    // for it to `seconds`: at once, or when the host waits for the device next.
    virtual void measure(const std::function<void()>& work, double& seconds);
    // What the driver says of the device's memory, all processes together: now, and when this was
    // opened, before anything was allocated; and how much there is. Zeros: there is no driver.
    struct InUse {
        i64 now = 0;
        i64 at_start = 0;
        i64 total = 0;
    };
    virtual InUse memory_in_use() { return {}; }
    // Products of fp32 may round their operands to TF32 from now on, where the device has it.
    virtual void allow_tf32() {}
    // Attention by cuDNN from now on, for what that can do; `deterministic`: so that it has the
    // same bits in every run. Throws Error(failure) where there is no cuDNN.
    virtual void use_cudnn(bool deterministic) { (void)deterministic; }
    // Communication beside the operations from here on may hold so many of the device's
    // multiprocessors, or 0: products are planned for the others, where the device has such.
    virtual void reserve_sms(int n) { (void)n; }
    // From now on, until told nullptr, an operation that finds no choice for its shape measures the
    // ways to do it, which overwrites its outputs, and keeps the best. Before the first step only.
    virtual void tune(TunedChoices* choices) { (void)choices; }
    i64 allocated_bytes() const { return allocated_; }  // by allocate() and not yet freed

  protected:
    virtual void* allocate_raw(i64 bytes, std::string_view purpose) = 0;
    virtual void free_raw(void* data, i64 bytes) = 0;

  private:
    friend class Buffer;
    i64 allocated_ = 0;
};

// What an operation runs with: the device, and scratch memory that the plan has set aside for it.
// Operations never allocate; what one needs is checked against the workspace's size.
struct Context {
    Device& device;
    View workspace;            // uint8
    OpTimes* times = nullptr;  // device/op_times.hpp; none: not measured
};

}  // namespace lm::device
