// SPDX-License-Identifier: Apache-2.0
// Decoders: streams of the content of gzip, xz, zstd and plain files.
#pragma once

#include <memory>

#include "io/byte_source.hpp"
#include "io/stream.hpp"

namespace lm::io {

// Returns a stream of the decompressed bytes of `source`. `continued` states that `source` starts
// after other members or frames of its file; bytes that are not another member or frame are then
// reported as garbage after the data. `threads` threads decompress the blocks of one xz stream, as
// many at once as `memory` bytes allow.
std::unique_ptr<InputStream> make_decoder(ByteSource source, Compression compression, int threads,
                                          i64 memory, bool continued);

}  // namespace lm::io
