// SPDX-License-Identifier: Apache-2.0
#include "cuda/device/op_timer.hpp"

namespace lm::cuda {

void OpTimer::close() noexcept {
    for (const Span& span : spans_) {
        cudaEventDestroy(span.begin);
        if (span.end != nullptr) cudaEventDestroy(span.end);
    }
    spans_.clear();
    n_open_ = 0;
}

cudaError_t OpTimer::begin(cudaStream_t stream) {
    if (n_open_ == spans_.size()) {
        Span span;
        cudaError_t status = cudaEventCreate(&span.begin);
        if (status != cudaSuccess) return status;
        spans_.push_back(span);
        status = cudaEventCreate(&spans_.back().end);
        if (status != cudaSuccess) return status;
    }
    return cudaEventRecord(spans_[n_open_].begin, stream);
}

cudaError_t OpTimer::end(cudaStream_t stream, double& seconds) {
    Span& span = spans_[n_open_++];
    span.seconds = &seconds;
    return cudaEventRecord(span.end, stream);
}

cudaError_t OpTimer::collect() {
    for (size_t i = 0; i < n_open_; ++i) {
        const Span& span = spans_[i];
        float milliseconds = 0;
        const cudaError_t status = cudaEventElapsedTime(&milliseconds, span.begin, span.end);
        if (status != cudaSuccess) return status;
        *span.seconds += 1e-3 * static_cast<double>(milliseconds);
    }
    n_open_ = 0;
    return cudaSuccess;
}

}  // namespace lm::cuda
