// SPDX-License-Identifier: Apache-2.0
// Reads a safetensors file by mapping it.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ckpt/format/safetensors_header.hpp"
#include "io/file.hpp"

namespace lm::test {

class SafetensorsReader {
  public:
    // Maps the file and parses its header. Throws the errors of parse_safetensors_header().
    static SafetensorsReader open(const std::string& path) {
        auto file = io::MappedFile::open(path);
        const auto size = static_cast<i64>(file.bytes().size());
        ckpt::SafetensorsHeader header = ckpt::parse_safetensors_header(file.bytes(), size, path);
        return {std::move(file), std::move(header)};
    }
    const std::string& path() const { return file_.path(); }
    const ckpt::Metadata& metadata() const { return header_.metadata; }
    const std::vector<ckpt::SafetensorsEntry>& entries() const { return header_.entries; }
    const ckpt::SafetensorsEntry* find(std::string_view name) const {
        const auto found = by_name_.find(name);
        return found == by_name_.end() ? nullptr : &header_.entries[found->second];
    }
    std::span<const std::byte> bytes(const ckpt::SafetensorsEntry& entry) const {
        return file_.bytes().subspan(static_cast<size_t>(header_.data_start + entry.begin),
                                     static_cast<size_t>(entry.end - entry.begin));
    }
    std::span<const std::byte> header_bytes() const {
        return file_.bytes().first(static_cast<size_t>(header_.data_start));
    }
    i64 size() const { return static_cast<i64>(file_.bytes().size()); }

  private:
    // by_name_ points into the names of header_.entries. These names keep their addresses when the
    // reader is moved.
    SafetensorsReader(io::MappedFile file, ckpt::SafetensorsHeader header)
        : file_(std::move(file)), header_(std::move(header)) {
        for (size_t i = 0; i < header_.entries.size(); ++i) by_name_[header_.entries[i].name] = i;
    }
    io::MappedFile file_;
    ckpt::SafetensorsHeader header_;
    std::map<std::string_view, size_t> by_name_;
};

}  // namespace lm::test
