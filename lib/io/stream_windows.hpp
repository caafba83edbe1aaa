// SPDX-License-Identifier: Apache-2.0
// How much of what came before a decoder keeps, as the beginning of a compressed file tells it.
#pragma once

#include <span>

#include "base/types.hpp"
#include "io/stream.hpp"

namespace lm::io {

// Of the first zstd frame or xz block (or .lzma file) that `bytes` begin with; 0 when they do not
// tell, and for gzip.
i64 window_of(Compression compression, std::span<const std::byte> bytes);

}  // namespace lm::io
