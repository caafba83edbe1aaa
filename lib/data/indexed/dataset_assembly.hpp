// SPDX-License-Identifier: Apache-2.0
// Joins parts into one indexed dataset. The sizes of the parts determine where each byte goes, so
// several threads can place parts at the same time.
#pragma once

#include <string>
#include <vector>

#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/dataset_part.hpp"

namespace lm::data {

class DatasetAssembly {
  public:
    // `parts` are in the order of the input. `bin` and `idx` are the paths of the (temporary) files
    // to write.
    DatasetAssembly(std::vector<PartState> parts, TokenType type, std::string bin, std::string idx);

    i64 n_parts() const { return static_cast<i64>(parts_.size()); }
    const PartState& total() const { return total_; }  // its digests are not set
    i64 bin_bytes() const { return total_.bytes; }
    i64 idx_bytes() const;

    // Copies part `i`, whose files begin with `stem`, to its place and makes it durable. Without
    // `with_bin`, writes only the .idx, because the caller renames the .bin of a single part
    // instead of copying it.
    void place(i64 i, const std::string& stem, bool with_bin);

    // After all parts are placed, block_digest() computes the digest of each block of both files.
    // Blocks are numbered [0, n_blocks()); the blocks of the .bin come first. The .bin of a single
    // part has no blocks, because the part's digest is known. fill_in() receives the digests of all
    // blocks, in order, and sets counts, sizes and digests of `facts`.
    i64 n_blocks() const;
    std::string block_digest(i64 block) const;
    void fill_in(DatasetMetadata& facts, const std::vector<std::string>& block_digests) const;

  private:
    struct Start {  // offsets of a part in the dataset
        i64 bytes = 0, sequences = 0, documents = 0;
    };
    i64 n_bin_blocks() const;
    void place_index(i64 i, const std::string& stem, int idx);

    std::vector<PartState> parts_;
    TokenType type_;
    std::string bin_, idx_;
    std::vector<Start> starts_;
    PartState total_;
};

}  // namespace lm::data
