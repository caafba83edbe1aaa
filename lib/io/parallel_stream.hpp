// SPDX-License-Identifier: Apache-2.0
// Streams that decompress in threads of their own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/stream.hpp"

namespace lm::io {

// Returns a stream of the content of `inner`. A thread reads `inner` up to two blocks of 1 MiB
// ahead.
std::unique_ptr<InputStream> read_ahead(std::unique_ptr<InputStream> inner);

// Opens the regular file `path` and decompresses its units (compression.hpp) with `threads`
// threads. At the first offset where no valid unit starts, continues with the stream
// serial(offset), which decodes everything else that the format allows, and throws for corrupt
// data.
std::unique_ptr<InputStream> open_units(
    const std::string& path, Compression compression, int threads,
    std::function<std::unique_ptr<InputStream>(i64 begin)> serial);

}  // namespace lm::io
