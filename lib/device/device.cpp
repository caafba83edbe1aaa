// SPDX-License-Identifier: Apache-2.0
#include "device/device.hpp"

#include "base/clock.hpp"
#include "base/error.hpp"

namespace lm::device {

Buffer::~Buffer() {
    if (!data_) return;
    device_->free_raw(data_, bytes_);
    device_->allocated_ -= bytes_;
}

View Buffer::view(i64 offset, DType dtype, const Shape& shape) const {
    const View view{data() + offset, dtype, shape};
    LM_CHECK(offset >= 0 && offset + view.bytes() <= bytes_,
             "a view: expected a range within {} bytes, got {} bytes at {}", bytes_, view.bytes(),
             offset);
    return view;
}

void Device::measure(const std::function<void()>& work, double& seconds) {
    const Stopwatch watch;
    work();
    seconds += watch.elapsed_s();
}

Buffer Device::allocate(i64 bytes, std::string_view purpose) {
    if (bytes == 0) return {};
    void* data = allocate_raw(bytes, purpose);
    allocated_ += bytes;
    return {this, data, bytes};
}

}  // namespace lm::device
