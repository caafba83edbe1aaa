// SPDX-License-Identifier: Apache-2.0
// Loads the tokenizer that the options of a command line select. All programs follow the same
// rules.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "text/tokenizer.hpp"

namespace lm::text {

struct TokenizerChoice {
    std::optional<std::string> type;        // --tokenizer-type
    std::optional<std::string> vocab_file;  // --vocab-file
    std::optional<std::string> merge_file;  // --merge-file
    std::optional<std::string> model;       // --tokenizer-model, --tokenizer-name-or-path
    std::optional<std::string> special;     // --special-in-text plain|parse

    // Returns whether an option names a tokenizer.
    bool names_one() const { return type || vocab_file || merge_file || model; }
};

// Returns the choice of the tokenizer files in `directory`: tokenizer.json, else vocab.json with
// merges.txt, read as the class that a file next to them states, or as GPT-2's; nullopt when the
// directory has neither.
std::optional<TokenizerChoice> choice_in(const std::string& directory);

// A file of a tokenizer, and the name that a model of Hugging Face gives it.
struct TokenizerPath {
    std::string name;
    std::string path;
};
// Returns the files of the chosen tokenizer: tokenizer.json with the files next to it that belong
// to it, or vocab.json and merges.txt. Returns none for an installed tokenizer.
std::vector<TokenizerPath> files_of(const TokenizerChoice& choice);

// Returns the chosen tokenizer. If no option is set, this is GPT-2's tokenizer with the installed
// vocabulary. Throws Error(usage) for invalid options and missing files, and Error(failure) for
// invalid files.
std::shared_ptr<const Tokenizer> load_tokenizer(const TokenizerChoice& choice);

// Returns the chosen tokenizer with the treatment of special tokens that gives it `digest`, as in
// the training or the data that states this digest. Returns load_tokenizer(choice) when neither
// treatment does, or the choice names one.
std::shared_ptr<const Tokenizer> load_tokenizer(const TokenizerChoice& choice,
                                                const std::string& digest);

// Returns the installed tokenizer that has this digest, or nullptr.
std::shared_ptr<const Tokenizer> installed_tokenizer(const std::string& digest);

// Returns whether each id has the same bytes in both tokenizers. How they divide a text may differ.
bool have_same_ids(const Tokenizer& a, const Tokenizer& b);

// Returns the padded vocabulary size as Megatron computes it: `vocab_size` rounded up to a multiple
// of `divisible_by`, or `pad_to` if that is given. `pad_to` must be a multiple of `divisible_by`
// and at least `vocab_size`; otherwise throws Error(usage).
i64 padded_vocab_size(i64 vocab_size, i64 divisible_by, std::optional<i64> pad_to);

}  // namespace lm::text
