// SPDX-License-Identifier: Apache-2.0
// Measures the GPU time of operations in a stream by events before and after them. The CPU does not
// wait for the events.
#pragma once

#include <cuda_runtime.h>

#include <vector>

namespace lm::cuda {

class OpTimer {
  public:
    void close() noexcept;

    cudaError_t begin(cudaStream_t stream);
    // Ends the measurement that begin() started. collect() later adds the measured time to
    // `seconds`.
    cudaError_t end(cudaStream_t stream, double& seconds);
    // Adds the time of each pending measurement to the `seconds` of its end(). Call it after the
    // CPU has waited for the stream.
    cudaError_t collect();

  private:
    struct Span {
        cudaEvent_t begin = nullptr;
        cudaEvent_t end = nullptr;
        double* seconds = nullptr;
    };
    std::vector<Span> spans_;  // the first n_open_ are pending; the others can be reused
    size_t n_open_ = 0;
};

}  // namespace lm::cuda
