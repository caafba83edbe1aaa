// SPDX-License-Identifier: Apache-2.0
// A part of an indexed dataset in the making: tokens, lengths and documents of one stretch of the
// input, in files of their own that grow and can be gone on with after a kill. DatasetAssembly puts
// parts together.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/hash.hpp"
#include "base/types.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "io/append_file.hpp"
#include "io/json.hpp"

namespace lm::data {

// How far a part has come. The digests are those of its files up to there.
struct PartState {
    i64 bytes = 0, sequences = 0, documents = 0;
    i64 largest_id = -1;
    // Whether some document has another number of sequences than one: then STEM.documents says how
    // many each has.
    bool counted = false;
    std::string bin_digest, lengths_digest, documents_digest;

    io::OrderedJson to_json() const;
    static PartState parse(const io::Json& object, const std::string& path);
};

// A growing file and the digest of what it holds.
class DigestedFile {
  public:
    explicit DigestedFile(const std::string& path, io::ReadAgain read_again = io::ReadAgain::yes);

    using SizeAndDigest = std::pair<i64, std::string>;
    // Reads the file and returns how many of the leading `wanted` it agrees with; their sizes
    // ascend. `check` is called often and may throw.
    size_t count_matching(std::span<const SizeAndDigest> wanted,
                          const std::function<void()>& check);
    // Reads the file once more, unless count_matching() found just that much of it in order.
    void cut_back(i64 size, const std::function<void()>& check);
    void append(std::span<const std::byte> bytes);
    std::string flush_and_digest();
    void sync() { file_.sync(); }

  private:
    io::AppendFile file_;
    BlockDigester digest_;
};

class DatasetPart {
  public:
    // Opens STEM.bin, STEM.lengths and STEM.documents, which may hold work of an earlier process:
    // resume() comes first then.
    // `read_again` is about STEM.bin: whether it is copied somewhere else when it is complete.
    DatasetPart(const std::string& stem, TokenType type,
                io::ReadAgain read_again = io::ReadAgain::yes);

    // Reads what the files hold and returns how many of `states` (ascending) they agree with.
    // Nothing is changed. `check` is called often and may throw.
    size_t count_intact(std::span<const PartState> states, const std::function<void()>& check);
    // Cuts everything back to `state`, one of those that count_intact() agreed with. A file that
    // agreed with later ones is read once more.
    void resume(const PartState& state, const std::function<void()>& check);

    // Appends documents: `tokens` back to back, the lengths of their sequences, and how many
    // sequences each document has. `largest` is the largest id among the tokens.
    void add(std::span<const std::byte> tokens, std::span<const i32> lengths,
             std::span<const i32> sequences_per_document, i64 largest);

    // Appends tokens of a document before its length is known: the next add() has the rest of it.
    void add_tokens(std::span<const std::byte> tokens, i64 largest);

    // What was added so far, handed to the system; not within a document.
    PartState state();
    void sync();

    static std::string bin_of(const std::string& stem) { return stem + ".bin"; }
    static std::string lengths_of(const std::string& stem) { return stem + ".lengths"; }
    static std::string documents_of(const std::string& stem) { return stem + ".documents"; }

  private:
    TokenType type_;
    DigestedFile bin_, lengths_, documents_;
    PartState state_;
    i64 ahead_ = 0;  // bytes of tokens without a length
};

}  // namespace lm::data
