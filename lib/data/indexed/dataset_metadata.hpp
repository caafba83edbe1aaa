// SPDX-License-Identifier: Apache-2.0
// The metadata file P.json next to P.bin and P.idx: tokenizer, counts and checksums. Megatron
// neither writes nor reads it. Keys of version 1 (a reader ignores unknown keys and refuses another
// version):
//   format "lm-utils indexed dataset", version 1, tool "lm-preprocess 0.1.0"
//   documents, sequences, tokens     counts; documents > sequences only with --keep-empty
//   dtype                            "uint16" | "int32" | ...
//   largest_id                       the largest id in the .bin; -1 without tokens
//   eod_id                           id of the end-of-document token, or null
//   appended_eod                     whether each document ends with the token eod_id
//   tokenizer { type, digest, vocab_size, padded_vocab_size }
//                                    digest: text::Tokenizer::digest()
//     files [ { file, path, digest } ] optional: the files of a tokenizer that is not installed
//   bin { bytes, digest }, idx { bytes, digest }
//                                    sizes and digests of the whole files (lm::BlockDigester)
//   origin { ... }                   optional: the run that wrote the dataset (run_description.hpp)
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "base/types.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "io/json.hpp"

namespace lm::data {

// A file of a tokenizer: its name in a model of Hugging Face, the absolute path from which it was
// read, and the digest of its bytes.
struct TokenizerFileFacts {
    std::string name;
    std::string path;
    std::string digest;
};

struct TokenizerFacts {
    std::string type;    // "GPT2BPETokenizer"
    std::string digest;  // "xxh3:..."
    i64 vocab_size = 0;
    i64 padded_vocab_size = 0;
    std::vector<TokenizerFileFacts> files = {};
};

struct FileFacts {
    i64 bytes = 0;
    std::string digest;
};

struct DatasetMetadata {
    std::string tool;
    i64 documents = 0;
    i64 sequences = 0;
    i64 tokens = 0;
    TokenType dtype = TokenType::u16;
    i64 largest_id = -1;
    std::optional<i64> eod_id;
    bool appended_eod = false;
    TokenizerFacts tokenizer;
    FileFacts bin, idx;
    io::Json origin;  // null: unknown

    std::string to_json() const;
    static DatasetMetadata parse(std::string_view text, const std::string& path);
};

// Reads PREFIX.json. Returns nullopt when it does not exist. Throws Error(failure) when it is
// corrupt.
std::optional<DatasetMetadata> read_metadata(const std::string& prefix);
// Reads the metadata file of `dataset` and checks its counts, dtype and file sizes against the
// dataset. verify_dataset() checks the checksums.
std::optional<DatasetMetadata> read_metadata(const IndexedDataset& dataset);

}  // namespace lm::data
