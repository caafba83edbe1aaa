// SPDX-License-Identifier: Apache-2.0
// Which of the processor's vector instructions may be used. The environment variable LM_PROCESSOR,
// `avx2` or `portable`, allows less than there is: the code for other processors is tested with it,
// and results are compared when one is suspected. Any other value is an error.
#pragma once

namespace lm {

enum class Vectors { none, avx2, avx512 };

// Asked together with whether the processor has them.
bool may_use(Vectors vectors);

}  // namespace lm
