// SPDX-License-Identifier: Apache-2.0
// Notes that a verb prints before it writes a dataset.
#pragma once

#include <string>

namespace lm::preprocess {

// Prints a note for each temporary file that a killed run left next to the dataset `prefix`.
void note_leftovers(const std::string& prefix);
// Prints a note for each file of the dataset `prefix` that is a symbolic link. Writing the dataset
// replaces the link and does not change the file to which it points.
void note_links(const std::string& prefix);

}  // namespace lm::preprocess
