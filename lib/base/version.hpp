// SPDX-License-Identifier: Apache-2.0
// The toolkit's version, and where its data files (tokenizer tables) lie.
#pragma once

#include <string>
#include <string_view>

namespace lm {

std::string_view version();  // "0.1.0"

// The path of an installed data file such as "tokenizers/gpt2/vocab.json": looked for under
// $LM_SHARE_DIR, then beside the running program's prefix (../share/lm-utils), the install prefix,
// and the source tree of a build. Throws Error(failure) listing what was tried.
std::string share_file(std::string_view relative);

}  // namespace lm
