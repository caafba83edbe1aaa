// SPDX-License-Identifier: Apache-2.0
// Reads inputs in chunks of whole lines, and divides inputs into shares for several processes.
// Lines keep the order of the inputs. A line belongs to the share that has its first byte.
#pragma once

#include <atomic>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/types.hpp"
#include "io/file.hpp"
#include "io/stream.hpp"

namespace lm::data {

// A whole input, or the lines of a plain file that begin in bytes [begin, end).
struct InputPiece {
    int file = 0;   // index into the inputs
    i64 begin = 0;  // byte; always 0 if the input is not a plain file
    i64 end = -1;   // byte; -1: the end of the input
};

struct InputFile {
    std::string path;
    i64 size = -1;           // bytes on disk; -1: not a regular file
    bool divisible = false;  // a regular file that is not compressed
    i64 changed_ns = 0;      // modification time of a regular file
    i64 window = 0;          // bytes that the decoder of a regular file keeps (io::window_of)
};

// Returns size, modification time and compression of each input. `inputs` is a result of
// io::expand_inputs(). Throws Error(failure).
std::vector<InputFile> examine_inputs(const std::vector<std::string>& inputs);

// Returns share `index` of `count` equal shares of the inputs' bytes on disk, in order. Plain files
// are divided at any byte; a compressed file belongs as a whole to the share that has its first
// byte. Each byte belongs to one share; a share may be empty. All sizes must be known.
std::vector<InputPiece> share_of(std::span<const InputFile> inputs, i64 index, i64 count);

// A position between two lines: the index of a piece in a list of pieces, and an offset in the
// input of the piece.
struct ReadPosition {
    i64 piece = 0;
    i64 offset = -1;  // offset in the (decompressed) input; -1: the start of the piece
    bool operator==(const ReadPosition&) const = default;
};

// Whole lines of one input, followed by `padding` zero bytes that a vectorized parser may read.
class LineChunk {
  public:
    static constexpr size_t padding = 64;

    std::string_view text() const { return {buffer_.get(), size_}; }
    int file = 0;               // index into the reader's inputs
    i64 piece = 0;              // index into the reader's pieces
    i64 offset = 0;             // byte of the (decompressed) input where the text begins
    bool first = false;         // true for the first chunk of its piece
    bool after_others = false;  // true if the piece begins in the middle of its input
    ReadPosition next;          // where the next chunk begins

    i64 memory() const { return static_cast<i64>(capacity_); }  // bytes
    void release();  // empties the chunk and frees memory that only a long line needs

  private:
    friend class ChunkReader;
    struct Free {
        void operator()(char* memory) const;
    };
    void reserve(size_t bytes);

    std::unique_ptr<char[], Free> buffer_;
    size_t capacity_ = 0;  // bytes, without the padding
    size_t size_ = 0;
    size_t usual_ = 0;  // release() keeps up to this capacity
};

// The error for an unusable line that ends the run.
class BadLineError : public Error {
  public:
    // `where` is "FILE:LINE:BYTE"; the line is in `chunk`.
    BadLineError(const LineChunk& chunk, std::string_view where, std::string_view reason)
        : Error(Exit::failure, fmt::format("{}: {}", where, reason)), chunk_end_(chunk.next) {}
    ReadPosition chunk_end() const { return chunk_end_; }  // the end of the line's chunk

  private:
    ReadPosition chunk_end_;
};

class ChunkReader {
  public:
    // Reads all inputs. Chunks have about `chunk_bytes` bytes, or more when one line is longer.
    ChunkReader(std::vector<InputFile> inputs, i64 chunk_bytes);
    // Reads `pieces` of the inputs in order, from position `start`. Decompresses with `threads`
    // threads.
    ChunkReader(std::vector<InputFile> inputs, std::vector<InputPiece> pieces, i64 chunk_bytes,
                ReadPosition start, int threads);

    // Reads the next chunk and returns true; returns false after the last one. Reuses the chunk's
    // memory. Throws Error(failure), also when a regular file has changed since examine_inputs().
    bool next(LineChunk& chunk);

    // Throws `bad_line`; if corrupt compressed data has caused the bad line, throws Error(failure)
    // instead. Corrupt data causes bad lines long before the reader reaches the checksum of the
    // data, so fail() continues to read the open stream until a checksum has confirmed the line's
    // chunk. Calls `check` often; `check` may throw. No chunk can be read afterwards.
    [[noreturn]] void fail(const BadLineError& bad_line, const std::function<void()>& check);

    // Sets the function that the reader calls before it allocates memory for a long line:
    // allow(number of bytes). `allow` may throw.
    void before_growing(std::function<void(i64)> allow) { allow_ = std::move(allow); }
    // Limits the memory for parallel decompression to `memory` bytes (io::open_stream).
    void limit_decoding(i64 memory) { decoding_memory_ = memory; }
    // Makes next() throw io::Interrupted while it waits for a pipe, or while it skips the partial
    // line at the start of a piece. Any thread may call this.
    void interrupt();

    const std::vector<InputFile>& inputs() const { return inputs_; }
    // Returns an approximate upper limit of the bytes of text in the pieces; -1: unknown. Assumes
    // that a compressed file has 16 times its size on disk.
    i64 most_bytes() const;
    // Returns how many bytes on disk have been read, for progress.
    i64 compressed_bytes_read() const;

  private:
    bool read_next(LineChunk& chunk);
    bool is_verified(ReadPosition place) const;
    bool open_next();
    void close();
    const InputFile& input() const;  // the input that is being read
    void skip(io::InputStream& stream, i64 n) const;
    void skip_partial_line(io::InputStream& stream);
    void fill(LineChunk& chunk);
    void grow(LineChunk& chunk, size_t bytes);
    void cut_at_end(LineChunk& chunk);

    std::vector<InputFile> inputs_;
    std::vector<InputPiece> pieces_;
    size_t chunk_bytes_;
    ReadPosition start_;
    int threads_;
    i64 decoding_memory_ = io::default_decoding_memory;
    std::function<void(i64)> allow_;
    io::Fd interrupt_;  // eventfd that wakes a read from a pipe
    std::atomic<bool> interrupted_{false};
    i64 next_piece_ = 0;
    std::unique_ptr<io::InputStream> stream_;
    i64 stream_begin_ = 0;   // offset of the stream's first byte in the input
    bool at_start_ = false;  // whether the next chunk is the first of its piece
    i64 offset_ = 0;         // byte of the input where the next chunk begins
    std::string rest_;       // bytes that have been read after the last whole line
    i64 finished_bytes_ = 0;
    std::exception_ptr failure_;  // exception that next() threw
};

// Returns the next line of `text` without its line end, and removes it from `text`.
std::string_view next_line(std::string_view& text);

// Returns whether the line has only spaces, tabs and carriage returns. Such lines are ignored.
bool is_blank(std::string_view line);

}  // namespace lm::data
