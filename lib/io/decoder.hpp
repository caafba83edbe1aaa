// SPDX-License-Identifier: Apache-2.0
// The decoders of compressed files: gzip, xz and zstd, and none for plain ones.
#pragma once

#include <memory>

#include "io/source.hpp"
#include "io/stream.hpp"

namespace lm::io {

// `goes_on`: other members or frames of the same file were before it. `threads`: for the blocks of
// one xz stream, as many at once as `memory` allows.
std::unique_ptr<InputStream> make_decoder(ByteSource source, Compression compression, int threads,
                                          i64 memory, bool goes_on);

}  // namespace lm::io
