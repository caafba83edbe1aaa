// SPDX-License-Identifier: Apache-2.0
// --local-save: saves local steps (ckpt/history/local_steps.hpp) of a run. A local save is
// synchronous. The loop continues only after all hosts have all their files, so that the loss of a
// host costs no iterations before the last local save. The files are written directly from the
// state, so a local save needs memory for only a few blocks of a file. A failed local save is a
// warning and does not end the training.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/error.hpp"
#include "ckpt/history/save.hpp"
#include "comm/group.hpp"
#include "io/directory.hpp"
#include "train/save/node_files.hpp"
#include "train/save/partner_copy.hpp"

namespace lm::train {

// Returns the directory of this host in the directory of --local-save.
std::string local_directory_of_host(const std::string& local_save);
// Opens the local directory `name` of a host. Throws Error(failure) when other users own it or can
// write there. In /dev/shm every user can make a directory of this name, with steps that a run
// would load.
io::Directory open_local_directory(const std::string& name);

class LocalSaver {
  public:
    // Creates the directory of each host in `local_save`. Removes the temporary directories of
    // killed saves, and the steps that are neither `loaded` (the step from which the run starts)
    // nor its ancestors. Keeps a step whose manifest cannot be read, and prints a warning. Throws
    // Error(usage) when the directory has steps of a run with another --save. `generation`: this
    // run's generation in --save, whose lineage is needed on rank 0 only. `tokenizer`: the files
    // of the tokenizer, needed on rank 0 only. `world` and `files` outlive this object. Collective.
    static std::unique_ptr<LocalSaver> open(comm::Group& world, NodeFiles& files,
                                            const ckpt::Generation& generation,
                                            const std::string& local_save,
                                            const std::optional<ckpt::Tip>& loaded,
                                            const std::vector<ckpt::TokenizerFile>& tokenizer);

    // Saves `pieces`, this rank's part of the state, as a local step. `info` is needed on rank 0.
    // Returns whether the step is complete; otherwise rank 0 has warned. Throws JointError only
    // when a newer run has superseded this one. Collective.
    bool save(const ckpt::SaveInfo& info, const std::vector<ckpt::Piece>& pieces);

  private:
    LocalSaver(comm::Group& world, NodeFiles& files, ckpt::Generation generation, std::string name)
        : world_(world),
          files_(files),
          generation_(std::move(generation)),
          name_(std::move(name)) {}
    std::string final_path() const;
    std::string temporary() const;
    void prepare_directory(const std::optional<ckpt::Tip>& loaded) const;
    void share(const std::vector<ckpt::TokenizerFile>& tokenizer);
    void begin();
    std::string write(const ckpt::SaveInfo& info, const std::vector<ckpt::Piece>& pieces);
    void publish(const std::string& manifest);
    void abandon() const noexcept;
    void make_room() const;
    void remove_older(i64 before, size_t n_kept) const;

    comm::Group& world_;
    NodeFiles& files_;
    ckpt::Generation generation_;
    std::string name_;                        // directory of this host
    std::optional<io::Directory> directory_;  // the same, open
    std::unique_ptr<PartnerCopy> partner_;
    std::vector<ckpt::TokenizerFile> tokenizer_;  // on the leaders of hosts
    i64 iteration_ = 0;
};

}  // namespace lm::train
