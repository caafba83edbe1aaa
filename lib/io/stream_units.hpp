// SPDX-License-Identifier: Apache-2.0
// Stretches of compressed files that can be decompressed on their own: the frames of a zstd file
// (RFC 8878; pzstd and concatenation make many) and the blocks of a BGZF file (gzip members that
// tell their size, as bgzip writes them; SAM specification, section 4.1).
#pragma once

#include <span>

#include "base/types.hpp"
#include "io/stream.hpp"

namespace lm::io {

struct CompressedUnit {
    enum class Found {
        whole,
        cut,   // the bytes end before it does
        other  // it does not tell its size, or is too large to be held in memory
    };
    Found found;
    size_t n_compressed = 0;
    size_t most_bytes = 0;  // of content
};

// The unit that `bytes` begin with; they are not empty.
CompressedUnit find_unit(Compression compression, std::span<const std::byte> bytes);

// Decompresses whole units, one after the other, and returns the size of their content; -1: they
// are damaged. `out` has room for as much as find_unit() told.
i64 decompress_units(Compression compression, std::span<const std::byte> units,
                     std::span<std::byte> out);

}  // namespace lm::io
