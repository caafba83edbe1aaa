// SPDX-License-Identifier: Apache-2.0
// JSON Lines: inputs cut into chunks of whole lines (one reader), and the wanted strings of each
// line (one parser per thread, over simdjson). Document order is input order.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "data/json_line.hpp"
#include "io/stream.hpp"

namespace lm::data {

// Whole lines of one file, with room behind them for a vectorised parser to read past the end.
class LineChunk {
  public:
    static constexpr size_t padding = 64;

    std::string_view text() const { return {buffer_.get(), size_}; }
    int file = 0;        // index into the reader's inputs
    bool first = false;  // begins its file: line numbers start again at 1

  private:
    friend class ChunkReader;
    void reserve(size_t bytes, size_t keep);

    std::unique_ptr<char[]> buffer_;
    size_t capacity_ = 0;  // without the padding
    size_t size_ = 0;
};

class ChunkReader {
  public:
    // `inputs` as io::expand_inputs returns them. Chunks hold about `chunk_bytes`, more only when a
    // line is longer.
    ChunkReader(std::vector<std::string> inputs, i64 chunk_bytes);

    // Fills `chunk`, reusing its memory; false after the last one. Throws Error(failure).
    bool next(LineChunk& chunk);

    const std::vector<std::string>& inputs() const { return inputs_; }
    i64 bytes_read() const { return bytes_read_; }  // of text, decompressed
    // Of the files as they lie on disk, for progress.
    i64 compressed_bytes_read() const;

  private:
    bool open_next();

    std::vector<std::string> inputs_;
    size_t chunk_bytes_;
    size_t next_input_ = 0;
    std::unique_ptr<io::InputStream> stream_;
    bool at_start_ = false;  // of the current file
    std::string rest_;       // read, but after the last whole line
    i64 bytes_read_ = 0;
    i64 finished_bytes_ = 0;
};

// What a line holds under one key: one text, or a list of sentences.
struct LineValue {
    bool is_list = false;
    std::string_view text;
    std::vector<std::string_view> sentences;
};

enum class BadBytes { refuse, replace };  // invalid UTF-8 and lone surrogates

class LineParser {
  public:
    LineParser(std::vector<std::string> keys, BadBytes bad_bytes);
    ~LineParser();
    LineParser(LineParser&&) noexcept;

    // The values of the keys, in the order of the keys; valid until the next call. `line` is
    // followed by LineChunk::padding readable bytes. Throws LineError.
    std::span<const LineValue> parse(std::string_view line);
    bool replaced() const;  // whether the last line needed U+FFFD

  private:
    struct State;
    std::unique_ptr<State> state_;
};

// The next line of `text` without its end; `text` loses it.
std::string_view take_line(std::string_view& text);

}  // namespace lm::data
