// SPDX-License-Identifier: Apache-2.0
// What a user should know before outputs are written: said by every verb that writes, never acted
// on.
#pragma once

#include <string>

namespace lm::preprocess {

// What a run that was killed left beside the dataset `prefix`.
void note_leftovers(const std::string& prefix);
// Files of the dataset `prefix` that are links: replacing them leaves what they point to.
void note_links(const std::string& prefix);

}  // namespace lm::preprocess
