// SPDX-License-Identifier: Apache-2.0
// A tokenizer turns text into ids and ids into text. Threads share one Tokenizer, which never
// changes. Each thread encodes with its own Encoder, which holds a bounded cache of pre-tokens.
#pragma once

#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/types.hpp"

namespace lm::text {

class IdBuffer {
  public:
    explicit IdBuffer(bool wide) : wide_(wide) {}  // wide: ids of 32 bits

    bool wide() const { return wide_; }
    i64 size() const { return static_cast<i64>(used_ / width()); }
    i64 count() const { return n_consumed_ + size(); }  // number of ids appended since clear()
    size_t capacity() const { return capacity_; }       // bytes
    std::span<const std::byte> bytes() const { return {bytes_.get(), used_}; }

    // Returns the ids in the buffer. `Id` must be i32 if wide(), else u16.
    template <typename Id>
    std::span<const Id> ids() const {
        return {reinterpret_cast<const Id*>(bytes_.get()), used_ / sizeof(Id)};
    }

    // Limits the buffer to `n_bytes`. Before an append that would exceed this limit, the buffer
    // calls `consume` and then removes its ids. A single append() may be larger than `n_bytes`.
    void consume_at(size_t n_bytes, std::function<void()> consume) {
        most_ = n_bytes;
        consume_ = std::move(consume);
    }

    // Returns memory for `n` ids after the last id. The memory is valid until the next non-const
    // call. malloc aligns it for either type of id.
    template <typename Id>
    Id* room(i64 n) {
        reserve(static_cast<size_t>(n) * sizeof(Id));
        return reinterpret_cast<Id*>(bytes_.get() + used_);
    }
    // Appends the first `n` ids that were written to room().
    void add(i64 n) { used_ += static_cast<size_t>(n) * width(); }

    // Calls write(Id*) with room for `most` ids. write() returns the end of the ids that it has
    // written; the buffer appends these ids. A buffer of 32-bit ids also accepts 16-bit ids and
    // widens them.
    template <typename Id, typename Write>
    void append(i64 most, Write write) {
        if (wide_ && sizeof(Id) == sizeof(u16)) {
            i32* const wide = room<i32>(most);
            Id* const begin = reinterpret_cast<Id*>(wide);
            const i64 n = write(begin) - begin;
            widen(wide, n);
            add(n);
        } else {
            LM_CHECK(wide_ == (sizeof(Id) == sizeof(i32)), "expected 16-bit ids, got 32-bit ids");
            Id* const begin = room<Id>(most);
            add(write(begin) - begin);
        }
    }

    void push(i32 id) {
        reserve(sizeof id);
        if (wide_) {
            std::memcpy(bytes_.get() + used_, &id, sizeof id);
        } else {
            const auto narrow = static_cast<u16>(id);
            std::memcpy(bytes_.get() + used_, &narrow, sizeof narrow);
        }
        add(1);
    }

    void clear() {  // keeps the memory
        used_ = 0;
        n_consumed_ = 0;
    }
    void release();  // like clear(), and frees the memory

  private:
    size_t width() const { return wide_ ? sizeof(i32) : sizeof(u16); }
    void reserve(size_t n_bytes) {
        if (used_ + n_bytes > capacity_) grow(n_bytes);
    }
    void grow(size_t n_bytes);
    // Widens the first `n` ids in the memory from 16 to 32 bits in place, starting with the last.
    static void widen(i32* ids, i64 n);

    bool wide_;
    struct Free {
        void operator()(std::byte* memory) const { std::free(memory); }
    };
    std::unique_ptr<std::byte[], Free> bytes_;
    size_t used_ = 0, capacity_ = 0;
    i64 n_consumed_ = 0;
    size_t most_ = 0;
    std::function<void()> consume_;
};

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
    // Return the ids that encode() puts before and after the ids of every text.
    virtual std::span<const i32> prefix() const { return {}; }
    virtual std::span<const i32> suffix() const { return {}; }
    virtual bool has_token(i32 id) const = 0;
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
