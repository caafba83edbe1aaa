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

    // Returns a local directory with `latest` and the manifests of all steps at the target, of now.
    // The directory of a remote target is `cache`, which is made equal to it.
    virtual std::string manifests(const std::string& cache) = 0;
    // Copies the local step `path`. It gets its name at the target when it is complete there.
    virtual void send_step(const std::string& path) = 0;
    // Copies a local file to NAME, whole or not at all.
    virtual void send_file(const std::string& path, const std::string& name) = 0;
    virtual void rename(const std::string& from, const std::string& to) = 0;
    virtual void remove_step(const std::string& name) = 0;
    // Returns whether a step at the target has the bytes of the local step `path`.
    virtual bool same_bytes(const std::string& path) = 0;
    // A path has only this one: removes the optimizer state of a step.
    virtual bool can_drop_state() const { return false; }
    virtual void drop_state(const std::string& name);
};

}  // namespace lm::ckpt_tool
