// SPDX-License-Identifier: Apache-2.0
// The labels of the fields in a log line "iteration N/ TOTAL | LABEL: VALUE | ...", for the
// functions that print the line (record.cpp) and those that parse it (log_parser.cpp).
#pragma once

#include <string_view>

namespace lm::metrics::labels {

inline constexpr std::string_view consumed_samples = "consumed samples";
inline constexpr std::string_view consumed_tokens = "consumed tokens";
inline constexpr std::string_view elapsed_s = "elapsed time per iteration (s)";
inline constexpr std::string_view elapsed_ms = "elapsed time per iteration (ms)";
inline constexpr std::string_view global_batch = "global batch size";
inline constexpr std::string_view grad_norm = "grad norm";
inline constexpr std::string_view learning_rate = "learning rate";
inline constexpr std::string_view loss = "lm loss";
inline constexpr std::string_view nan = "number of nan iterations";
inline constexpr std::string_view samples_per_s = "samples per second";
inline constexpr std::string_view skipped = "number of skipped iterations";
inline constexpr std::string_view tflops = "TFLOPs";  // Megatron-DeepSpeed
inline constexpr std::string_view throughput = "throughput per GPU (TFLOP/s/GPU)";  // Megatron-LM

}  // namespace lm::metrics::labels
