// SPDX-License-Identifier: Apache-2.0
// The version of the toolkit and the place of its installed data files (tokenizer tables).
#pragma once

#include <string>
#include <string_view>

namespace lm {

// Returns "0.1.0" for a release, "0.1.0+6455890abc" for a checkout. cmake/version.cmake writes the
// definition.
std::string_view version();

// Returns the path of an installed data file such as "tokenizers/gpt2/vocab.json". Searches
// $LM_SHARE_DIR, then ../share/lm-utils relative to the directory of the running program (a build
// tree has this directory, too), then the install prefix. Throws Error(failure) listing these
// places.
std::string share_file(std::string_view relative);

}  // namespace lm
