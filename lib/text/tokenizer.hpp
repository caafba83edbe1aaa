// SPDX-License-Identifier: Apache-2.0
// A tokenizer turns text into ids and ids into text. Threads share one Tokenizer, which never
// changes. Each thread encodes with its own Encoder, which holds a bounded cache of pre-tokens.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/types.hpp"
#include "text/id_buffer.hpp"

namespace lm::text {

// The tokenizer has no token for a byte of the text. Ids of added tokens, and of the text before
// them, may have been appended.
class UnknownByte : public Error {
  public:
    using Error::Error;
};

class Encoder {
  public:
    virtual ~Encoder() = default;

    // Appends the ids of `text` (valid UTF-8, at most max_text_bytes) to `out` and returns their
    // number. If `out` holds 16-bit ids, vocab_size must be <= 65536. Throws TextTooLong
    // (normal_form.hpp) if the normalized text is longer than max_text_bytes, and UnknownByte.
    virtual i64 encode(std::string_view text, IdBuffer& out) = 0;

    // Frees memory that only long texts need.
    virtual void release() {}

    // Returns the number of look-ups and scan steps of the merge algorithm so far. Tests check that
    // this number grows linearly with the text.
    virtual u64 operations() const { return 0; }
};

class Tokenizer {
  public:
    virtual ~Tokenizer() = default;

    virtual std::string_view type() const = 0;   // a value of --tokenizer-type
    virtual i64 vocab_size() const = 0;          // the largest id + 1
    virtual std::optional<i32> eod() const = 0;  // end of document
    // Returns the XXH3-128 of everything that determines the ids. The metadata file of a dataset
    // contains it.
    virtual const std::string& digest() const = 0;
    // `text_bytes` is a rough upper bound for the bytes of text that the encoder will get; -1:
    // unknown. The caches are no larger than a text of this size needs.
    virtual std::unique_ptr<Encoder> make_encoder(i64 text_bytes) const = 0;
    // Returns whether encoders normalize. If so, encode() needs about twice the size of the text as
    // extra memory, and more if the normalizer makes the text longer.
    virtual bool normalizes() const { return false; }
    // Returns the bytes of one id. Throws Error(failure) if the id has no token.
    virtual std::string_view token(i32 id) const = 0;

    // Appends the bytes of `ids`. The bytes may be invalid UTF-8 (see append_utf8_lossy in
    // utf8.hpp).
    void decode(std::span<const i32> ids, std::string& out) const;
    // Encodes one text with a new encoder. For tests and single texts.
    std::vector<i32> encode(std::string_view text) const;
};

// The treatment of the text of a special token ("<|endoftext|>") in a document.
enum class SpecialInText {
    plain,  // as ordinary text, so that a document cannot inject an end of document
    parse   // as the id of the special token, like Hugging Face tokenizers
};

}  // namespace lm::text
