// SPDX-License-Identifier: Apache-2.0
// Puts parts together to one indexed dataset. Once the sizes of all parts are known, so is the
// place of every byte: any number of threads and processes place their parts at the same time.
#pragma once

#include <string>
#include <vector>

#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/dataset_part.hpp"

namespace lm::data {

class DatasetAssembly {
  public:
    // `parts` in order; BIN and IDX are the (temporary) files to make.
    DatasetAssembly(std::vector<PartState> parts, TokenType type, std::string bin, std::string idx);

    i64 n_parts() const { return static_cast<i64>(parts_.size()); }
    const PartState& total() const { return total_; }  // without digests
    i64 bin_bytes() const { return total_.bytes; }
    i64 idx_bytes() const;

    // Writes what part `i`, whose files are called `stem`, contributes, and makes it durable. With
    // `with_bin` false only the .idx: BIN is the only part's own file.
    void place(i64 i, const std::string& stem, bool with_bin);

    // Digests of BIN and IDX: blocks [0, n_blocks()) of both files, one after the other, after all
    // parts are placed; a single part knows the digest of BIN already. Then the digests of all
    // blocks, in order, make the facts of both files.
    i64 n_blocks() const;
    std::string block_digest(i64 block) const;
    void fill_in(DatasetMetadata& facts, const std::vector<std::string>& block_digests) const;

  private:
    struct Start {  // of a part, in the whole
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
