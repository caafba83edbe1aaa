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
    std::optional<i64> vocab_size;  // default: that of the metadata file, else ids are not checked
    std::optional<i64> eod_id;      // every document must end with it
    i64 most_faults = 20;           // stops after this many
};

struct VerifyResult {
    std::vector<std::string> faults;  // "P.idx: problem"; empty: the dataset is valid
    i64 documents = 0, sequences = 0, tokens = 0;
    i64 largest_id = -1;
    bool had_metadata = false;
};

// Throws Error only when a file cannot be read. Calls `progress` with the bytes of the .bin that
// have been checked.
VerifyResult verify_dataset(const std::string& prefix, const VerifyRules& rules,
                            const std::function<void(i64)>& progress = nullptr);

}  // namespace lm::data
