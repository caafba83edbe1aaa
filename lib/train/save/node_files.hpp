// SPDX-License-Identifier: Apache-2.0
// The data files of a checkpoint. The ranks of a node share one file for the weights and one file
// for the optimizer state. Each rank writes its pieces at its own places in these files, so a
// checkpoint of many ranks has few large files. The places do not change between saves, so the
// first rank of the node, its leader, plans them once. The leader also writes the headers of the
// files, and collects the list of their slices for the index.
//
// Why two files a node, and not one for each rank, one for each tensor, or one in all.
//
// A file for each rank is what most trainers write, and the simplest code: no plan, no exchange.
// With 9,984 ranks it made 20,125 files a step; a directory with 100 steps has two million, which
// the metadata servers of a shared file system feel at every `ls`, backup and `rm`. A quota of
// inodes is reached before that of bytes. Files for each node are 2,653 with all index parts.
//
// One file in all would need every node to write one inode. Lustre and GPFS hand out locks on
// ranges, and two nodes that write adjacent ranges take turns. Inside of a node there is one client
// of the file system and no such lock, so that its ranks write at full rate next to each other.
//
// Weights and optimizer are apart because they live apart: the weights (2 of 14 bytes a parameter
// in bf16) are read by generate, score, conversion and publication, and are kept after the
// optimizer state has been deleted by prune --weights-only-older-than.
//
// The places in a file are the same at every save, so that the ranks agree on them once (plan()),
// and a save exchanges nothing before its first byte.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ckpt/format/data_file.hpp"
#include "ckpt/history/save.hpp"
#include "comm/group.hpp"
#include "train/save/save_report.hpp"

namespace lm::train {

class NodeFiles {
  public:
    // Plans the files for `pieces`. `node`: the ranks of this node, ordered by rank. `world`
    // outlives this object. Collective.
    static std::unique_ptr<NodeFiles> plan(comm::Group& world, std::unique_ptr<comm::Group> node,
                                           std::vector<ckpt::TensorInfo> tensors,
                                           const std::vector<ckpt::Piece>& pieces);

    // Returns the largest number of files of a checkpoint, equal on all ranks; the directory of the
    // checkpoint counts as a file.
    i64 n_files() const;

    // Writes the pieces of this rank, in the same order as in plan(). Any thread may call write(),
    // because write() uses no group. Returns the digests of the written blocks, for write_index().
    std::string write(const std::string& directory, const std::vector<ckpt::Piece>& pieces) const;
    // Writes the index parts. On entry `own` has the digests of this rank. On return the report of
    // rank 0 has the references to all parts, one per line, or a failure. Collective.
    void write_index(const std::string& directory, SaveReport& own);
    // Does the work of write_index() for a `directory` that the nodes do not share, so each leader
    // writes an index part with only the files of its own node. Collective.
    void write_node_index(const std::string& directory, SaveReport& own);

    comm::Group& node() const { return *node_; }  // the ranks of this node; member 0 is its leader
    i64 number() const { return number_; }        // number of this node
    i64 n_nodes() const { return n_nodes_; }
    bool leads() const { return node_->rank() == 0; }
    i64 node_bytes() const;  // size of the data files of this node; valid on its leader

  private:
    // The place of this rank's share of a file.
    struct Place {
        i64 planned_size = 0;  // size of the share
        i64 shift = 0;         // added to the offsets of ckpt::plan_shares()
        i64 file_size = 0;
        std::string header = {};  // on the leader
    };
    // The place of one rank's digests in a file of the node's index part.
    struct DigestRange {
        size_t file = 0;
        size_t begin = 0;
        size_t n = 0;
    };

    NodeFiles(comm::Group& world, std::unique_ptr<comm::Group> node,
              std::vector<ckpt::TensorInfo> tensors)
        : world_(world), node_(std::move(node)), tensors_(std::move(tensors)) {}
    void split_leaders();
    std::vector<ckpt::IndexPart> gather_plans(ckpt::IndexPart own);
    std::string place(std::vector<ckpt::IndexPart> plans);
    void accept_digests(int member, const std::string& digests);
    void gather_digests(SaveReport& own);

    comm::Group& world_;
    std::unique_ptr<comm::Group> node_;
    std::vector<ckpt::TensorInfo> tensors_;
    i64 number_ = 0;   // number of this node
    i64 n_nodes_ = 1;  // nodes in the world
    // One index part has the files of a block of nodes. The first leader of the block writes this
    // part.
    std::unique_ptr<comm::Group> block_;          // on leaders
    std::unique_ptr<comm::Group> block_writers_;  // on the first leaders of the blocks
    std::map<std::string, Place> places_;         // by file name
    // Set on leaders only:
    ckpt::IndexPart part_;  // files of the node, with the digests of the last save
    std::vector<std::vector<DigestRange>> digests_;  // by member of the node
};

}  // namespace lm::train
