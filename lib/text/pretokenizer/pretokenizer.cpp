// SPDX-License-Identifier: Apache-2.0
#include "text/pretokenizer/pretokenizer.hpp"

#include "text/pretokenizer/x86/gpt2_pretokenizer.hpp"
#include "text/pretokenizer/x86/masked_pretokenizer.hpp"

namespace lm::text {

std::unique_ptr<Pretokenizer> make_pretokenizer(PretokenizerRule rule) {
    if (has_avx2_pretokenizers()) {
        if (rule == PretokenizerRule::gpt2)
            return has_avx512_pretokenizers() ? make_avx512_gpt2_pretokenizer()
                                              : make_avx2_gpt2_pretokenizer();
        if (rule == PretokenizerRule::llama3 || rule == PretokenizerRule::qwen2 ||
            rule == PretokenizerRule::bloom)
            return make_masked_pretokenizer(rule);
    }
    return make_scalar_pretokenizer(rule);
}

}  // namespace lm::text
