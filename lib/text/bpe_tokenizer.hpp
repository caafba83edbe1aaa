// SPDX-License-Identifier: Apache-2.0
// The byte-level BPE tokenizer that all file formats end in, and the checks they share.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "text/added_tokens/added_tokens.hpp"
#include "text/bpe/bpe_model.hpp"
#include "text/normalizer/normalizer.hpp"
#include "text/pretokenizer/pretokenizer.hpp"
#include "text/text_encoder.hpp"
#include "text/tokenizer.hpp"

namespace lm::text {

// Tokens as files spell them (byte-map characters), by id, and the merges between them.
struct BpeFiles {
    std::vector<std::string> tokens;
    std::vector<Merge> merges;
};

BpeFiles read_gpt2_files(const std::string& vocab_path, const std::string& merges_path);

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
    std::vector<Merge> take() { return std::move(merges_); }

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

struct BpeTokenizerParts {
    std::string type;
    std::string origin;  // the file to name in errors about the vocabulary
    BpeFiles files;
    SplitRule rule = SplitRule::gpt2;
    bool whole_pieces = false;  // ignore_merges: a piece that is a token stays whole
    std::optional<i32> eod;
    std::vector<AddedToken> added;  // ids whose content is literal, not byte-mapped
    SpecialInText special = SpecialInText::parse;
    Normalizer normalizer;
    bool prefix_space = false;        // before the text, and behind each added token
    std::vector<i32> prefix, suffix;  // ids around every text
};

class BpeTokenizer : public Tokenizer {
  public:
    // Throws Error(failure) when a single byte has no token.
    explicit BpeTokenizer(BpeTokenizerParts parts);

    std::string_view type() const override { return type_; }
    i64 vocab_size() const override { return model_.vocab_size(); }
    std::optional<i32> eod() const override { return eod_; }
    const std::string& digest() const override { return digest_; }
    std::unique_ptr<Encoder> make_encoder() const override;
    bool normalizes() const override { return !text_plan_.normalizer.empty(); }
    std::string_view token(i32 id) const override;
    const BpeModel& model() const { return model_; }

  private:
    std::string type_;
    std::string origin_;
    SplitRule rule_;
    std::optional<i32> eod_;
    BpeModel model_;
    std::string digest_;
    TextPlan text_plan_;
};

}  // namespace lm::text
