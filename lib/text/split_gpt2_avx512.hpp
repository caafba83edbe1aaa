// SPDX-License-Identifier: Apache-2.0
// GPT-2's pretokenizer, as split_gpt2_avx2.hpp, where there is AVX-512 with VBMI2.
#pragma once

#include <memory>

#include "text/splitter.hpp"

namespace lm::text {

bool has_wide_splitter();
std::unique_ptr<Splitter> make_wide_gpt2_splitter();

}  // namespace lm::text
