// SPDX-License-Identifier: Apache-2.0
// The toolkit's version, and where its data files (tokenizer tables) lie.
#pragma once

#include <string>
#include <string_view>

namespace lm {

// "0.1.0" of a release, "0.1.0+6455890abc" of a checkout (cmake/version.cmake, which defines it).
std::string_view version();

// The path of an installed data file such as "tokenizers/gpt2/vocab.json": looked for under
// $LM_SHARE_DIR, then beside the running program's prefix (../share/lm-utils; a build has it too)
// and the install prefix. Throws Error(failure) listing what was tried.
std::string share_file(std::string_view relative);

}  // namespace lm
