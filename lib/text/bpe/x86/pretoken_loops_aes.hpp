// SPDX-License-Identifier: Apache-2.0
// The loops of pretoken_loops.hpp with a key in one register, and two rounds of AES as its hash.
#pragma once

#include "text/bpe/pretoken_loops.hpp"

namespace lm::text {

bool has_aes_loops();
bool has_wide_aes();  // AVX-512 and VAES: four keys at a time
template <typename Id>
PretokenLoops<Id> aes_loops(bool wide = has_wide_aes());  // where has_aes_loops()

}  // namespace lm::text
