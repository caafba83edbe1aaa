// SPDX-License-Identifier: Apache-2.0
#include "text/choice/tokenizer_choice.hpp"

#include <algorithm>
#include <cctype>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/nearest_name.hpp"
#include "base/version.hpp"
#include "io/file.hpp"
#include "io/path.hpp"
#include "text/byte_tokenizer.hpp"
#include "text/gpt2_tokenizer.hpp"
#include "text/tokenizer_json/read_tokenizer.hpp"
#include "text/tokenizer_json/special_tokens.hpp"

namespace lm::text {
namespace {

SpecialInText special_of(const TokenizerChoice& choice, SpecialInText fallback) {
    if (!choice.special) return fallback;
    if (*choice.special == "plain") return SpecialInText::plain;
    if (*choice.special == "parse") return SpecialInText::parse;
    usage_error("--special-in-text", "expected plain or parse, got '{}'", *choice.special);
}

// Returns whether `type` is one of the names that versions of Megatron use for a tokenizer of
// Hugging Face.
bool is_hf(const std::string& type) {
    return type == "HFTokenizer" || type == "HuggingFaceTokenizer" || type == "PretrainedFromHF";
}

// Returns whether Megatron names a tokenizer of a model file so whose vocabulary a tokenizer.json
// may have, too: SentencePieceTokenizer, GPTSentencePieceTokenizer, Llama2Tokenizer, TikTokenizer.
bool reads_model_file(std::string type) {
    std::ranges::transform(type, type.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return type.find("sentencepiece") != type.npos || type.starts_with("llama") ||
           type.starts_with("tik");
}

void check_type(const std::string& type) {
    const std::vector<std::string> types = {"GPT2BPETokenizer", "HFTokenizer",
                                            "HuggingFaceTokenizer", "PretrainedFromHF",
                                            "ByteTokenizer"};
    if (std::ranges::find(types, type) != types.end()) return;
    if (type == "NullTokenizer") {
        usage_error("--tokenizer-type",
                    "NullTokenizer has no text for its ids: write texts of numbers with "
                    "IndexedDatasetBuilder of megatron-core, whose files lm-train reads");
    }
    if (reads_model_file(type)) {
        usage_error("--tokenizer-type",
                    "'{}' is not supported: did you mean HFTokenizer, with the tokenizer.json of "
                    "the model?",
                    type);
    }
    refuse_value("--tokenizer-type", type, types);
}

void refuse_files(const TokenizerChoice& choice, const std::string& type) {
    if (choice.vocab_file || choice.merge_file) {
        usage_error("--tokenizer-type",
                    "{} does not read --vocab-file or --merge-file: remove them", type);
    }
}

void require(const std::string& path) {
    if (!io::exists(path))
        usage_error(path, "does not exist: give a local file, tokenizers are not downloaded");
}

void note_other_class(const std::string& vocab_file) {
    const std::string directory = io::parent_of(vocab_file);
    const std::string name = tokenizer_class_in(directory);
    // The general class states no pre-tokenizer.
    if (name.empty() || name == "PreTrainedTokenizerFast" || is_gpt2_class(name)) return;
    note(
        "{}: is read as a GPT2BPETokenizer, but the files next to it state the class {}, whose ids "
        "may differ: give --tokenizer-type HFTokenizer --tokenizer-model {}",
        vocab_file, name, directory);
}

std::shared_ptr<const Tokenizer> load_gpt2(const TokenizerChoice& choice) {
    if (choice.vocab_file.has_value() != choice.merge_file.has_value()) {
        usage_error(choice.vocab_file ? "--merge-file" : "--vocab-file",
                    "is missing: give both --vocab-file and --merge-file");
    }
    const SpecialInText special = special_of(choice, SpecialInText::plain);
    for (const auto& file : {choice.vocab_file, choice.merge_file}) {
        if (file) require(*file);
    }
    if (choice.vocab_file) note_other_class(*choice.vocab_file);
    if (choice.vocab_file)
        return load_gpt2_tokenizer(*choice.vocab_file, *choice.merge_file, special);
    return load_gpt2_tokenizer(share_file("tokenizers/gpt2/vocab.json"),
                               share_file("tokenizers/gpt2/merges.txt"), special);
}

}  // namespace

std::optional<TokenizerChoice> choice_in(const std::string& directory) {
    TokenizerChoice choice;
    if (io::exists(directory + "/tokenizer.json")) {
        choice.model = directory + "/tokenizer.json";
    } else if (is_pair_of_class(directory)) {
        choice.model = directory;
    } else if (io::exists(directory + "/vocab.json") && io::exists(directory + "/merges.txt")) {
        choice.vocab_file = directory + "/vocab.json";
        choice.merge_file = directory + "/merges.txt";
    } else {
        return std::nullopt;
    }
    return choice;
}

std::vector<TokenizerPath> files_of(const TokenizerChoice& choice) {
    std::vector<TokenizerPath> files;
    if (choice.model) {
        const std::string whole = hf_tokenizer_path(*choice.model);
        const std::string directory = io::parent_of(whole);
        if (io::is_directory(*choice.model) && is_pair_of_class(directory)) {
            files = {{"vocab.json", directory + "/vocab.json"},
                     {"merges.txt", directory + "/merges.txt"}};
        } else {
            files = {{"tokenizer.json", whole}};
        }
        for (const char* name : {"tokenizer_config.json", "special_tokens_map.json",
                                 "added_tokens.json", "chat_template.jinja"}) {
            const std::string path = fmt::format("{}/{}", directory, name);
            if (io::exists(path)) files.push_back({name, path});
        }
    } else if (choice.vocab_file && choice.merge_file) {
        files = {{"vocab.json", *choice.vocab_file}, {"merges.txt", *choice.merge_file}};
    }
    return files;
}

std::shared_ptr<const Tokenizer> load_tokenizer(const TokenizerChoice& choice) {
    const std::string type =
        choice.type.value_or(choice.model ? "HFTokenizer" : "GPT2BPETokenizer");
    check_type(type);
    if (is_hf(type)) {
        refuse_files(choice, type);
        if (!choice.model)
            usage_error("--tokenizer-model", "is missing: {} needs a tokenizer.json", type);
        require(*choice.model);
        return load_hf_tokenizer(*choice.model, special_of(choice, SpecialInText::parse));
    }
    if (choice.model)
        usage_error("--tokenizer-model", "is an option of --tokenizer-type HFTokenizer, not of {}",
                    type);
    if (type == "GPT2BPETokenizer") return load_gpt2(choice);
    refuse_files(choice, type);
    if (special_of(choice, SpecialInText::plain) == SpecialInText::parse) {
        usage_error("--special-in-text", "ByteTokenizer has no special tokens to parse");
    }
    return make_byte_tokenizer();
}

std::shared_ptr<const Tokenizer> load_tokenizer(const TokenizerChoice& choice,
                                                const std::string& digest) {
    auto tokenizer = load_tokenizer(choice);
    const bool has_other = !choice.special && tokenizer->type() != "ByteTokenizer";
    if (!has_other || digest.empty() || tokenizer->digest() == digest) return tokenizer;
    TokenizerChoice other = choice;
    other.special = is_hf(std::string(tokenizer->type())) ? "plain" : "parse";
    auto found = load_tokenizer(other);
    return found->digest() == digest ? found : tokenizer;
}

std::shared_ptr<const Tokenizer> installed_tokenizer(const std::string& digest) {
    for (const char* type : {"GPT2BPETokenizer", "ByteTokenizer"}) {
        auto tokenizer = load_tokenizer({.type = type}, digest);
        if (tokenizer->digest() == digest) return tokenizer;
    }
    return nullptr;
}

bool have_same_ids(const Tokenizer& a, const Tokenizer& b) {
    if (a.vocab_size() != b.vocab_size()) return false;
    const auto same = [&](i32 id) {
        if (!a.has_token(id) || !b.has_token(id)) return a.has_token(id) == b.has_token(id);
        return a.token(id) == b.token(id);
    };
    for (i32 id = 0; id < a.vocab_size(); ++id) {
        if (!same(id)) return false;
    }
    return true;
}

i64 padded_vocab_size(i64 vocab_size, i64 divisible_by, std::optional<i64> pad_to) {
    check_at_least("--make-vocab-size-divisible-by", divisible_by, 1);
    if (!pad_to) return round_up(vocab_size, divisible_by);
    if (*pad_to < vocab_size) {
        usage_error("--pad-vocab-size-to", "{} is smaller than the vocabulary size {}", *pad_to,
                    vocab_size);
    }
    if (*pad_to % divisible_by != 0) {
        usage_error("--pad-vocab-size-to",
                    "{} is not a multiple of --make-vocab-size-divisible-by {}", *pad_to,
                    divisible_by);
    }
    return *pad_to;
}

}  // namespace lm::text
