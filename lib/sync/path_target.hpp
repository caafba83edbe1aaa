// SPDX-License-Identifier: Apache-2.0
// A sync target that is a directory of this machine. send_step() verifies every byte.
#pragma once

#include <optional>
#include <string>

#include "sync/sync_target.hpp"

namespace lm::sync {

class PathTarget : public SyncTarget {
  public:
    // `path` exists. `rate`: the largest number of bytes per second; nullopt: no limit.
    PathTarget(std::string path, std::optional<i64> rate);

    bool is_remote() const override { return false; }
    std::string manifests(const std::string&) override { return path_; }
    void require_space(const std::string& path) override;
    void send_step(const std::string& path) override;
    void send_file(const std::string& path, const std::string& name) override;
    bool has_directory(const std::string& name) override;
    void rename(const std::string& from, const std::string& to) override;
    void remove_step(const std::string& name) override;
    bool same_bytes(const std::string& path) override;
    bool can_drop_state() const override { return true; }
    void drop_state(const std::string& name) override;

  private:
    std::string in(const std::string& name) const { return path_ + "/" + name; }
    // Returns a function that reports `done` of `total` bytes to the callback of set_progress(); an
    // empty function when there is no callback.
    std::function<void(i64 done)> part_of(i64 total) const;

    std::string path_;
    std::optional<i64> rate_;
};

}  // namespace lm::sync
