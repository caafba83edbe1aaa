// SPDX-License-Identifier: Apache-2.0
// safetensors files: a length, a JSON header, the tensors' bytes without holes. The reader refuses
// whatever the format does not allow; the writer writes the bytes that the reference implementation
// would (order by alignment, then name; header padded to 8) without holding the tensors.
// Format: https://github.com/huggingface/safetensors
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.hpp"
#include "base/hash.hpp"
#include "io/file.hpp"

namespace lm::ckpt {

// In the order of the file: the reference implementation keeps none.
using Metadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsEntry {
    std::string name;
    std::string dtype;       // "F32", "BF16", ... as in the file
    std::vector<i64> shape;  // of any rank
    i64 begin = 0;           // bytes from the start of the data
    i64 end = 0;
};

// The header of a file of `file_size` bytes that starts with `bytes` (at least the header).
// Entries are in the order of their data. Throws Error(failure) naming `path` and tensor.
struct SafetensorsHeader {
    Metadata metadata;
    std::vector<SafetensorsEntry> entries;
    i64 data_start = 0;
};
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, i64 file_size,
                                           const std::string& path);

std::optional<DType> dtype_of_safetensors(std::string_view name);  // nullopt: one we do not hold
std::string_view safetensors_name(DType dtype);

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
