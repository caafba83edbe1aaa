// SPDX-License-Identifier: Apache-2.0
// Encodes one chunk of JSON lines to token ids: parses each line and encodes the texts under the
// keys. Use one encoder per thread.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/jsonl/line_chunks.hpp"
#include "data/jsonl/line_parser.hpp"
#include "preprocess/bad_lines.hpp"
#include "text/tokenizer.hpp"

namespace lm::preprocess {

struct EncodeRules {
    std::vector<std::string> keys;  // the members that hold text; each has an output
    OnBadLine on_bad_line = OnBadLine::fail;
    bool append_eod = false;
    bool keep_empty = false;
    bool wide = false;  // ids of 32 bits instead of 16
};

// The ids of one key's texts in a chunk.
struct KeyTokens {
    text::IdBuffer ids;
    std::vector<i32> lengths;                 // [sequences] in tokens
    std::vector<i32> sequences_per_document;  // [documents]
    i64 largest = -1;                         // the largest id; -1 without ids

    // When the ids of one key take this number of bytes, the encoder passes them on before the
    // chunk is complete. The ids of an ordinary chunk take fewer bytes.
    static constexpr i64 max_bytes = i64{8} << 20;

    explicit KeyTokens(bool wide) : ids(wide) {}
    void clear();
    void find_largest();  // raises `largest` to the largest id in `ids`
};

struct EncodedChunk {
    data::LineChunk chunk;
    std::vector<KeyTokens> keys;  // [keys of the rules]
    i64 n_lines = 0, n_documents = 0, n_blank = 0, n_replaced = 0;
    i64 text_bytes = 0;        // bytes of the encoded texts
    i64 compressed_bytes = 0;  // bytes on disk read from the inputs up to the end of this chunk
    BadLines bad;

    i64 memory() const;    // bytes of the text, the ids and the lengths
    void release_large();  // frees memory that only a long line needs, and clears the ids
};

class ChunkEncoder {
  public:
    // `rules` and `tokenizer` must outlive the encoder. For `text_bytes` see
    // text::Tokenizer::make_encoder().
    ChunkEncoder(const EncodeRules& rules, const text::Tokenizer& tokenizer, i64 text_bytes);

    // Encodes out.chunk and replaces everything else in `out`. Stops at the first bad line that
    // ends the run. Calls `hand_over(key)` whenever the ids of a key take KeyTokens::max_bytes.
    // hand_over() must use these ids before it returns, because the encoder then drops them.
    void encode(EncodedChunk& out, const std::function<void(size_t key)>& hand_over);

  private:
    void encode_line(std::string_view line, EncodedChunk& out);
    void encode_value(const data::LineValue& value, KeyTokens& key, EncodedChunk& out);
    void encode_sequence(std::string_view text, KeyTokens& key, EncodedChunk& out);
    i64 encode_text(std::string_view text, text::IdBuffer& ids);

    const EncodeRules* rules_;
    const text::Tokenizer* tokenizer_;
    data::LineParser parser_;
    data::LineValue plain_;
    std::unique_ptr<text::Encoder> encoder_;
};

}  // namespace lm::preprocess
