// SPDX-License-Identifier: Apache-2.0
// Detects with a few reads, whatever the size, that a dataset was replaced: by file sizes, a few
// pages of both files and the digest in the metadata file. A resumed training compares identities;
// verify_dataset() checks everything.
#pragma once

#include <string>

#include "base/types.hpp"

namespace lm::data {

struct DatasetIdentity {
    i64 bin_bytes = 0;
    i64 idx_bytes = 0;
    std::string samples;  // digest of pages spread over both files, with the first and last bytes
    std::string digest;   // digest of the .bin in the metadata file; empty without one
};

// Reads PREFIX.bin, .idx and .json. Throws Error(failure) when one cannot be read.
DatasetIdentity identity_of(const std::string& prefix);

// A digest that one of the two lacks is not compared.
bool same_dataset(const DatasetIdentity& a, const DatasetIdentity& b);

}  // namespace lm::data
