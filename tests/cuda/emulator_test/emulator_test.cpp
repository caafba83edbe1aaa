// SPDX-License-Identifier: Apache-2.0
// The emulator detects planted faults of kernels, streams and host code.
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "block.hpp"
#include "cuda/kernels/block_reduce.cuh"
#include "cuda/kernels/kernel_launch.cuh"
#include "cuda/kernels/shared.cuh"
#include "memory.hpp"
#include "stream.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::cuda;

namespace {

template <typename Body>
std::string run(unsigned threads, size_t shared_bytes, const Body& body) {
    const emulator::Window window;
    return emulator::run_grid(dim3(2), dim3(threads), shared_bytes, body).problem;
}

// Returns the exit status of `body` in a child process, or 128 + the number of the signal that
// ended it.
template <typename Body>
int in_child(const Body& body) {
    const pid_t child = fork();
    if (child == 0) {
        if (!std::freopen("/dev/null", "w", stderr)) _exit(99);
        for (const int signal : {SIGSEGV, SIGABRT}) ::signal(signal, SIG_DFL);  // not Catch's
        body();
        _exit(0);
    }
    int status = 0;
    waitpid(child, &status, 0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

void scale_kernel(float* x, int n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < static_cast<unsigned>(n)) x[i] *= 2;
}

}  // namespace

TEST_CASE("barriers and warp functions that all threads reach", "[emulator]") {
    int sum = 0;
    CHECK(run(96, 0, [&sum] {
              const int total = block_reduce<96, Add>(static_cast<int>(threadIdx.x));
              if (threadIdx.x == 95) sum += total;
          }) == "");
    CHECK(sum == 2 * (95 * 96 / 2));
    unsigned bits = 0;
    CHECK(run(32, 0, [&bits] {
              const unsigned odd = __ballot_sync(all_lanes, threadIdx.x % 2);
              const int left = __shfl_up_sync(all_lanes, static_cast<int>(threadIdx.x), 1);
              if (threadIdx.x == 7 && left == 6) bits = odd;
          }) == "");
    CHECK(bits == 0xaaaaaaaaU);
}

TEST_CASE("threads that do not arrive are reported", "[emulator]") {
    CHECK_THAT(run(64, 0,
                   [] {
                       if (threadIdx.x != 3) __syncthreads();
                   }),
               ContainsSubstring("waits at __syncthreads()") &&
                   ContainsSubstring("1 have returned from the kernel"));
    CHECK_THAT(run(32, 0,
                   [] {
                       if (threadIdx.x < 16) __shfl_xor_sync(all_lanes, 1, 1);
                   }),
               ContainsSubstring("lanes of mask 0xffffffff that do not arrive"));
    CHECK_THAT(run(48, 0, [] { __syncwarp(); }),
               ContainsSubstring("a mask names a lane that does not exist"));
    CHECK_THAT(run(32, 0,
                   [] {
                       if (threadIdx.x < 16) __shfl_sync(0xffffU, 1, 20);
                   }),
               ContainsSubstring("takes from a lane that is not in its mask"));
    // Some threads wait at a barrier, the others in a warp function.
    CHECK_THAT(run(32, 0,
                   [] {
                       if (threadIdx.x == 0) {
                           __syncthreads();
                       } else {
                           __syncwarp();
                       }
                   }),
               ContainsSubstring("do not arrive"));
}

TEST_CASE("writes outside of dynamic shared memory and device memory are reported", "[emulator]") {
    CHECK(run(32, 128, [] { dynamic_shared<float>()[threadIdx.x] = 1; }) == "");
    CHECK_THAT(run(32, 124, [] { dynamic_shared<float>()[threadIdx.x] = 1; }),
               ContainsSubstring("outside of its 124 bytes"));
    auto* const x = static_cast<float*>(emulator::allocate_device(1000));
    CHECK_THAT(run(32, 0, [x] { x[threadIdx.x == 5 ? 100000 : 0] = 1; }),
               ContainsSubstring("accesses"));
    CHECK(emulator::free_device(x));
    CHECK(in_child([] {
              auto* const bytes = static_cast<char*>(emulator::allocate_device(100));
              {
                  const emulator::Window window;
                  bytes[100] = 1;
              }
              emulator::free_device(bytes);
          }) == 128 + SIGABRT);
}

TEST_CASE("host code that accesses device memory is killed", "[emulator]") {
    CHECK(in_child([] {
              const auto* const x = static_cast<volatile char*>(emulator::allocate_device(100));
              _exit(x[0]);
          }) == 128 + SIGSEGV);
}

// Without a barrier, each thread reads the element that the previous thread writes.
TEST_CASE("a missing barrier changes results in the reverse order of threads", "[emulator]") {
    const auto sum = [](bool reverse) {
        if (reverse) setenv("EMULATED_CUDA_REVERSE", "1", 1);
        int total = 0;
        run(64, 256, [&total] {
            int* const x = dynamic_shared<int>();
            x[threadIdx.x] = 1;
            total += threadIdx.x > 0 && x[threadIdx.x - 1] == 1 ? 1 : 0;
        });
        unsetenv("EMULATED_CUDA_REVERSE");
        return total;
    };
    CHECK(sum(false) != sum(true));
}

TEST_CASE("work without a synchronization is delayed", "[emulator]") {
    CHECK(in_child([] {
              setenv("EMULATED_CUDA_DELAY", "1", 1);
              cudaStream_t compute, other;
              cudaStreamCreateWithFlags(&compute, cudaStreamNonBlocking);
              cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking);
              cudaEvent_t event;
              cudaEventCreateWithFlags(&event, cudaEventDisableTiming);
              float* x = nullptr;
              float* y = nullptr;
              float* host = nullptr;
              cudaMalloc(&x, 64);
              cudaMalloc(&y, 64);
              cudaMallocHost(reinterpret_cast<void**>(&host), 64);
              const float one[16] = {1, 1};
              cudaMemcpyAsync(x, one, 64, cudaMemcpyHostToDevice, compute);
              launch(compute, scale_kernel, dim3(1), dim3(32), 0, x, 16);
              cudaMemcpyAsync(y, x, 64, cudaMemcpyDeviceToDevice, other);  // not ordered
              cudaStreamSynchronize(other);
              cudaEventRecord(event, compute);
              cudaStreamWaitEvent(other, event);
              cudaMemcpyAsync(host, x, 64, cudaMemcpyDeviceToHost, other);
              cudaStreamSynchronize(other);
              const bool ordered = host[0] == 2 && host[1] == 2;
              cudaMemcpyAsync(host, y, 64, cudaMemcpyDeviceToHost, other);
              cudaStreamSynchronize(other);
              _exit(ordered && host[0] != 2 ? 11 : 12);
          }) == 11);
}
