// SPDX-License-Identifier: Apache-2.0
#include "stream.hpp"

#include <fmt/format.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
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

// The numbers of a stream's pieces of work count from 1.
struct CUstream_st {
    std::recursive_mutex mutex;
    std::deque<Work> queue;
    int64_t n_enqueued = 0;
    int64_t n_done = 0;

    void run_until(int64_t number) {
        const std::lock_guard lock(mutex);
        while (n_done < number && !queue.empty()) {
            const Work work = std::move(queue.front());
            queue.pop_front();
            ++n_done;
            if (lost != cudaSuccess) continue;
            const cudaError_t status = work();
            if (status != cudaSuccess) lost = status;
        }
    }
    void add(Work work) {
        const std::lock_guard lock(mutex);
        queue.push_back(std::move(work));
        ++n_enqueued;
        if (!delays()) run_until(n_enqueued);
    }
};

// What was recorded last. Shared with the work that waits for it: an event may be recorded again,
// or destroyed, meanwhile.
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

CUstream_st* stream_of(cudaStream_t stream) {
    static CUstream_st legacy;
    return stream != nullptr ? stream : &legacy;
}

void run_all() {
    std::vector<CUstream_st*> all;
    {
        const std::lock_guard lock(streams_mutex);
        all = streams;
    }
    all.push_back(stream_of(nullptr));
    for (CUstream_st* const stream : all) stream->run_until(stream->n_enqueued);
}

cudaError_t copy_now(void* target, const void* source, size_t bytes) {
    const emulator::Window window;
    std::memmove(target, source, bytes);
    return cudaSuccess;
}

// Which sides are device memory must be what `kind` says.
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
    if (stream == nullptr) run_all();  // the legacy stream waits for all others, and they for it
    target->add([work = std::move(work)] {
        const Window window;
        return work();
    });
    if (stream == nullptr) run_all();
    return cudaSuccess;
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

// Not deleted: events may still name it.
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
    CUstream_st* const target = stream_of(stream);
    const std::lock_guard lock(target->mutex);
    event->point = std::make_shared<CUevent_st::Point>();
    event->point->stream = target;
    event->point->number = target->n_enqueued + 1;
    target->add([point = event->point] {
        point->time = Clock::now();
        return cudaSuccess;
    });
    return noted(cudaSuccess);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
    stream_of(stream)->add([point = event->point] {
        if (point) point->stream->run_until(point->number);
        return cudaSuccess;
    });
    return noted(cudaSuccess);
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
    if (const auto point = event->point) point->stream->run_until(point->number);
    return noted(cudaSuccess);
}

// Asking again and again must come to an end: each question lets one more piece of work run.
cudaError_t cudaEventQuery(cudaEvent_t event) {
    if (lost != cudaSuccess) return noted(lost);
    const auto point = event->point;
    if (!point || point->stream->n_done >= point->number) return cudaSuccess;
    point->stream->run_until(point->stream->n_done + 1);
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

// From pageable memory the bytes are taken at once, to it the call waits, as the CUDA Runtime API
// ("API synchronization behavior") says.
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
        std::memset(target, value, bytes);
        return cudaSuccess;
    });
}
