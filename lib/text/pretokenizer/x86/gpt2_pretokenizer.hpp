// SPDX-License-Identifier: Apache-2.0
// GPT-2's pre-tokenizer on blocks of 64 bytes. Classifies all bytes (char_masks.hpp) and computes
// the starts of all pre-tokens by bit operations. For valid UTF-8 it cuts exactly
// where gpt2_pretoken_end() cuts.
#pragma once

#include <memory>

#include "text/pretokenizer/rules/scalar_pretokenizer.hpp"

namespace lm::text {

bool has_avx2_pretokenizers();  // true with AVX2 and BMI2, if may_use() allows them
std::unique_ptr<Pretokenizer> make_avx2_gpt2_pretokenizer();

bool has_avx512_pretokenizers();  // true if there is also AVX-512 with VBMI2
std::unique_ptr<Pretokenizer> make_avx512_gpt2_pretokenizer();

}  // namespace lm::text
