// SPDX-License-Identifier: Apache-2.0
// Checks a whole indexed dataset: every entry of the .idx, every token, and the counts and
// checksums of the metadata file.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::data {

struct VerifyRules {
    // Every id must be below this size. nullopt: the size in the metadata file; without this file,
    // any non-negative id is valid.
    std::optional<i64> vocab_size;
    // The id that must end every document. nullopt: the id in the metadata file, if that file
    // states that every document ends with this id. Otherwise the ends of the documents are not
    // checked.
    std::optional<i64> eod_id;
    i64 max_faults = 20;  // stops after this number of faults
};

struct VerifyResult {
    std::vector<std::string> faults;  // "P.idx: problem"; empty: the dataset is valid
    i64 documents = 0, sequences = 0, tokens = 0;
    i64 largest_id = -1;
    bool had_metadata = false;
};

// Checks the dataset. Throws Error only when a file cannot be read. Calls `progress` with the
// number of checked bytes of the .bin.
VerifyResult verify_dataset(const std::string& prefix, const VerifyRules& rules,
                            const std::function<void(i64)>& progress = nullptr);

}  // namespace lm::data
