// SPDX-License-Identifier: Apache-2.0
// The environment variables that the NVIDIA driver and NCCL read once, at their first call.
#pragma once

namespace lm::train {

// Sets the variables below. Call it before the process starts a thread: setenv() races with
// getenv() in other threads.
//
// CUDA_DEVICE_MAX_CONNECTIONS=32, the maximum: streams that share one of the driver's work queues
// block each other. A receive that waits for its message must not block the work that produces the
// message (deadlock). Job scripts for Megatron-LM set 1; this function overwrites it.
//
// CUDA_MODULE_LOADING=EAGER, if there are several ranks and the variable is not set. Without EAGER
// the driver loads a kernel at the first launch of the kernel, and then waits for the whole device,
// which causes the same deadlock. Loading all kernels costs start-up time and memory.
//
// NCCL_NVLS_ENABLE=0, if `deterministic` is true and neither this variable nor NCCL_ALGO is set.
// NVLS (NVLink SHARP) adds numbers inside of switches, in an order that NCCL does not specify.
void set_gpu_environment(bool deterministic);

}  // namespace lm::train
