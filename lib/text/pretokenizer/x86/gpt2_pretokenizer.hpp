// SPDX-License-Identifier: Apache-2.0
// GPT-2's pretokenizer, 64 bytes at a time: one bit per byte and class, and the starts of all
// pieces from a few shifts of those bits. Same pieces as gpt2_piece_end for valid UTF-8.
#pragma once

#include <memory>

#include "text/pretokenizer/pretokenizer.hpp"

namespace lm::text {

bool has_vector_splitter();  // this machine has AVX2, and may use it
std::unique_ptr<Splitter> make_vector_gpt2_splitter();

bool has_wide_splitter();  // AVX-512 with VBMI2
std::unique_ptr<Splitter> make_wide_gpt2_splitter();

}  // namespace lm::text
