// SPDX-License-Identifier: Apache-2.0
// Joins parts to one indexed dataset. The sizes of all parts decide the place of every byte, so any
// number of threads and processes can place their parts at the same time.
#pragma once

#include <string>
#include <vector>

#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/dataset_part.hpp"

namespace lm::data {

class DatasetAssembly {
  public:
    // `parts` in order; `bin` and `idx` are the paths of the (temporary) files to write.
    DatasetAssembly(std::vector<PartState> parts, TokenType type, std::string bin, std::string idx);

    i64 n_parts() const { return static_cast<i64>(parts_.size()); }
    const PartState& total() const { return total_; }  // without digests
    i64 bin_bytes() const { return total_.bytes; }
    i64 idx_bytes() const;

    // Copies part `i`, whose files begin with `stem`, to its place and makes it durable. Without
    // `with_bin` writes the .idx only: the .bin of a single part is renamed by the caller.
    void place(i64 i, const std::string& stem, bool with_bin);

    // After all parts are placed: the digests of the blocks of both files, numbered [0,
    // n_blocks()), those of the .bin first. A single part has its digest already, so its .bin has
    // no blocks. fill_in() combines the digests of all blocks, in order, and sets counts, sizes and
    // digests.
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
