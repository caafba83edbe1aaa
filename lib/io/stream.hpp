// SPDX-License-Identifier: Apache-2.0
// Byte streams for reading: plain, gzip, xz (or the older .lzma) and zstd files, recognised by
// content, never by name;
// "-" is standard input. Errors name the file, the position and the reason; a truncated stream, or
// garbage after its end, is an error, not an early end; zeros behind gzip data are not garbage. A
// BGZF file without its end-of-file block gets a warning: at the end of a block nothing else tells
// that the rest is missing.
// Memory is bounded: 1 MiB of input, and the decoder's window: 32 KiB for gzip, at most 2 GiB for
// xz (more is an error that says how much it wants) and for zstd (any window up to --long=31).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"

namespace lm::io {

enum class Compression { none, gzip, xz, zstd };

class InputStream {
  public:
    virtual ~InputStream() = default;
    // Fills `out` as far as it goes; less than out.size() only at the end of the stream, 0 after
    // it. After an error the stream is of no more use.
    virtual i64 read(std::span<std::byte> out) = 0;
    virtual i64 compressed_bytes_read() const = 0;  // of the file, for progress
    // How much of the content that was read is known to be what was compressed: all of it up to the
    // end of the last gzip member or zstd frame that was whole and had its checksum behind it, or
    // of the last block of a file whose units are decompressed side by side; of xz all or nothing,
    // at the end of the file; of plain data all.
    virtual i64 verified_bytes() const = 0;
    // The file, to look at: reading from it or moving in it would lose data.
    virtual int descriptor() const = 0;
};

// What reading a pipe throws once the `interrupt` of open_stream() has become readable.
struct Interrupted {};

constexpr i64 usual_decoding_memory = i64{192} << 20;

// The memory that decompressing the regular file takes whatever it is read for: the window of its
// first zstd frame, the dictionary of its first xz block; 0 for gzip and plain files.
i64 window_of(const std::string& path);

// Opens `path` ("-" = stdin). Multi-member gzip, multi-stream xz and multi-frame zstd read as one;
// an empty file is a plain one. bzip2, lz4, zip and 7z files are refused by name.
// A compressed regular file is decompressed by a thread of its own, one or two MiB ahead. With
// `threads` above one, what can be decompressed side by side is: the blocks of an xz file that tell
// their sizes, the frames of a zstd file (those of pzstd, files put together) and the blocks of a
// BGZF file (gzip as bgzip writes it), unless one is larger than 8 MiB; as many at once as `memory`
// allows. Where `interrupt` is a descriptor, a read of what is no regular file that finds nothing
// waits for that, too, and throws Interrupted once it can be read.
std::unique_ptr<InputStream> open_stream(const std::string& path, int threads = 1,
                                         i64 memory = usual_decoding_memory, int interrupt = -1);

// A regular file as it lies on disk, from byte `begin` on; "-" as it comes, from its start.
std::unique_ptr<InputStream> open_plain_stream(const std::string& path, i64 begin);

// How the content of a regular file begins. Throws Error(failure) for a format that is refused.
Compression compression_of(const std::string& path);

// The first bytes of the content of a regular file, decompressed; `most`, or all that it has.
// Throws Error(failure) for what cannot be read or decompressed.
std::string beginning_of(const std::string& path, i64 most);

}  // namespace lm::io
