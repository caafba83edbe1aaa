// SPDX-License-Identifier: Apache-2.0
// Indexed datasets of a few documents, written for a test and removed after it.
#pragma once

#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "data/sampling/sample_source.hpp"

namespace lm::test {

class TemporaryDirectory {
  public:
    TemporaryDirectory();
    ~TemporaryDirectory();
    TemporaryDirectory(const TemporaryDirectory&) = delete;
    TemporaryDirectory& operator=(const TemporaryDirectory&) = delete;
    std::string operator/(const std::string& name) const { return (path_ / name).string(); }

  private:
    std::filesystem::path path_;
};

// Writes PREFIX.bin and PREFIX.idx (uint16), one sequence per document.
void write_dataset(const std::string& prefix, const std::vector<std::vector<u16>>& documents);

// Documents of these lengths whose tokens count 0, 1, 2... (mod 60000) through the whole stream.
void write_counting(const std::string& prefix, const std::vector<i64>& lengths);

data::TokenRange whole(const std::string& prefix, i64 vocab_size);

std::vector<i32> sample(const data::SampleSource& source, i64 number);

}  // namespace lm::test
