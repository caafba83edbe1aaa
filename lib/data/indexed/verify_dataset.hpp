// SPDX-License-Identifier: Apache-2.0
// The full pass over an indexed dataset: every entry of the .idx, every token, the side file's
// counts and checksums.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::data {

struct VerifyRules {
    std::optional<i64> vocab_size;  // else the side file's, else none
    std::optional<i64> eod_id;      // every document must end with it
    i64 most_faults = 20;           // stop after so many
};

struct VerifyResult {
    std::vector<std::string> faults;  // "P.idx: what is wrong"; empty: all is right
    i64 documents = 0, sequences = 0, tokens = 0;
    i64 largest_id = -1;
    bool had_metadata = false;
};

// Throws Error only when a file cannot be read at all. `progress` is told the bytes done so far.
VerifyResult verify_dataset(const std::string& prefix, const VerifyRules& rules,
                            const std::function<void(i64)>& progress = nullptr);

}  // namespace lm::data
