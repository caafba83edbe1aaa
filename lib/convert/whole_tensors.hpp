// SPDX-License-Identifier: Apache-2.0
// Keeps whole tensors in memory, for threads that read parts of them in another order than the
// order of the file.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <span>

#include "base/types.hpp"

namespace lm::convert {

// Keeps two tensors, because some threads may use the end of a tensor while others load the next
// tensor. A third tensor replaces the tensor that was loaded first. Thread-safe.
class WholeTensors {
  public:
    using Key = std::shared_ptr<const void>;
    // Loads the bytes [begin, begin + part.size()) of a tensor into `part`.
    using Fill = std::function<void(i64 begin, std::span<std::byte> part)>;
    // Returns the `n` bytes of the tensor `key`. Threads that request a tensor at the same time
    // load it together: each thread calls `fill` for parts that begin at multiples of `part_bytes`.
    // If a call of `fill` throws, all these threads throw the first exception.
    std::shared_ptr<const std::byte> get(const Key& key, i64 n, i64 part_bytes, const Fill& fill);

  private:
    struct Tensor {
        Key key;
        std::shared_ptr<std::byte[]> bytes;
        std::mutex mutex;  // guards the members after it
        std::condition_variable loaded;
        i64 next = 0;      // first byte that no thread has begun to load
        i64 n_loaded = 0;  // bytes
        std::exception_ptr error;
    };
    std::shared_ptr<Tensor> find(const Key& key, i64 n);
    static void load_parts(Tensor& tensor, i64 n, i64 part_bytes, const Fill& fill);

    std::mutex mutex_;  // guards tensors_
    std::deque<std::shared_ptr<Tensor>> tensors_;
};

}  // namespace lm::convert
