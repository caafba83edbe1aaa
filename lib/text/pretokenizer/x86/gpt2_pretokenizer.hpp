// SPDX-License-Identifier: Apache-2.0
// GPT-2's pre-tokenizer, 64 bytes at a time: one bit per byte and class, and the starts of all
// pre-tokens from a few shifts of those bits. Same pre-tokens as gpt2_pretoken_end for valid UTF-8.
#pragma once

#include <memory>

#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

bool has_avx2_pretokenizers();  // this machine has AVX2, and may use it
std::unique_ptr<Pretokenizer> make_avx2_gpt2_pretokenizer();

bool has_avx512_pretokenizers();  // AVX-512 with VBMI2
std::unique_ptr<Pretokenizer> make_avx512_gpt2_pretokenizer();

}  // namespace lm::text
