// SPDX-License-Identifier: Apache-2.0
// Inputs cut into chunks of whole lines, and into shares for processes that split the work. The
// order of documents is the order of the inputs; a line belongs to the share that its first byte
// lies in.
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

// What a chunk reader reads: a whole input, or those lines of a plain file that begin in
// [begin, end).
struct InputPiece {
    int file = 0;   // index into the inputs
    i64 begin = 0;  // of a plain file
    i64 end = -1;   // -1: the end of the input
};

struct InputFile {
    std::string path;
    i64 size = -1;           // on disk; -1: not a regular file
    bool divisible = false;  // plain and regular
    i64 changed_ns = 0;      // of a regular file: when its content was last changed
    i64 window = 0;          // of a regular file: what its decoder keeps (io::window_of)
};

// Looks at the inputs (as io::expand_inputs returns them). Throws Error(failure).
std::vector<InputFile> examine_inputs(const std::vector<std::string>& inputs);

// Share `index` of `count` of the inputs' bytes on disk, in order: plain files are cut anywhere,
// compressed ones belong whole to the share that their first byte lies in. The shares together are
// the inputs; a share may be empty. All sizes are known.
std::vector<InputPiece> share_of(std::span<const InputFile> inputs, i64 index, i64 count);

// A place between two lines of a list of pieces.
struct ReadPosition {
    i64 piece = 0;
    i64 offset = -1;  // in the (decompressed) input; -1: the start of the piece
    bool operator==(const ReadPosition&) const = default;
};

// Whole lines of one input, with room behind them for a vectorised parser to read past the end.
class LineChunk {
  public:
    static constexpr size_t padding = 64;

    std::string_view text() const { return {buffer_.get(), size_}; }
    int file = 0;                // index into the reader's inputs
    i64 piece = 0;               // index into the reader's pieces
    i64 offset = 0;              // of the text in the (decompressed) input
    bool first = false;          // begins its piece
    bool behind_others = false;  // the piece begins in the middle of its input
    ReadPosition next;           // where the following chunk begins

    i64 memory() const { return static_cast<i64>(capacity_); }
    void release();  // gives memory back that only a long line needed

  private:
    friend class ChunkReader;
    struct Free {
        void operator()(char* memory) const;
    };
    void reserve(size_t bytes);

    std::unique_ptr<char[], Free> buffer_;
    size_t capacity_ = 0;  // without the padding
    size_t size_ = 0;
    size_t usual_ = 0;  // capacity that is kept
};

// A line that ends the work.
class BadLineError : public Error {
  public:
    // `where` begins the message; the line is in `chunk`.
    BadLineError(const LineChunk& chunk, std::string_view where, std::string_view reason)
        : Error(Exit::failure, fmt::format("{}: {}", where, reason)), behind_(chunk.next) {}
    ReadPosition behind() const { return behind_; }  // its chunk

  private:
    ReadPosition behind_;
};

class ChunkReader {
  public:
    // Chunks hold about `chunk_bytes`, more only when a line is longer.
    ChunkReader(std::vector<InputFile> inputs, i64 chunk_bytes);  // all of them
    ChunkReader(std::vector<InputFile> inputs, std::vector<InputPiece> pieces, i64 chunk_bytes,
                ReadPosition start, int threads);

    // Fills `chunk`, reusing its memory; false after the last one. Throws Error(failure), also when
    // a regular file turns out not to be what it was when the inputs were examined.
    bool next(LineChunk& chunk);

    // Throws `bad_line`, or the Error(failure) that tells of the damage which spoiled it: that
    // shows as bad lines long before the checksum behind them is reached. Compressed data is read
    // on for that, in the stream that is open, until the line's chunk is known to be what was
    // compressed. `check` is called often and may throw. No chunk can be had after it.
    [[noreturn]] void fail(const BadLineError& bad_line, const std::function<void()>& check);

    // Called before memory is taken that only a long line needs, with how much; may throw.
    void before_growing(std::function<void(i64)> allow) { allow_ = std::move(allow); }
    // Side by side, no more is decompressed than fits in there (io::open_stream).
    void limit_decoding(i64 memory) { decoding_memory_ = memory; }
    // By any thread: a next() that waits for a pipe, or passes over what lies before its first
    // line, throws io::Interrupted.
    void interrupt();

    const std::vector<InputFile>& inputs() const { return inputs_; }
    // Of the files as they lie on disk, for progress.
    i64 compressed_bytes_read() const;

  private:
    bool read_next(LineChunk& chunk);
    bool is_verified(ReadPosition place) const;
    bool open_next();
    void close();
    const InputFile& input() const;  // that is being read
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
    io::Fd interrupt_;  // an eventfd
    std::atomic<bool> interrupted_{false};
    i64 next_piece_ = 0;
    std::unique_ptr<io::InputStream> stream_;
    i64 stream_begin_ = 0;   // offset of its first byte
    bool at_start_ = false;  // of the current piece
    i64 offset_ = 0;         // of the next chunk's text
    std::string rest_;       // read, but after the last whole line
    i64 finished_bytes_ = 0;
    std::exception_ptr failure_;  // what next() threw
};

// The next line of `text` without its end; `text` loses it.
std::string_view take_line(std::string_view& text);

// Lines of nothing else mean nothing.
bool is_blank(std::string_view line);

}  // namespace lm::data
