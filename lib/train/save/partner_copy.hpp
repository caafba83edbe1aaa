// SPDX-License-Identifier: Apache-2.0
// Copies the files that a node has written to its partner node (ckpt/history/local_steps.hpp),
// over the communicator. The ranks that have the same index on their nodes form a lane. Each lane
// carries its share of the blocks, one block at a time, so a rank needs memory for only two
// blocks.
#pragma once

#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/format/index.hpp"
#include "comm/group.hpp"
#include "train/save/node_files.hpp"

namespace lm::train {

class PartnerCopy {
  public:
    // Forms the lanes. `files` outlives this object. Collective.
    static std::unique_ptr<PartnerCopy> connect(comm::Group& world, NodeFiles& files);

    // Returns the bytes of the files that this node receives. Valid on leaders.
    i64 incoming_bytes() const { return incoming_bytes_; }

    // Sends the data files and the index part of this node in `directory` to the partner, and
    // writes the files that this node receives, durably, into its own `directory`. Returns the
    // first error of a file on this rank, or nullptr. Collective.
    std::exception_ptr exchange(const std::string& directory);

  private:
    explicit PartnerCopy(NodeFiles& files) : files_(files) {}
    template <typename Body>
    void attempt(const Body& body);
    std::vector<std::string> exchange_indexes(const std::string& own);
    void create_files(const std::string& directory, const std::vector<std::string>& indexes);
    void exchange_blocks(const std::string& directory, const std::string& own,
                         const std::vector<std::string>& indexes);

    NodeFiles& files_;
    std::unique_ptr<comm::Group>
        lane_;  // nullptr: this rank has no lane; members: one rank of each node
    int n_lanes_ = 0;
    std::vector<int> sources_;  // nodes of which this node keeps copies
    i64 incoming_bytes_ = 0;
    std::exception_ptr error_;
};

}  // namespace lm::train
