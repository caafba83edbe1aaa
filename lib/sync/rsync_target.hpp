// SPDX-License-Identifier: Apache-2.0
// A sync target host:path, over rsync and ssh. rsync verifies each file that it transfers. The
// environment variable RSYNC_RSH replaces the command `ssh`.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sync/sync_target.hpp"

namespace lm::sync {

class RsyncTarget : public SyncTarget {
  public:
    // `name`: host:path. `rate`: the largest number of bytes per second; nullopt: no limit.
    RsyncTarget(const std::string& name, std::optional<i64> rate);

    std::string manifests(const std::string& cache) override;
    void send_step(const std::string& path) override;
    void send_file(const std::string& path, const std::string& name) override;
    bool has_directory(const std::string& name) override;
    void rename(const std::string& from, const std::string& to) override;
    void remove_step(const std::string& name) override;
    bool same_bytes(const std::string& path) override;

  private:
    std::string remote(const std::string& name) const;
    // Runs `command` in the shell of the host. Throws Error(failure) when it fails.
    std::string on_host(const std::string& command) const;

    std::string name_, host_, path_, ssh_;
    std::vector<std::string> rsync_;  // the words that all calls of rsync start with
};

}  // namespace lm::sync
