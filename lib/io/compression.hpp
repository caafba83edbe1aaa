// SPDX-License-Identifier: Apache-2.0
// Reads the properties of a compressed file from its bytes: the format, the window that a decoder
// needs, and the units that can be decompressed independently. Formats: RFC 1952 (gzip), RFC 8878
// (zstd), the .xz file format 1.1.0, .lzma as in lzma.txt of the LZMA SDK, BGZF as in the SAM
// specification, section 4.1.
#pragma once

#include <span>
#include <string_view>

#include "base/types.hpp"

namespace lm::io {

enum class Compression { none, gzip, xz, zstd };

// The number of bytes that detect_compression() needs.
constexpr size_t longest_magic = 10;

// Returns the format of a file that starts with `bytes`. Throws Error(failure) naming `file` for
// bzip2, lz4, zip and 7z, which are not supported.
Compression detect_compression(std::span<const std::byte> bytes, std::string_view file);

// `bytes` is the start of a file. Returns the least memory, in bytes, that decompressing it needs:
// the window of the first zstd frame, or the dictionary of the first xz block or of the .lzma file.
// Returns 0 for gzip and plain files, and when the header does not state the window.
i64 window_of(Compression compression, std::span<const std::byte> bytes);

// A part of a compressed file that can be decompressed independently of the rest: a zstd frame
// (files of pzstd and concatenated files have many frames), or a BGZF block (a gzip member that
// states its size; bgzip writes such members).
struct CompressedUnit {
    enum class Found {
        whole,
        cut,   // the bytes end within the unit
        other  // not a unit, a unit of unknown size, or a unit above 8 MiB, compressed or
               // decompressed
    };
    Found found;
    size_t n_compressed = 0;
    size_t max_content = 0;  // upper bound of the decompressed bytes of the unit
};

// Returns the unit with which `bytes` begins. `bytes` is not empty.
CompressedUnit find_unit(Compression compression, std::span<const std::byte> bytes);

// Decompresses consecutive whole units into `out`, which must have room for the sum of their
// max_content. Returns the number of decompressed bytes, or -1 when the data is corrupt.
i64 decompress_units(Compression compression, std::span<const std::byte> units,
                     std::span<std::byte> out);

}  // namespace lm::io
