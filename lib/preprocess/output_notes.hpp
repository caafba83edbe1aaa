// SPDX-License-Identifier: Apache-2.0
// Notes that every verb which writes a dataset gives before it does so.
#pragma once

#include <string>

namespace lm::preprocess {

// Notes the temporary files that a killed run left next to the dataset `prefix`.
void note_leftovers(const std::string& prefix);
// Notes the files of the dataset `prefix` that are symbolic links: writing the dataset replaces the
// link and leaves the file that it points to.
void note_links(const std::string& prefix);

}  // namespace lm::preprocess
