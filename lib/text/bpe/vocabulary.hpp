// SPDX-License-Identifier: Apache-2.0
// The tokens and merges that a tokenizer's files list, and the checks that all formats share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/types.hpp"
#include "text/bpe/bpe_model.hpp"

namespace lm::text {

// Tokens as files spell them (byte-map characters), by id, and the merges between them.
struct BpeFiles {
    std::vector<std::string> tokens;
    std::vector<Merge> merges;
};

// From token spelling to id. Keeps references to `tokens`.
class TokenIndex {
  public:
    // Throws Error(failure) naming `path` for a token that stands twice; empty ones are holes.
    TokenIndex(const std::vector<std::string>& tokens, const std::string& path);
    i32 find(std::string_view token) const { return find(seek(token)); }  // -1: not there
    bool has(size_t id, std::string_view token) const {
        return id < tokens_->size() && (*tokens_)[id] == token;
    }

    // The same in two steps: between them the memory comes that the second one reads.
    struct Sought {
        std::string_view token;
        u64 hash;
    };
    Sought seek(std::string_view token) const;
    i32 find(Sought sought) const;

  private:
    struct Slot {
        u32 hash;
        i32 id = -1;
    };
    // That of the token, or the free one where it would be.
    size_t slot_of(std::string_view token, u64 hash) const;

    const std::vector<std::string>* tokens_;
    std::vector<Slot> slots_;  // a power of two, at most half of them in use
};

// Collects merges in order of rank; refuses duplicates and tokens that the vocabulary lacks.
class MergeReader {
  public:
    // `n_tokens` is the size of the vocabulary.
    MergeReader(const TokenIndex& index, size_t n_tokens, std::string vocab_path)
        : index_(&index), vocab_path_(std::move(vocab_path)), last_of_(n_tokens, -1) {}

    // where() names the place of the merge in errors.
    template <typename Where>
    void add(std::string_view left, std::string_view right, Where where) {
        if (const std::string wrong = try_add(left, right); !wrong.empty())
            run_error(where(), "{}", wrong);
    }
    std::vector<Merge> finish() { return std::move(merges_); }

  private:
    i32 find_result() const;
    std::string try_add(std::string_view left, std::string_view right);
    std::string not_there(std::string_view token) const;

    const TokenIndex* index_;
    std::string vocab_path_;
    std::vector<Merge> merges_;
    size_t last_result_ = 0;
    // The last merge that makes a token, and those before it: equal merges make the same token.
    std::vector<i32> last_of_, previous_;
    std::string both_;
};

}  // namespace lm::text
