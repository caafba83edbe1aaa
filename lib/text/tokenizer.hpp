// SPDX-License-Identifier: Apache-2.0
// A tokenizer turns text into ids and ids into text. Threads share one immutable Tokenizer; each
// thread encodes with an Encoder of its own, which holds a bounded cache of pre-tokens.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/types.hpp"
#include "text/id_buffer.hpp"

namespace lm::text {

class Encoder {
  public:
    virtual ~Encoder() = default;

    // Appends the ids of `text` (valid UTF-8, at most max_text_bytes) to `out` and returns their
    // number. A buffer of 16-bit ids requires vocab_size <= 65536. Throws TextTooLong
    // (normal_form.hpp) when the normalized text is longer than max_text_bytes.
    virtual i64 encode(std::string_view text, IdBuffer& out) = 0;

    // Frees the memory that a long text needed.
    virtual void release() {}

    // Returns the number of look-ups and scan steps of the merge algorithm so far. Tests check that
    // it grows linearly.
    virtual u64 operations() const { return 0; }
};

class Tokenizer {
  public:
    virtual ~Tokenizer() = default;

    virtual std::string_view type() const = 0;   // as --tokenizer-type names it
    virtual i64 vocab_size() const = 0;          // the largest id + 1
    virtual std::optional<i32> eod() const = 0;  // end of document
    // XXH3-128 of everything that determines the ids. The metadata file of a dataset contains it.
    virtual const std::string& digest() const = 0;
    virtual std::unique_ptr<Encoder> make_encoder() const = 0;
    // Whether encoders normalize. The normalized text takes about twice the memory of the text in
    // addition to it, and more if the normalizer makes it longer.
    virtual bool normalizes() const { return false; }
    // Returns the bytes of one id. Throws Error(failure) for an id without a token.
    virtual std::string_view token(i32 id) const = 0;

    // Appends the bytes of `ids`. They may be invalid UTF-8 (see append_utf8_lossy in utf8.hpp).
    void decode(std::span<const i32> ids, std::string& out) const;
    // Encodes one text with a new encoder, for tests and single texts.
    std::vector<i32> encode(std::string_view text) const;
};

// How encoders treat the text of a special token ("<|endoftext|>") in a document.
enum class SpecialInText {
    plain,  // as ordinary text: a document cannot contain an injected end of document
    parse   // as the special id, like Hugging Face tokenizers
};

}  // namespace lm::text
