// SPDX-License-Identifier: Apache-2.0
// The device that --device names. CUDA lives in a plugin, liblm_cuda.so beside this library, that
// is opened only when it is asked for, or looked for by "auto".
#pragma once

#include <memory>
#include <string>

#include "cuda/plugin.hpp"
#include "device/device.hpp"

namespace lm::train {

// The plugin. Throws Error(failure) when there is none, when a library that it needs is missing, or
// when it belongs to another build. The environment's LM_PLUGIN_DIR names another directory to take
// it from.
const cuda::Plugin& cuda_plugin();

// True: a plugin is there and sees a GPU. False: `why` says what is missing.
bool cuda_is_usable(std::string& why);

}  // namespace lm::train
