// SPDX-License-Identifier: Apache-2.0
#include "stream.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "memory.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using Work = std::function<cudaError_t()>;

std::atomic<cudaError_t> lost = cudaSuccess;
thread_local cudaError_t last_error = cudaSuccess;

bool delays() {
    static const bool on = std::getenv("EMULATED_CUDA_DELAY") != nullptr;
    return on;
}

}  // namespace

// Items of a stream are numbered from 1. An item that waits for something else (an event of another
// stream, the other ranks of a collective) has `ready`. While `ready` returns false, the stream
// does not advance, unless a thread waits for it. Threads that enqueue never wait for a thread that
// runs items.
struct CUstream_st {
    struct Item {
        Work run;
        std::function<bool()> ready;  // starts the work; true: run() will not block. Optional
    };
    int device = 0;
    std::mutex mutex;
    std::condition_variable changed;
    std::thread::id runner;  // the thread that runs the first item, if any
    std::deque<Item> queue;
    std::atomic<int64_t> n_enqueued = 0;
    std::atomic<int64_t> n_done = 0;

    // Runs items up to `number`, and blocks in items that are not ready. When another thread runs
    // the queue, waits until that thread has reached `number` or stops.
    void run_until(int64_t number) {
        std::unique_lock lock(mutex);
        while (n_done < number && !queue.empty()) {
            if (is_free()) {
                run_head(lock, true);
            } else {
                changed.wait(lock);
            }
        }
    }
    // Runs items up to `number` that do not block, at most `most`.
    void try_until(int64_t number, int64_t most) {
        std::unique_lock lock(mutex);
        for (; n_done < number && most > 0 && !queue.empty() && is_free(); --most) {
            if (!run_head(lock, false)) return;
        }
    }
    int64_t add(Work work, std::function<bool()> ready = {}) {
        int64_t number = 0;
        {
            const std::lock_guard lock(mutex);
            queue.push_back({std::move(work), std::move(ready)});
            number = ++n_enqueued;
        }
        if (!delays()) try_until(number, number);
        return number;
    }

  private:
    bool is_free() const { return runner == std::thread::id(); }

    bool run_head(std::unique_lock<std::mutex>& lock, bool wait) {
        const Item& head = queue.front();  // stays valid: only the runner removes it
        runner = std::this_thread::get_id();
        lock.unlock();
        const bool runs = lost == cudaSuccess;
        const bool passed = !runs || wait || !head.ready || head.ready();
        if (runs && passed) {
            const cudaError_t status = head.run();
            if (status != cudaSuccess) lost = status;
        }
        lock.lock();
        runner = {};
        if (passed) {
            queue.pop_front();
            ++n_done;
        }
        changed.notify_all();
        return passed;
    }
};

// The last recording of an event. Shared with the work that waits for it, because the event may be
// recorded again or destroyed meanwhile.
struct CUevent_st {
    struct Point {
        CUstream_st* stream = nullptr;
        int64_t number = 0;
        Clock::time_point time;
    };
    std::shared_ptr<Point> point;
    bool timing = true;
};

namespace {

std::mutex streams_mutex;
std::vector<CUstream_st*> streams;

int current_device() {
    int device = 0;
    cudaGetDevice(&device);
    return device;
}

CUstream_st* stream_of(cudaStream_t stream) {
    static std::map<int, CUstream_st> legacy;
    if (stream != nullptr) return stream;
    const std::lock_guard lock(streams_mutex);
    return &legacy[current_device()];
}

// Runs all streams of the calling thread's device.
void run_all() {
    std::vector<CUstream_st*> all;
    {
        const std::lock_guard lock(streams_mutex);
        const auto here = [device = current_device()](const CUstream_st* stream) {
            return stream->device == device;
        };
        std::ranges::copy_if(streams, std::back_inserter(all), here);
    }
    all.push_back(stream_of(nullptr));
    for (CUstream_st* const stream : all) stream->run_until(stream->n_enqueued);
}

cudaError_t copy_now(void* target, const void* source, size_t bytes) {
    const emulator::Window window;
    std::memmove(target, source, bytes);
    return cudaSuccess;
}

// Returns true when source and target are in the memory that `kind` states.
bool kind_holds(const void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
    const bool to_device = emulator::is_device(target, bytes);
    const bool from_device = emulator::is_device(source, bytes);
    switch (kind) {
        case cudaMemcpyHostToHost:
            return !to_device && !from_device;
        case cudaMemcpyHostToDevice:
            return to_device && !from_device;
        case cudaMemcpyDeviceToHost:
            return !to_device && from_device;
        case cudaMemcpyDeviceToDevice:
            return to_device && from_device;
        case cudaMemcpyDefault:
            return true;
    }
    return false;
}

}  // namespace

namespace emulator {

cudaError_t enqueue(cudaStream_t stream, Work work) {
    if (lost != cudaSuccess) return noted(lost);
    CUstream_st* const target = stream_of(stream);
    if (stream == nullptr) run_all();  // the legacy stream synchronizes with all others
    target->add([work = std::move(work)] {
        const Window window;
        return work();
    });
    if (stream == nullptr) run_all();
    return cudaSuccess;
}

int64_t enqueue_exchange(cudaStream_t stream, Work run, std::function<bool()> ready) {
    return stream_of(stream)->add(std::move(run), std::move(ready));
}

void run_until(cudaStream_t stream, int64_t number) {
    stream_of(stream)->run_until(number);
}

cudaError_t noted(cudaError_t status) {
    if (lost != cudaSuccess) status = lost;
    if (status != cudaSuccess) last_error = status;
    return status;
}

cudaError_t device_lost(cudaError_t status, const char* what) {
    fmt::print(stderr, "emulated CUDA: {}\n", what);
    return status;
}

}  // namespace emulator

