// SPDX-License-Identifier: Apache-2.0
// A part of an indexed dataset: the tokens, lengths and documents of one part of the input. The
// files of a part grow. If the process is killed, a later process can append to them.
// DatasetAssembly joins the parts.
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
#include "io/json_fwd.hpp"

namespace lm::data {

// The size of a part at some point, and the digests of its files up to that point.
struct PartState {
    i64 bytes = 0, sequences = 0, documents = 0;
    i64 largest_id = -1;
    // True when some document has no sequence or several: STEM.documents then holds the number of
    // sequences of every document.
    bool counted = false;
    std::string bin_digest, lengths_digest, documents_digest;

    io::OrderedJson to_json() const;
    static PartState parse(const io::Json& object, const std::string& path);
};

// A growing file and the digest of its content.
class DigestedFile {
  public:
    explicit DigestedFile(io::AppendFile file) : file_(std::move(file)) {}

    using SizeAndDigest = std::pair<i64, std::string>;
    // Reads the file. Each entry of `wanted` (ascending sizes) is the size and digest of a possible
    // prefix of the file. Returns how many entries, beginning with the first, match the file. Calls
    // `check` often; `check` may throw.
    size_t count_matching(std::span<const SizeAndDigest> wanted,
                          const std::function<void()>& check);
    // Truncates the file to `size` bytes. Reads the file again for the digest, unless `size` is the
    // size of the last entry that count_matching() found to match.
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
    // Opens or creates STEM.bin, STEM.lengths and STEM.documents. When the files may have content,
    // call resume() before add(). `read_again`: yes if STEM.bin will be copied later.
    static DatasetPart open(const std::string& stem, TokenType type,
                            io::ReadAgain read_again = io::ReadAgain::yes);

    // Reads the files, and returns the number of leading `states` (ascending sizes) that match
    // prefixes of all files. Changes nothing. Calls `check` often; `check` may throw.
    size_t count_intact(std::span<const PartState> states, const std::function<void()>& check);
    // Truncates the files to `state`, one of the states that count_intact() found to match. If a
    // later state also matched a file, reads this file again for its digest.
    void resume(const PartState& state, const std::function<void()>& check);

    // Appends documents. tokens: the ids of all sequences, back to back. lengths: [sequences], in
    // tokens. sequences_per_document: [documents]. largest: the largest id among the tokens.
    void add(std::span<const std::byte> tokens, std::span<const i32> lengths,
             std::span<const i32> sequences_per_document, i64 largest);

    // Appends tokens of a document whose length is not known yet. The next add() must append the
    // rest of the document.
    void add_tokens(std::span<const std::byte> tokens, i64 largest);

    // Flushes the files and returns their state. Must not be called between add_tokens() and add().
    PartState state();
    void sync();

    static std::string bin_of(const std::string& stem) { return stem + ".bin"; }
    static std::string lengths_of(const std::string& stem) { return stem + ".lengths"; }
    static std::string documents_of(const std::string& stem) { return stem + ".documents"; }

  private:
    DatasetPart(TokenType type, io::AppendFile bin, io::AppendFile lengths,
                io::AppendFile documents)
        : type_(type),
          bin_(std::move(bin)),
          lengths_(std::move(lengths)),
          documents_(std::move(documents)) {}

    TokenType type_;
    DigestedFile bin_, lengths_, documents_;
    PartState state_;
    i64 ahead_ = 0;  // bytes from add_tokens() that no length covers yet
};

}  // namespace lm::data
