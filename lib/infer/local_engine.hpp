// SPDX-License-Identifier: Apache-2.0
// Implements eval::Engine (eval/engine.hpp) on the CPU of this host.
#pragma once

#include "eval/engine.hpp"

namespace lm::infer {

// Returns an engine with the weights of `source`, which must outlive the engine.
std::unique_ptr<eval::Engine> make_engine(const ckpt::TensorSource& source,
                                          const eval::EngineOptions& options);

}  // namespace lm::infer
