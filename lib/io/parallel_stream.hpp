// SPDX-License-Identifier: Apache-2.0
// Decompression in threads of its own.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "io/stream.hpp"

namespace lm::io {

// `inner`, read by a thread that is up to two blocks ahead.
std::unique_ptr<InputStream> read_ahead(std::unique_ptr<InputStream> inner);

// The regular file `path`, whose units (stream_units.hpp) `threads` threads decompress. From the
// first place on that is not made of sound units, serial(begin) reads on: it knows everything, and
// what to say about it.
std::unique_ptr<InputStream> open_units(
    const std::string& path, Compression compression, int threads,
    std::function<std::unique_ptr<InputStream>(i64 begin)> serial);

}  // namespace lm::io
