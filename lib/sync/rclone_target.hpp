// SPDX-License-Identifier: Apache-2.0
// A sync target that is a remote of rclone. An object store cannot rename a directory in one
// operation. The manifest, which makes a step complete, is therefore the last file of a step that
// gets its final name.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "io/program.hpp"
#include "sync/sync_target.hpp"

namespace lm::sync {

class RcloneTarget : public SyncTarget {
  public:
    // `name`: remote:path. `rate`: the largest number of bytes per second; nullopt: no limit.
    RcloneTarget(std::string name, std::optional<i64> rate);

    std::string manifests(const std::string& cache) override;
    void send_step(const std::string& path) override;
    void send_file(const std::string& path, const std::string& name) override;
    bool has_directory(const std::string& name) override;
    void rename(const std::string& from, const std::string& to) override;
    void remove_step(const std::string& name) override;
    bool same_bytes(const std::string& path) override;

  private:
    std::string remote(const std::string& name) const;
    void rclone(std::vector<std::string> words, bool must_succeed = true,
                io::Stdout to = io::Stdout::returned) const;

    std::string name_, limit_;
};

}  // namespace lm::sync
