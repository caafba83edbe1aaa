// SPDX-License-Identifier: Apache-2.0
// Reads the directory of a ZIP archive as torch.save writes it: stored entries, data descriptors,
// zip64. Refuses compression, encryption, overlapping or repeated entries, and names that lead out
// of the archive, because torch.save writes none of these, and because two readers could read
// different content from such an archive. Format: APPNOTE.TXT of PKWARE, sections 4.3 to 4.5.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"

namespace lm::convert {

struct ZipEntry {
    std::string name;
    i64 offset = 0;  // position of the first data byte in the file
    i64 size = 0;
    u32 crc = 0;  // 0: the writer has not computed it, or the data is empty
};

class ZipArchive {
  public:
    // Reads the directory of the archive in bytes [begin, end) of the file. Throws Error(failure)
    // that names an entry that the format or the rules of this file do not allow.
    static ZipArchive open(const std::string& path, i64 begin, i64 end);

    const std::string& path() const { return path_; }
    const std::vector<ZipEntry>& entries() const { return entries_; }  // in the order of their data
    const ZipEntry* find(std::string_view name) const;                 // nullptr: no such entry

  private:
    std::string path_;
    std::vector<ZipEntry> entries_;
    std::vector<size_t> by_name_;
};

}  // namespace lm::convert
