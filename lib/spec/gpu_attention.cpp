// SPDX-License-Identifier: Apache-2.0
#include "spec/gpu_attention.hpp"

#include <cstdlib>
#include <string_view>

#include "base/error.hpp"

namespace lm::spec {

GpuAttention gpu_attention() {
    constexpr const char* variable = "LM_ATTENTION";
    const char* const value = std::getenv(variable);
    const std::string_view word = value == nullptr ? "flash" : value;
    if (word == "flash") return GpuAttention::flash;
    if (word == "cudnn") return GpuAttention::cudnn;
    if (word == "cudnn-deterministic") return GpuAttention::cudnn_deterministic;
    usage_error(variable, "'{}' is neither flash nor cudnn nor cudnn-deterministic", word);
}

}  // namespace lm::spec
