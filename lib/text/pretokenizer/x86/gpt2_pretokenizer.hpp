// SPDX-License-Identifier: Apache-2.0
// GPT-2's pre-tokenizer on blocks of 64 bytes: classifies all bytes (char_masks.hpp) and computes
// the starts of all pre-tokens by bit operations (gpt2_starts.hpp). For valid UTF-8 the pre-tokens
// equal those of gpt2_pretoken_end().
#pragma once

#include <memory>

#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

bool has_avx2_pretokenizers();  // AVX2 and BMI2, unless may_use() forbids them
std::unique_ptr<Pretokenizer> make_avx2_gpt2_pretokenizer();

bool has_avx512_pretokenizers();  // also AVX-512 with VBMI2
std::unique_ptr<Pretokenizer> make_avx512_gpt2_pretokenizer();

}  // namespace lm::text
