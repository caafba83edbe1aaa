// SPDX-License-Identifier: Apache-2.0
// The CPU backend: memory in huge pages, one thread pool, and two tables of operations: plain
// reference loops (what the operation means) and the fast versions.
#pragma once

#include <memory>

#include "device/device.hpp"

namespace lm::cpu {

enum class Kernels { fast, reference };

// `n_threads` 0: all cores this process may use.
std::unique_ptr<device::Device> make_device(int n_threads, Kernels kernels = Kernels::fast);

}  // namespace lm::cpu
