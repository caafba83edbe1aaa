// SPDX-License-Identifier: Apache-2.0
// The environment variables that the NVIDIA driver and NCCL read once, at their first call.
#pragma once

namespace lm::train {

// Sets the variables below. Call it before the process starts a thread, because setenv() races with
// getenv() in other threads.
//
// CUDA_DEVICE_MAX_CONNECTIONS=32, the maximum, because streams that share one of the driver's work
// queues block each other. If a receive that waits for its message blocks the work that produces
// the message, the job deadlocks. Job scripts for Megatron-LM set this variable to 1; this function
// overwrites that value.
//
// CUDA_MODULE_LOADING=EAGER, if there may be several ranks and the variable is not set. Without
// EAGER the driver loads a kernel when the kernel is first launched, and waits for the whole device
// before it loads the kernel. This wait can also cause a deadlock. Loading all kernels costs
// start-up time and memory.
//
// NCCL_NVLS_ENABLE=0, if `deterministic` is true and neither this variable nor NCCL_ALGO is set.
// NVLS (NVLink SHARP) adds numbers inside NVLink switches, in an order that NCCL does not specify.
void set_gpu_environment(bool deterministic);

}  // namespace lm::train
