// SPDX-License-Identifier: Apache-2.0
// lm-preprocess cat: prints documents of a dataset as JSON Lines, decoded or as ids.
#include <charconv>
#include <memory>

#include "args.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/range.hpp"
#include "base/utf8.hpp"
#include "cli/main.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "io/json.hpp"

namespace lm::preprocess {
namespace {

struct CatArgs {
    std::string prefix;
    std::optional<std::string> documents;
    bool ids = false;
    bool keep_eod = false;
    bool force = false;
    text::TokenizerChoice tokenizer;
};

// Parses the documents "A-B" (A to B, including B), "A" (only A) or "A-" (A to the last) of `n`
// documents into a half-open range.
Range parse_documents(const std::string& text, i64 n) {
    const auto number = [&](std::string_view part) {
        i64 value = 0;
        const auto [at, error] = std::from_chars(part.data(), part.data() + part.size(), value);
        if (error != std::errc() || at != part.data() + part.size() || value < 0) {
            usage_error("--documents", "expected A-B, A- or A, got '{}'", text);
        }
        return value;
    };
    const size_t dash = text.find('-');
    const i64 first = number(std::string_view(text).substr(0, dash));
    const bool open = dash != std::string::npos && dash + 1 == text.size();
    const i64 last = dash == std::string::npos ? first
                     : open                    ? n - 1
                                               : number(std::string_view(text).substr(dash + 1));
    if (n == 0)
        usage_error("--documents", "'{}' is out of range: the dataset has no documents", text);
    if (first > last || last >= n) {
        usage_error("--documents", "'{}' is not within the {} documents (0 to {})", text, n, n - 1);
    }
    return {first, last + 1};
}

std::shared_ptr<const text::Tokenizer> tokenizer_for(
    const CatArgs& args, const std::optional<data::DatasetMetadata>& metadata) {
    text::TokenizerChoice choice = args.tokenizer;
    if (!choice.type && !choice.vocab_file && metadata &&
        metadata->tokenizer.type == "ByteTokenizer") {
        choice.type = metadata->tokenizer.type;
    }
    auto tokenizer = text::load_tokenizer(choice);
    const bool other = metadata && metadata->tokenizer.digest != tokenizer->digest();
    const bool named = choice.type || choice.vocab_file || choice.model;
    if (other && !named) {
        usage_error(args.prefix,
                    "was encoded with {}: give this tokenizer with {}, or print ids with --ids",
                    metadata->tokenizer.type,
                    metadata->tokenizer.type == "HFTokenizer" ? "--tokenizer-model"
                                                              : "--vocab-file and --merge-file");
    }
    if (other) {
        if (!args.force) {
            run_error(args.prefix,
                      "was made by another tokenizer ({}) than the given tokenizer: give the "
                      "tokenizer of the data, or use --force",
                      metadata->tokenizer.type);
        }
        warn("{}: was made by another tokenizer ({}) than the given tokenizer", args.prefix,
             metadata->tokenizer.type);
    }
    return tokenizer;
}

std::string ids_text(const std::vector<i32>& ids) {
    io::OrderedJson j;
    j["ids"] = ids;
    return io::json_line(j);
}

std::string decoded_text(const std::vector<i32>& ids, const text::Tokenizer& tokenizer) {
    std::string bytes, text;
    tokenizer.decode(ids, bytes);
    append_utf8_lossy(text, bytes);
    io::OrderedJson j;
    j["text"] = text;
    return io::json_line(j);
}

int cat(const CatArgs& args) {
    const auto dataset = data::IndexedDataset::open(args.prefix);
    const auto metadata = data::read_metadata(dataset);
    const Range range = args.documents ? parse_documents(*args.documents, dataset.n_documents())
                                       : Range{0, dataset.n_documents()};
    const auto tokenizer = args.ids ? nullptr : tokenizer_for(args, metadata);
    const bool cut_eod =
        metadata && metadata->eod_id && metadata->appended_eod && !args.keep_eod && !args.ids;
    const i64 eod = cut_eod ? *metadata->eod_id : -1;
    std::vector<i32> ids;
    for (i64 d = range.begin; d < range.end; ++d) {
        const auto [begin, end] = dataset.document_extent(d);
        ids.resize(static_cast<size_t>(end - begin));
        dataset.read(begin, std::span(ids));
        if (cut_eod && !ids.empty() && ids.back() == eod) ids.pop_back();
        cli::write_stdout(args.ids ? ids_text(ids) : decoded_text(ids, *tokenizer));
    }
    return 0;
}

}  // namespace

void declare_cat(cli::Options& options) {
    auto args = std::make_shared<CatArgs>();
    cli::Options& verb =
        options.verb("cat", "print documents as JSON Lines", [args] { return cat(*args); });
    verb.examples({"lm-preprocess cat corpus_text_document --documents 0-2"});
    verb.positional("PREFIX", &args->prefix, "the files PREFIX.bin and PREFIX.idx of a dataset");
    verb.value("--documents", &args->documents, "A-B",
               "documents A to B only, counted from 0, both included");
    verb.flag("--ids", &args->ids, "print ids instead of text");
    verb.flag("--keep-eod", &args->keep_eod, "print the appended end-of-document token too");
    verb.flag("--force", &args->force, "allow another tokenizer than that of the dataset");
    declare_tokenizer(verb, args->tokenizer);
}

}  // namespace lm::preprocess
