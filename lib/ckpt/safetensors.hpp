// SPDX-License-Identifier: Apache-2.0
// safetensors files: a length, a JSON header, the tensors' bytes without holes. The reader refuses
// whatever the format does not allow; the writer writes the bytes that the reference implementation
// would (order by alignment, then name; header padded to 8) without holding the tensors.
// Format: https://github.com/huggingface/safetensors
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.hpp"
#include "ckpt/safetensors_header.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"

namespace lm::ckpt {

class SafetensorsReader {
  public:
    explicit SafetensorsReader(const std::string& path);
    const std::string& path() const { return file_.path(); }
    const Metadata& metadata() const { return header_.metadata; }
    const std::vector<SafetensorsEntry>& entries() const { return header_.entries; }
    const SafetensorsEntry* find(std::string_view name) const;
    std::span<const std::byte> bytes(const SafetensorsEntry& entry) const;
    std::span<const std::byte> header_bytes() const;
    i64 size() const { return static_cast<i64>(file_.bytes().size()); }

  private:
    io::MappedFile file_;
    SafetensorsHeader header_;
    std::map<std::string_view, size_t> by_name_;
};

// Entries are declared first; their data is then appended in the order of entries(), in pieces of
// any size.
class SafetensorsWriter {
  public:
    // begin and end of `entries` are filled in here. Throws Error(usage) when `path` exists.
    SafetensorsWriter(const std::string& path, std::vector<SafetensorsEntry> entries,
                      const Metadata& metadata, io::Overwrite overwrite = io::Overwrite::no);
    const std::vector<SafetensorsEntry>& entries() const { return entries_; }
    void append(std::span<const std::byte> bytes);  // goes on in the next entry when one is full
    void sync();    // durable under its temporary name; all data must have been appended
    void commit();  // sync if not done, and under its own name
    const std::string& header_digest() const { return header_digest_; }
    const std::string& checksum(size_t entry) const { return checksums_[entry]; }  // once complete
    i64 size() const { return file_.size(); }

  private:
    void finish_full();

    io::AtomicFile file_;
    std::vector<SafetensorsEntry> entries_;
    std::vector<std::string> checksums_;
    std::string header_digest_;
    Digester digester_;
    size_t current_ = 0;
    i64 done_ = 0;  // bytes of the current entry
};

}  // namespace lm::ckpt
