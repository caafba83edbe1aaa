// SPDX-License-Identifier: Apache-2.0
// Writes safetensors files: the length of the header, a JSON header, the bytes of the tensors
// without gaps. Writes the same bytes as the reference implementation (tensors ordered by
// alignment, then name; header padded to a multiple of 8), without keeping the tensors in memory.
// Format: https://github.com/huggingface/safetensors
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "ckpt/format/safetensors_header.hpp"
#include "io/atomic.hpp"
#include "io/block_file.hpp"

namespace lm::ckpt {

// Returns the length and the JSON header of a file with these entries, padded with spaces to a
// multiple of `alignment`.
std::string safetensors_header(const std::vector<SafetensorsEntry>& entries,
                               const Metadata& metadata, i64 alignment);

// Writes a file. Entries are declared first. Their data is then appended in the order of entries(),
// in parts of any size.
class SafetensorsWriter {
  public:
    // Sorts `entries`, computes their begin and end, and writes the header. Throws Error(usage)
    // when `path` exists and must not be overwritten.
    static SafetensorsWriter create(const std::string& path, std::vector<SafetensorsEntry> entries,
                                    const Metadata& metadata,
                                    io::Overwrite overwrite = io::Overwrite::no);
    const std::vector<SafetensorsEntry>& entries() const { return entries_; }
    void append(std::span<const std::byte> bytes);  // continues in the next entry when one is full
    // Makes the file durable under its temporary name; all data must have been appended.
    void sync();
    // Calls sync() if it was not called, and gives the file its final name.
    void commit();
    const std::string& header_digest() const { return header_digest_; }
    const std::string& checksum(size_t entry) const {
        return checksums_[entry];
    }  // valid when the entry is full
    i64 size() const { return stream_.size(); }

  private:
    SafetensorsWriter(io::AtomicFile file, std::vector<SafetensorsEntry> entries);
    void write_header(const Metadata& metadata);
    void finish_full();

    io::AtomicFile file_;     // has a temporary name until commit()
    io::BlockStream stream_;  // writes the content of file_
    std::vector<SafetensorsEntry> entries_;
    std::vector<std::string> checksums_;
    std::string header_digest_;
    Digester digester_;
    size_t current_ = 0;
    i64 done_ = 0;  // bytes appended to the current entry
};

}  // namespace lm::ckpt
