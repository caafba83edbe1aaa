// SPDX-License-Identifier: Apache-2.0
// The loops of pretoken_loops.hpp for AVX2 and for AVX-512, with two rounds of AES as the hash.
#pragma once

#include "text/bpe/merges/pretoken_loops.hpp"

namespace lm::text {

bool has_aes_loops();
bool has_wide_aes();  // true with AVX-512 and VAES, which hash four keys at a time
template <typename Id>
PretokenLoops<Id> aes_loops(bool wide = has_wide_aes());  // requires has_aes_loops()

}  // namespace lm::text
