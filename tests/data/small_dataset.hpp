// SPDX-License-Identifier: Apache-2.0
// Small indexed datasets for tests.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "data/sampling/sample_source.hpp"
#include "support/temp_dir.hpp"

namespace lm::test {

// Writes PREFIX.bin and PREFIX.idx (uint16), one sequence per document.
void write_dataset(const std::string& prefix, const std::vector<std::vector<u16>>& documents);

// Writes documents of these lengths whose tokens are 0, 1, 2... (mod 60000) over the whole stream.
void write_counting(const std::string& prefix, const std::vector<i64>& lengths);

data::TokenRange whole(const std::string& prefix, i64 vocab_size);

std::vector<i32> sample(const data::SampleSource& source, i64 number);

}  // namespace lm::test
