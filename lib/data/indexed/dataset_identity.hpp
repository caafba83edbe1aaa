// SPDX-License-Identifier: Apache-2.0
// Whether a dataset is the one that it was, told by a few reads whatever its size: sizes, samples
// of both files, and what the side file says. A run that goes on compares; verify_dataset() is
// thorough.
#pragma once

#include <string>

#include "base/types.hpp"

namespace lm::data {

struct DatasetIdentity {
    i64 bin_bytes = 0;
    i64 idx_bytes = 0;
    std::string samples;  // digest of pages spread over both files, the first and the last included
    std::string digest;   // of the .bin, as the side file gives it; empty without one
};

// Of PREFIX.bin, .idx and .json. Throws Error(failure) when one cannot be read.
DatasetIdentity identity_of(const std::string& prefix);

// Digests that one of the two lacks are not compared.
bool same_dataset(const DatasetIdentity& a, const DatasetIdentity& b);

}  // namespace lm::data
