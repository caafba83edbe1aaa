// SPDX-License-Identifier: Apache-2.0
#include "data/indexed/indexed_writer.hpp"

#include <algorithm>
#include <numeric>
#include <vector>

#include "base/error.hpp"
#include "io/checked.hpp"

namespace lm::data {
namespace {

template <typename T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
    return std::as_bytes(std::span(values));
}

// Calls use(values) for each block of the [n] i32 values at `offset` of `file`.
template <typename Use>
void for_each_block(io::AtomicFile& file, i64 offset, i64 n, Use use) {
    std::vector<i32> values;
    for (i64 begin = 0; begin < n; begin += idx_entries_at_once) {
        values.resize(static_cast<size_t>(std::min(idx_entries_at_once, n - begin)));
        file.read_back(std::as_writable_bytes(std::span(values)), offset + 4 * begin);
        use(values);
    }
}

}  // namespace

void remove_index(const std::string& prefix) {
    if (!io::exists(idx_path(prefix))) return;
    io::checked::unlink(idx_path(prefix));
    io::checked::fsync_parent_of(idx_path(prefix));
}

IndexedWriter::IndexedWriter(std::string prefix, TokenType type, io::Overwrite overwrite,
                             io::AtomicFile bin, io::AtomicFile metadata, io::AtomicFile idx)
    : prefix_(std::move(prefix)),
      type_(type),
      overwrite_(overwrite),
      bin_(std::move(bin)),
      metadata_(std::move(metadata)),
      idx_(std::move(idx)) {}

IndexedWriter IndexedWriter::create(std::string prefix, TokenType type, io::Overwrite overwrite) {
    auto bin = io::AtomicFile::create(bin_path(prefix), overwrite);
    auto metadata = io::AtomicFile::create(metadata_path(prefix), overwrite);
    auto idx = io::AtomicFile::create(idx_path(prefix), overwrite);
    idx.write(std::string(idx_header_bytes, '\0'));
    return {std::move(prefix),   type,          overwrite, std::move(bin),
            std::move(metadata), std::move(idx)};
}

void IndexedWriter::add(std::span<const std::byte> tokens, std::span<const i32> lengths) {
    const i64 total = std::accumulate(lengths.begin(), lengths.end(), i64{0});
    LM_CHECK(total * size_of(type_) == static_cast<i64>(tokens.size()),
             "expected {} bytes of tokens, which is the sum of the lengths, got {}",
             total * size_of(type_), tokens.size());
    bin_.write(tokens);
    bin_digest_.update(tokens);
    idx_.write(std::as_bytes(lengths));
    if (spool_) spool_->write(bytes_of(std::vector<i32>(lengths.size(), 1)));
    n_sequences_ += static_cast<i64>(lengths.size());
    n_documents_ += static_cast<i64>(lengths.size());
    n_bytes_ += static_cast<i64>(tokens.size());
}

void IndexedWriter::add(std::span<const std::byte> tokens, std::span<const i32> lengths,
                        std::span<const i32> sequences_per_document) {
    const auto is_one = [](i32 n) { return n == 1; };
    if (std::ranges::all_of(sequences_per_document, is_one)) return add(tokens, lengths);
    const i64 sum =
        std::accumulate(sequences_per_document.begin(), sequences_per_document.end(), i64{0});
    LM_CHECK(sum == static_cast<i64>(lengths.size()),
             "the documents have {} sequences in total, but {} lengths of sequences are given", sum,
             lengths.size());
    if (!spool_) start_document_spool();
    // While spool_ is empty, add() counts each sequence as a document and does not write the number
    // of sequences. After add(), this function writes the numbers of sequences and corrects the
    // number of documents.
    const i64 documents = n_documents_;
    std::optional<io::AtomicFile> spool = std::move(spool_);
    spool_.reset();
    add(tokens, lengths);
    spool_ = std::move(spool);
    spool_->write(std::as_bytes(sequences_per_document));
    n_documents_ = documents + static_cast<i64>(sequences_per_document.size());
}

void IndexedWriter::start_document_spool() {
    spool_ = io::AtomicFile::create(prefix_ + ".documents", io::Overwrite::no);
    const std::vector<i32> ones(static_cast<size_t>(idx_entries_at_once), 1);
    for (i64 begin = 0; begin < n_documents_; begin += idx_entries_at_once) {
        const i64 n = std::min(idx_entries_at_once, n_documents_ - begin);
        spool_->write(bytes_of(ones).first(static_cast<size_t>(4 * n)));
    }
}

void IndexedWriter::write_pointers() {
    i64 pointer = 0;
    std::vector<i64> pointers;
    for_each_block(idx_, idx_header_bytes, n_sequences_, [&](const std::vector<i32>& lengths) {
        pointers.clear();
        for (const i32 length : lengths) {
            pointers.push_back(pointer);
            pointer += length * size_of(type_);
        }
        idx_.write(bytes_of(pointers));
    });
}

void IndexedWriter::write_documents() {
    i64 sequence = 0;
    std::vector<i64> entries = {0};
    idx_.write(bytes_of(entries));
    const auto write_block = [&](const std::vector<i32>& counts) {
        entries.clear();
        for (const i32 count : counts) entries.push_back(sequence += count);
        idx_.write(bytes_of(entries));
    };
    if (spool_) return for_each_block(*spool_, 0, n_documents_, write_block);
    while (sequence < n_sequences_) {
        const i64 n = std::min(idx_entries_at_once, n_sequences_ - sequence);
        write_block(std::vector<i32>(static_cast<size_t>(n), 1));
    }
}

std::string IndexedWriter::idx_digest() {
    BlockDigester digester;
    std::vector<std::byte> block;
    for (i64 at = 0; at < idx_.size(); at += static_cast<i64>(block.size())) {
        block.resize(static_cast<size_t>(std::min(i64{1} << 22, idx_.size() - at)));
        idx_.read_back(block, at);
        digester.update(block);
    }
    return digester.finish();
}

void IndexedWriter::complete_idx() {
    write_pointers();
    write_documents();
    idx_.write_at(to_bytes({type_, n_sequences_, n_documents_ + 1}), 0);
}

void IndexedWriter::publish(bool with_metadata) {
    // All files are durable before any file gets its final name. The old .idx is removed before the
    // new .bin gets its name, so a reader never combines new tokens with an old index.
    bin_.sync();
    if (with_metadata) metadata_.sync();
    idx_.sync();
    if (overwrite_ == io::Overwrite::yes) remove_index(prefix_);
    bin_.commit();
    if (with_metadata) {
        metadata_.commit();
    } else if (io::exists(metadata_.path())) {
        io::checked::unlink(metadata_.path());
    }
    idx_.commit();
}

DatasetMetadata IndexedWriter::commit(DatasetMetadata facts) {
    complete_idx();
    facts.documents = n_documents_;
    facts.sequences = n_sequences_;
    facts.tokens = n_tokens();
    facts.dtype = type_;
    facts.bin = {n_bytes_, bin_digest_.finish()};
    facts.idx = {idx_.size(), idx_digest()};
    metadata_.write(facts.to_json());
    publish(true);
    return facts;
}

void IndexedWriter::commit_without_metadata() {
    complete_idx();
    publish(false);
}

}  // namespace lm::data
