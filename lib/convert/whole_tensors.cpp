// SPDX-License-Identifier: Apache-2.0
#include "convert/whole_tensors.hpp"

#include <algorithm>

namespace lm::convert {

std::shared_ptr<WholeTensors::Tensor> WholeTensors::find(const Key& key, i64 n) {
    constexpr size_t most = 2;
    const std::lock_guard lock(mutex_);
    for (const auto& tensor : tensors_) {
        if (tensor->key == key) return tensor;
    }
    if (tensors_.size() == most) tensors_.pop_front();
    tensors_.push_back(std::make_shared<Tensor>());
    tensors_.back()->key = key;
    tensors_.back()->bytes.reset(new std::byte[static_cast<size_t>(n)]);
    return tensors_.back();
}

// Loads parts that no other thread has begun, until no such part is left.
void WholeTensors::load_parts(Tensor& tensor, i64 n, i64 part_bytes, const Fill& fill) {
    std::unique_lock lock(tensor.mutex);
    while (tensor.next < n && !tensor.error) {
        const i64 begin = tensor.next;
        const i64 size = std::min(part_bytes, n - begin);
        tensor.next += size;
        lock.unlock();
        std::exception_ptr error;
        try {
            fill(begin, {tensor.bytes.get() + begin, static_cast<size_t>(size)});
        } catch (...) {
            error = std::current_exception();
        }
        lock.lock();
        tensor.n_loaded += size;
        if (error && !tensor.error) tensor.error = error;
        if (tensor.n_loaded == n || tensor.error) tensor.loaded.notify_all();
    }
    tensor.loaded.wait(lock, [&] { return tensor.n_loaded == n || tensor.error; });
    if (tensor.error) std::rethrow_exception(tensor.error);
}

std::shared_ptr<const std::byte> WholeTensors::get(const Key& key, i64 n, i64 part_bytes,
                                                   const Fill& fill) {
    const std::shared_ptr<Tensor> tensor = find(key, n);
    load_parts(*tensor, n, part_bytes, fill);
    return {tensor->bytes, tensor->bytes.get()};
}

}  // namespace lm::convert
