// SPDX-License-Identifier: Apache-2.0
// Checkpoints written by all ranks. Each rank writes its pieces into the files of its node. Rank 0
// makes the checkpoint visible when all ranks have finished. An error on one rank is thrown on all
// ranks, and earlier checkpoints stay unchanged.
#pragma once

#include <exception>
#include <optional>
#include <string>
#include <vector>

#include "ckpt/history/save.hpp"
#include "comm/group.hpp"
#include "train/save/node_files.hpp"
#include "train/save/save_report.hpp"
#include "train/save/save_room.hpp"

namespace lm::train {

// Claims the next generation of `directory` for this run, and returns it on all ranks. `start`: the
// step that the run resumes from. Collective.
ckpt::Generation claim_generation(comm::Group& world, const std::string& directory,
                                  const std::optional<ckpt::Tip>& start);

// Parses the references to index parts that NodeFiles::write_index() or write_node_index() has
// gathered, one per line.
std::vector<ckpt::IndexReference> references_from(const std::string& lines);

// One save by all ranks: begin(), then write() on each rank, then commit(). begin() and commit()
// throw JointError naming the rank that failed and its host, after all files of the checkpoint have
// been removed.
class DistributedSave {
  public:
    // `world` and `files` outlive this object.
    DistributedSave(comm::Group& world, NodeFiles& files, const ckpt::Generation& generation,
                    ckpt::SaveInfo info);

    i64 iteration() const { return info_.counters.iteration; }

    // On rank 0, checks that the file system has the free space `need`, and creates the temporary
    // directory. Collective.
    void begin(const RoomNeed& need);
    // Writes this rank's pieces. Any thread may call write(), because it uses no group. commit()
    // throws the error of a failed write().
    void write(const std::vector<ckpt::Piece>& pieces) noexcept;
    // Makes the checkpoint visible when all ranks have written their files. On rank 0, returns its
    // path and size. Collective.
    ckpt::SaveResult commit();

  private:
    template <typename Body>
    void or_abandon(const Body& body);
    void publish(ckpt::SaveResult& result);
    std::string directory() const { return ckpt::temporary_path(generation_, iteration()); }

    comm::Group& world_;
    NodeFiles& files_;
    ckpt::Generation generation_;
    ckpt::SaveInfo info_;
    SaveReport own_;  // the result of write()
};

}  // namespace lm::train
