// SPDX-License-Identifier: Apache-2.0
// Writing an indexed dataset: streaming, in constant memory whatever the number of documents
// (lengths go straight into the unfinished .idx and are read back at the end). P.bin appears first,
// then the side file, P.idx last: an .idx means that everything is there.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "base/hash.hpp"
#include "base/types.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"

namespace lm::data {

// Before a dataset is replaced: takes P.idx away, durably, so that nobody ever reads new tokens by
// an old index. Nothing there is fine.
void withdraw(const std::string& prefix);

class IndexedWriter {
  public:
    // Opens temporary files beside P.bin, P.idx and P.json; Error(usage) when one of the three
    // exists and `overwrite` is no. Destroyed before commit(), it leaves nothing behind.
    IndexedWriter(std::string prefix, TokenType type, io::Overwrite overwrite);

    // Appends sequences, one document each: `lengths` in tokens, `tokens` their little-endian ids
    // back to back. Throws Error(failure) when nothing can be written.
    void add(std::span<const std::byte> tokens, std::span<const i32> lengths);
    // The same with any number of sequences per document; 0 is a document without tokens, which
    // only the document index remembers (Megatron-LM since 23.06).
    void add(std::span<const std::byte> tokens, std::span<const i32> lengths,
             std::span<const i32> sequences_per_document);

    i64 n_sequences() const { return n_sequences_; }
    i64 n_documents() const { return n_documents_; }
    i64 n_tokens() const { return n_bytes_ / size_of(type_); }
    const std::string& prefix() const { return prefix_; }

    // Completes and publishes the three files; fills in counts, dtype, sizes and digests of `facts`
    // and returns it.
    DatasetMetadata commit(DatasetMetadata facts);
    // The same without a side file, for tokens whose tokenizer is not known; an old one is removed.
    void commit_without_metadata();

  private:
    void complete_idx();
    void publish(bool with_metadata);
    void write_pointers();
    void write_documents();
    void start_document_spool();
    std::string idx_digest();

    std::string prefix_;
    TokenType type_;
    io::Overwrite overwrite_;
    io::AtomicFile bin_, metadata_, idx_;
    // Sequences per document; made only once a document has another number than one.
    std::optional<io::AtomicFile> spool_;
    BlockDigester bin_digest_;
    i64 n_sequences_ = 0, n_documents_ = 0, n_bytes_ = 0;
};

}  // namespace lm::data