using emulator::noted;

cudaError_t cudaGetLastError() {
    const cudaError_t error = lost != cudaSuccess ? lost.load() : last_error;
    last_error = cudaSuccess;
    return error;
}

cudaError_t cudaPeekAtLastError() {
    return lost != cudaSuccess ? lost.load() : last_error;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
    if (flags != cudaStreamNonBlocking) {
        fmt::print(stderr, "emulated CUDA: streams must not wait for the legacy stream\n");
        return noted(cudaErrorInvalidValue);
    }
    *stream = new CUstream_st;
    (*stream)->device = current_device();
    const std::lock_guard lock(streams_mutex);
    streams.push_back(*stream);
    return noted(cudaSuccess);
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int) {
    return cudaStreamCreateWithFlags(stream, flags);
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
    return cudaStreamCreateWithFlags(stream, cudaStreamDefault);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
    *least = 0;
    *greatest = -5;
    return noted(cudaSuccess);
}

// Does not delete the stream, because events may still refer to it.
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
    if (stream == nullptr) return noted(cudaErrorInvalidResourceHandle);
    stream->run_until(stream->n_enqueued);
    const std::lock_guard lock(streams_mutex);
    std::erase(streams, stream);
    return noted(cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
    CUstream_st* const target = stream_of(stream);
    target->run_until(target->n_enqueued);
    return noted(cudaSuccess);
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
    if (lost != cudaSuccess) return noted(lost);
    const CUstream_st* const target = stream_of(stream);
    return target->n_done == target->n_enqueued ? cudaSuccess : cudaErrorNotReady;
}

cudaError_t cudaDeviceSynchronize() {
    run_all();
    return noted(cudaSuccess);
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
    *event = new CUevent_st;
    (*event)->timing = (flags & cudaEventDisableTiming) == 0;
    return noted(cudaSuccess);
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
    return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
    delete event;
    return noted(cudaSuccess);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
    const auto point = std::make_shared<CUevent_st::Point>();
    point->stream = stream_of(stream);
    point->number = point->stream->add([point] {
        point->time = Clock::now();
        return cudaSuccess;
    });
    event->point = point;
    return noted(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    const auto point = event->point;
    if (!point) return noted(cudaSuccess);  // never recorded: nothing to wait for
    stream_of(stream)->add(
        [point] {
            point->stream->run_until(point->number);
            return cudaSuccess;
        },
        [point] {
            point->stream->try_until(point->number, point->number);
            return point->stream->n_done >= point->number;
        });
    return noted(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (const auto point = event->point) point->stream->run_until(point->number);
    return noted(cudaSuccess);
}

// Each query runs one more item, so that polling an event ends.
cudaError_t cudaEventQuery(cudaEvent_t event) {
    if (lost != cudaSuccess) return noted(lost);
    const auto point = event->point;
    if (!point || point->stream->n_done >= point->number) return cudaSuccess;
    point->stream->try_until(point->number, 1);
    return cudaErrorNotReady;
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    if (!begin->timing || !end->timing || !begin->point || !end->point) {
        return noted(cudaErrorInvalidResourceHandle);
    }
    for (const cudaEvent_t event : {begin, end}) {
        if (event->point->stream->n_done < event->point->number) return cudaErrorNotReady;
    }
    const std::chrono::duration<float, std::milli> time = end->point->time - begin->point->time;
    *milliseconds = time.count();
    return noted(cudaSuccess);
}

// From pageable memory, the bytes are copied before the call returns; to pageable memory, the call
// blocks until the copy is done (CUDA Runtime API, "API synchronization behavior").
cudaError_t cudaMemcpyAsync(void* target, const void* source, size_t bytes, cudaMemcpyKind kind,
                            cudaStream_t stream) {
    if (bytes == 0) return noted(cudaSuccess);
    if (!kind_holds(target, source, bytes, kind)) return noted(cudaErrorInvalidValue);
    if (!emulator::is_device(source, bytes) && !emulator::is_pinned(source)) {
        const auto* const begin = static_cast<const std::byte*>(source);
        return emulator::enqueue(stream, [target, taken = std::vector(begin, begin + bytes)] {
            return copy_now(target, taken.data(), taken.size());
        });
    }
    const cudaError_t status =
        emulator::enqueue(stream, [=] { return copy_now(target, source, bytes); });
    if (status != cudaSuccess) return status;
    if (emulator::is_device(target, bytes) || emulator::is_pinned(target)) return cudaSuccess;
    return cudaStreamSynchronize(stream);
}

cudaError_t cudaMemcpy(void* target, const void* source, size_t bytes, cudaMemcpyKind kind) {
    const cudaError_t status = cudaMemcpyAsync(target, source, bytes, kind, nullptr);
    return status != cudaSuccess ? status : cudaStreamSynchronize(nullptr);
}

cudaError_t cudaMemcpy2DAsync(void* target, size_t target_pitch, const void* source,
                              size_t source_pitch, size_t width, size_t height, cudaMemcpyKind kind,
                              cudaStream_t stream) {
    for (size_t row = 0; row < height; ++row) {
        const cudaError_t status = cudaMemcpyAsync(
            static_cast<std::byte*>(target) + row * target_pitch,
            static_cast<const std::byte*>(source) + row * source_pitch, width, kind, stream);
        if (status != cudaSuccess) return status;
    }
    return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* target, int value, size_t bytes, cudaStream_t stream) {
    if (bytes == 0) return noted(cudaSuccess);
    if (!emulator::is_device(target, bytes)) return noted(cudaErrorInvalidValue);
    return emulator::enqueue(stream, [=] {
        emulator::fill_device(target, value, bytes);
        return cudaSuccess;
    });
}
