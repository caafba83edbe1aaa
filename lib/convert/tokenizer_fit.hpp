// SPDX-License-Identifier: Apache-2.0
// The ids of the tokenizer that a conversion copies with a model.
#pragma once

#include <string>

#include "base/types.hpp"
#include "text/tokenizer_json/tokenizer_ids.hpp"

namespace lm::convert {

// Returns the ids that the tokenizer files in `directory` state; none for files that cannot be
// read, because a conversion only copies them.
text::TokenizerIds tokenizer_ids(const std::string& directory);
// Throws Error(failure) when the tokenizer files in `directory` can give an id that a model of
// `vocab_size` rows does not have. Fewer ids than rows are no fault.
void check_tokenizer_fits(const std::string& directory, i64 vocab_size);
}  // namespace lm::convert
