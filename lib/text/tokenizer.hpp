// SPDX-License-Identifier: Apache-2.0
// A tokenizer: text to ids and back. The tokenizer itself is immutable and shared; each thread
// encodes with an Encoder of its own, which holds a bounded cache of pre-tokens it has seen.
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

    // Puts the ids of `text` (valid UTF-8, at most max_text_bytes) behind those in
    // `out` and returns how many there are. Ids of 16 bits require vocab_size <= 65536. Throws
    // TextTooLong (normalizer.hpp) for a text that normalizers make longer than that.
    virtual i64 encode(std::string_view text, IdBuffer& out) = 0;

    // Gives memory back that only a long text needed.
    virtual void release() {}

    // Look-ups and scan steps of the merge algorithm so far: tests hold it to linear growth.
    virtual u64 operations() const { return 0; }
};

class Tokenizer {
  public:
    virtual ~Tokenizer() = default;

    virtual std::string_view type() const = 0;   // as --tokenizer-type names it
    virtual i64 vocab_size() const = 0;          // the largest id + 1
    virtual std::optional<i32> eod() const = 0;  // end of document
    // XXH3-128 over everything that decides the ids: what a dataset's side file remembers.
    virtual const std::string& digest() const = 0;
    virtual std::unique_ptr<Encoder> make_encoder() const = 0;
    // Whether encoders make a normalized text, which takes about twice the memory of a text besides
    // it, and more where the normalizer makes it longer.
    virtual bool normalizes() const { return false; }
    // The bytes of one id; throws Error(failure) when there is no such id.
    virtual std::string_view token(i32 id) const = 0;

    // Appends the bytes of `ids`; not always valid UTF-8 (see append_utf8_lossy in utf8.hpp).
    void decode(std::span<const i32> ids, std::string& out) const;
    // One text with a fresh encoder: for tests and small work.
    std::vector<i32> encode(std::string_view text) const;
};

// What happens to the text of a special token ("<|endoftext|>") inside a document.
enum class SpecialInText {
    plain,  // it is text like any other: nobody can inject an end of document
    parse   // it becomes the special id, as Hugging Face tokenizers does
};

}  // namespace lm::text
