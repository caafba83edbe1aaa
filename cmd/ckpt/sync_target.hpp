// SPDX-License-Identifier: Apache-2.0
// The destination of lm-ckpt sync: a directory, host:path over rsync and ssh, or a remote of
// rclone. Each operation either completes or throws Error(failure); a transfer that failed is
// continued by the next call with the same arguments.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "base/types.hpp"

namespace lm::ckpt_tool {

class SyncTarget {
  public:
    // Decides what `name` means: "host:path" is a remote of rclone when rclone has one named
    // "host", else a host. A name with a slash before its first colon is a path.
    static std::unique_ptr<SyncTarget> open(const std::string& name,
                                            std::optional<i64> bytes_per_second);
    virtual ~SyncTarget() = default;

    // Returns a local directory that holds the current `latest` and manifests of the target. For a
    // path that is the target itself; for a remote target, copies these files to `cache` and
    // returns it.
    virtual std::string manifests(const std::string& cache) = 0;
    // Copies the local step `path`. The copy gets the name of the step when it is complete.
    virtual void send_step(const std::string& path) = 0;
    // Copies a local file to NAME, whole or not at all.
    virtual void send_file(const std::string& path, const std::string& name) = 0;
    virtual void rename(const std::string& from, const std::string& to) = 0;
    virtual void remove_step(const std::string& name) = 0;
    // Returns whether a step at the target has the bytes of the local step `path`.
    virtual bool same_bytes(const std::string& path) = 0;
    // Whether drop_state() is supported, which removes the optimizer state of a step: only for a
    // path.
    virtual bool can_drop_state() const { return false; }
    virtual void drop_state(const std::string& name);
};

}  // namespace lm::ckpt_tool
