// SPDX-License-Identifier: Apache-2.0
// The tokens and merges as the files of a tokenizer contain them, and the checks that all file
// formats share.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"
#include "base/types.hpp"
#include "text/bpe/merges/bpe_model.hpp"

namespace lm::text {

// The tokens by id, in the spelling of the files (characters of byte_map.hpp), and the merges.
struct BpeFiles {
    std::vector<std::string> tokens;
    std::vector<Merge> merges;
};

// Maps token spellings to ids. Keeps a reference to `tokens`.
class TokenIndex {
  public:
    // An empty token is an unused id. For a duplicate token, throws Error(failure) with `path`.
    TokenIndex(const std::vector<std::string>& tokens, const std::string& path);
    i32 find(std::string_view token) const { return find(seek(token)); }  // -1: not found
    bool has(size_t id, std::string_view token) const {
        return id < tokens_->size() && (*tokens_)[id] == token;
    }

    // A look-up has two steps: seek() prefetches the memory that find() reads.
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
    // Returns the slot that holds the token, or the free slot where it belongs.
    size_t slot_of(std::string_view token, u64 hash) const;

    const std::vector<std::string>* tokens_;
    std::vector<Slot> slots_;  // open addressing; the size is a power of two, at most half is used
};

// Collects merges in order of rank. Refuses duplicates, and tokens that the vocabulary lacks.
class MergeReader {
  public:
    // `n_tokens` is the size of the vocabulary.
    MergeReader(const TokenIndex& index, size_t n_tokens, std::string vocab_path)
        : index_(&index), vocab_path_(std::move(vocab_path)), last_of_(n_tokens, -1) {}

    // Adds a merge. Throws Error(failure) with the text that where() returns: the position in the
    // file.
    template <typename Where>
    void add(std::string_view left, std::string_view right, Where where) {
        if (const std::string wrong = try_add(left, right); !wrong.empty())
            run_error(where(), "{}", wrong);
    }
    // Returns all merges. No merge may be added afterwards.
    std::vector<Merge> finish() {
        std::erase_if(merges_, [](const Merge& merge) { return merge.left == repeated; });
        return std::move(merges_);
    }

  private:
    static constexpr i32 repeated = -1;  // `left` of a merge that the file lists again later

    i32 find_result() const;
    std::string try_add(std::string_view left, std::string_view right);
    std::string not_there(std::string_view token) const;

    const TokenIndex* index_;
    std::string vocab_path_;
    std::vector<Merge> merges_;
    size_t last_result_ = 0;
    // Linked lists of the merges with equal results, for the search of duplicates. last_of_[id] is
    // the last merge with the result `id`; previous_[m] is the merge before m with the same result.
    // -1 ends a list.
    std::vector<i32> last_of_, previous_;
    std::string both_;
};

}  // namespace lm::text
