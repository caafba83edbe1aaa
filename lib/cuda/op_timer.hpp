// SPDX-License-Identifier: Apache-2.0
// How long the GPU took for pieces of a stream's work, by events around them: the host does not
// wait.
#pragma once

#include <cuda_runtime.h>

#include <vector>

namespace lm::cuda {

class OpTimer {
  public:
    void close() noexcept;

    cudaError_t begin(cudaStream_t stream);
    // `seconds` is added to by collect().
    cudaError_t end(cudaStream_t stream, double& seconds);
    // The host has waited for the stream.
    cudaError_t collect();

  private:
    struct Span {
        cudaEvent_t begin = nullptr;
        cudaEvent_t end = nullptr;
        double* seconds = nullptr;
    };
    std::vector<Span> spans_;  // the first n_open_ are under way; the rest is for use again
    size_t n_open_ = 0;
};

}  // namespace lm::cuda
