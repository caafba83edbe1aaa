// SPDX-License-Identifier: Apache-2.0
// Byte streams for reading: plain, gzip, xz (or the older .lzma) and zstd files. The format follows
// from the content, never from the name; "-" is standard input.
//
// Errors name the file, the position and the reason. A truncated stream is an error, and so is
// garbage after its end; only zeros after gzip data are allowed, because tapes pad their last
// block. open_stream() warns of a BGZF file without an end-of-file block, because nothing else
// shows that a file was truncated between two blocks.
//
// A serial decoder needs memory for 1 MiB of input and for its window: 32 KiB for gzip, at most 2
// GiB for xz (a larger window is an error that states its size) and for zstd (any window up to
// --long=31).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "io/compression.hpp"

namespace lm::io {

class InputStream {
  public:
    virtual ~InputStream() = default;
    // Fills `out`; returns less than out.size() only at the end of the stream, and 0 after it.
    // After an exception the stream must not be read again.
    virtual i64 read(std::span<std::byte> out) = 0;
    // Returns the offset in the file up to which data has been read. Used to show progress.
    virtual i64 compressed_bytes_read() const = 0;
    // Returns how many of the content bytes read so far checksums have verified. For gzip and zstd:
    // up to the last complete member or frame (with parallel decompression, up to the last block
    // read); a frame without a checksum counts, too. For xz: nothing before the end of the file.
    // For plain data: everything.
    virtual i64 verified_bytes() const = 0;
    // Returns the descriptor of the file, for calls such as fstat(). Do not read from the
    // descriptor or seek, because the stream would lose data.
    virtual int descriptor() const = 0;
};

// A read from a pipe throws this when the `interrupt` descriptor of open_stream() is readable.
struct Interrupted {};

constexpr i64 default_decoding_memory = i64{192} << 20;

// Returns the least memory, in bytes, that decompressing the regular file `path` needs: the window
// of its first zstd frame, or the dictionary of its first xz block. Returns 0 for gzip and plain
// files.
i64 window_of(const std::string& path);

// Opens `path` ("-" is standard input). Concatenated gzip members, xz streams and zstd frames are
// read as one stream; an empty file counts as plain. Throws for bzip2, lz4, zip and 7z files, and
// names the format.
//
// A separate thread decompresses a regular file that is compressed, up to two MiB ahead of the
// reader. With several `threads`, independent parts are decompressed in parallel, as many at once
// as `memory` bytes allow: the blocks of an xz file that states their sizes; the frames of a zstd
// file or the blocks of a BGZF file, up to the first frame or block larger than 8 MiB. `interrupt`:
// see Interrupted; regular files ignore it.
std::unique_ptr<InputStream> open_stream(const std::string& path, int threads = 1,
                                         i64 memory = default_decoding_memory, int interrupt = -1);

// Opens a file at byte `begin`, without decompressing it. "-" is standard input if `begin` is 0.
std::unique_ptr<InputStream> open_plain_stream(const std::string& path, i64 begin);

// Returns the format of the regular file `path`. Throws the errors of open_stream() for unsupported
// formats.
Compression compression_of(const std::string& path);

// Returns up to `n` bytes of decompressed content from the start of a regular file. Throws
// Error(failure) when the file cannot be read or decompressed.
std::string first_bytes_of(const std::string& path, i64 n);

}  // namespace lm::io
