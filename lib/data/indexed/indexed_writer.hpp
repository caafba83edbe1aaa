// SPDX-License-Identifier: Apache-2.0
// Writes an indexed dataset in constant memory: writes lengths to the unfinished .idx and reads
// them back at the end. P.bin is published first, then the metadata file, then P.idx. So when an
// .idx exists, the dataset is complete.
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

// Removes PREFIX.idx durably, if it exists. Call this before replacing a dataset, so that no reader
// combines new tokens with an old index.
void remove_index(const std::string& prefix);

class IndexedWriter {
  public:
    // Creates temporary files next to P.bin, P.idx and P.json. Throws Error(usage) when one of the
    // three exists and `overwrite` is no. The destructor removes the temporary files unless
    // commit() was called.
    static IndexedWriter create(std::string prefix, TokenType type, io::Overwrite overwrite);

    // Appends documents of one sequence each. `lengths` are in tokens; `tokens` are the ids of all
    // sequences, back to back and little endian. Throws Error(failure) when a write fails.
    void add(std::span<const std::byte> tokens, std::span<const i32> lengths);
    // Appends documents of any number of sequences. A document of 0 sequences has no tokens, only
    // an entry in the document index (Megatron-LM since 23.06).
    void add(std::span<const std::byte> tokens, std::span<const i32> lengths,
             std::span<const i32> sequences_per_document);

    i64 n_sequences() const { return n_sequences_; }
    i64 n_documents() const { return n_documents_; }
    i64 n_tokens() const { return n_bytes_ / size_of(type_); }
    const std::string& prefix() const { return prefix_; }

    // Completes and publishes the three files. Returns `facts` with counts, dtype, sizes and
    // digests filled in.
    DatasetMetadata commit(DatasetMetadata facts);
    // Like commit(), but for an unknown tokenizer: writes no metadata file, and removes an existing
    // metadata file.
    void commit_without_metadata();

  private:
    IndexedWriter(std::string prefix, TokenType type, io::Overwrite overwrite, io::AtomicFile bin,
                  io::AtomicFile metadata, io::AtomicFile idx);

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
    // The number of sequences of each document, [documents] i32. Created at the first document that
    // has no sequence or several.
    std::optional<io::AtomicFile> spool_;
    BlockDigester bin_digest_;
    i64 n_sequences_ = 0, n_documents_ = 0, n_bytes_ = 0;
};

}  // namespace lm::data
