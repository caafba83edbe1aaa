// SPDX-License-Identifier: Apache-2.0
// The byte-level BPE tokenizer, which the loaders of all file formats construct.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "text/added_tokens/added_tokens.hpp"
#include "text/bpe/merges/bpe_model.hpp"
#include "text/bpe/vocabulary.hpp"
#include "text/normalizer/normalizer.hpp"
#include "text/pretokenizer/pretokenizer.hpp"
#include "text/tokenizer.hpp"

namespace lm::text {

// The steps of Hugging Face tokenizers, in the same order: find added tokens in the raw text,
// normalize the text between them, find added tokens in the normalized text, prepend a space,
// encode by byte-level BPE, and add the ids of the template before and after the text.
struct TextSteps {
    AddedTokenMatcher raw;  // finds tokens in the raw text
    Normalizer normalizer;
    AddedTokenMatcher normalized;     // finds tokens in the normalized text
    bool prefix_space = false;        // BPE gets each text with a space in front
    std::vector<i32> prefix, suffix;  // ids before and after every text

    bool is_trivial() const {  // true if BPE gets the text unchanged
        return raw.empty() && normalizer.empty() && normalized.empty() && !prefix_space &&
               prefix.empty() && suffix.empty();
    }
};

// Returns an encoder that applies `steps`, and encodes the text between added tokens with `plain`.
// `steps` must outlive the encoder.
std::unique_ptr<Encoder> make_text_encoder(const TextSteps& steps, std::unique_ptr<Encoder> plain);

struct BpeTokenizerParts {
    std::string type;
    std::string origin;  // path of the vocabulary, for error messages
    BpeFiles files;
    PretokenizerRule rule = PretokenizerRule::gpt2;
    bool ignore_merges =
        false;  // a pre-token that equals a token gets the token's id without merges
    std::optional<i32> eod;
    std::optional<i32> unknown;     // id of each byte without a token; nullopt: UnknownByte
    std::vector<AddedToken> added;  // content is literal text, not spelled in the byte map
    SpecialInText special = SpecialInText::parse;
    Normalizer normalizer;
    bool prefix_space = false;        // BPE gets each text with a space in front
    std::vector<i32> prefix, suffix;  // ids before and after every text
};

class BpeTokenizer : public Tokenizer {
  public:
    // Throws Error(failure) if some byte has no token.
    explicit BpeTokenizer(BpeTokenizerParts parts);

    std::string_view type() const override { return type_; }
    i64 vocab_size() const override { return model_.vocab_size(); }
    std::optional<i32> eod() const override { return eod_; }
    const std::string& digest() const override { return digest_; }
    std::unique_ptr<Encoder> make_encoder(i64 text_bytes) const override;
    bool normalizes() const override { return !text_steps_.normalizer.empty(); }
    std::span<const i32> prefix() const override { return text_steps_.prefix; }
    std::span<const i32> suffix() const override { return text_steps_.suffix; }
    bool has_token(i32 id) const override {
        return id >= 0 && id < vocab_size() && !model_.token(id).empty();
    }
    std::string_view token(i32 id) const override;
    const BpeModel& model() const { return model_; }

  private:
    std::string type_;
    std::string origin_;
    PretokenizerRule rule_;
    std::optional<i32> eod_;
    BpeModel model_;
    std::string digest_;
    TextSteps text_steps_;
};

}  // namespace lm::text
