// SPDX-License-Identifier: Apache-2.0
// A device: allocates memory, copies between host and device, and has a table of operations. A
// training run allocates all of its device memory before its first step.
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

// Owns device memory, which is zero-filled when it is allocated. Move-only.
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
    // Returns a view [shape] of any dtype that begins at byte `offset`. Throws Error(bug) when the
    // view is not within the buffer.
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
    // Allocates zero-filled memory. When the device has not enough memory, throws Error(failure),
    // which names `purpose` and the size.
    Buffer allocate(i64 bytes, std::string_view purpose);
    // Copies `source`, [...] of any dtype, to `host` after all work that is already enqueued.
    // Blocks until the copy is complete.
    virtual void copy_to_host(void* host, const View& source) = 0;
    // Copies `host` to `target`, [...] of any dtype, after all work that is already enqueued. The
    // caller may change `host` as soon as this function returns.
    virtual void copy_from_host(const View& target, const void* host) = 0;
    // Blocks until the device has finished all enqueued work.
    virtual void synchronize() = 0;
    // Returns whether the CPU can access the memory of views directly. If not, callers must copy to
    // and from the device.
    virtual bool is_host() const { return false; }
    // Calls `work`, which enqueues operations. Adds the seconds that the device takes for the
    // operations to `seconds`, either before this function returns, or later, when the CPU waits
    // for the device.
    virtual void measure(const std::function<void()>& work, double& seconds);
    // Device memory in bytes, as the driver reports it. now: in use by all processes; at_start: in
    // use when this device was opened, before its first allocation; total: the memory of the
    // device. All are 0 without a driver.
    struct InUse {
        i64 now = 0;
        i64 at_start = 0;
        i64 total = 0;
    };
    virtual InUse memory_in_use() { return {}; }
    // Allows later fp32 products to round their operands to TF32, on devices that support it.
    virtual void allow_tf32() {}
    // With `on`, later attention operations use cuDNN for the shapes and options that it supports;
    // otherwise they use the device's own kernels. Returns an empty text on success, else the
    // reason why the device has no cuDNN.
    virtual std::string use_cudnn(bool on) { return on ? "this device has no cuDNN" : ""; }
    // Reserves `n` of the device's SMs for communication that overlaps compute: GEMMs that are
    // enqueued after this call use algorithms for the remaining SMs. 0 reserves no SM.
    void reserve_sms(int n) { plan_for_reserved(reserved_ = n, also_reserved_); }
    // Reserves `n` SMs in addition to the SMs of reserve_sms(). 0 ends this additional reservation.
    void also_reserve_sms(int n) { plan_for_reserved(reserved_, also_reserved_ = n); }
    // Turns autotuning on; nullptr turns it off. With autotuning, an operation whose shape has no
    // entry in `choices` measures its algorithms and stores the fastest one. Measuring overwrites
    // the outputs of the operation, so turn autotuning on only before the first step.
    virtual void tune(TunedChoices* choices) { (void)choices; }
    i64 allocated_bytes() const { return allocated_; }  // by allocate(), not yet freed

  protected:
    virtual void* allocate_raw(i64 bytes, std::string_view purpose) = 0;
    virtual void free_raw(void* data, i64 bytes) = 0;
    virtual void plan_for_reserved(int /*sms*/, int /*more_sms*/) {}

  private:
    friend class Buffer;
    i64 allocated_ = 0;
    int reserved_ = 0;
    int also_reserved_ = 0;
};

// The device that an operation runs on, and the workspace that the operation may use as scratch
// memory. Operations never allocate memory; each operation checks that the workspace is large
// enough.
struct Context {
    Device& device;
    View workspace;            // [bytes] uint8
    OpTimes* times = nullptr;  // device/op_times.hpp; nullptr: operations are not measured
};

}  // namespace lm::device
