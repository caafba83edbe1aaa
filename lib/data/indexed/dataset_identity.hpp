// SPDX-License-Identifier: Apache-2.0
// Detects with a few reads that a dataset was replaced. An identity has the file sizes, a digest of
// a few pages of both files, and the digest in the metadata file. A resumed run compares
// identities; verify_dataset() checks everything.
#pragma once

#include <string>

#include "base/types.hpp"

namespace lm::data {

struct DatasetIdentity {
    i64 bin_bytes = 0;
    i64 idx_bytes = 0;
    std::string samples;  // digest of pages spread over both files, the first and the last included
    std::string digest;   // digest of the .bin in the metadata file; empty: no metadata file
};

// Reads PREFIX.bin, .idx and, if it exists, .json. Throws Error(failure) when a read fails.
DatasetIdentity identity_of(const std::string& prefix);

// Returns whether both identities are equal. Ignores `digest` when one of them has none.
bool same_dataset(const DatasetIdentity& a, const DatasetIdentity& b);

}  // namespace lm::data
