// SPDX-License-Identifier: Apache-2.0
// The destination of lm-ckpt sync: a directory, host:path over rsync and ssh, or a remote of
// rclone. Each operation either completes or throws Error(failure). After a failed send_step(), the
// next call with the same step continues the transfer.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.hpp"

namespace lm::sync {

enum class TargetKind { path, rsync, rclone };
// Decides what `name` means: "host:path" is a remote of rclone when `is_remote("host:")`, else a
// host. A name without a colon, or with a slash before its first colon, is a path.
TargetKind target_kind(const std::string& name,
                       const std::function<bool(const std::string&)>& is_remote);

struct TransferOptions {
    std::optional<i64> bytes_per_second = {};  // nullopt: no limit
    // The steps to send are directories of links to files (ckpt::link()). In any other step, a link
    // could lead to files outside of the source.
    bool follow_links = false;
};

class SyncTarget {
  public:
    // Opens the destination `name` and writes nothing. Asks rclone for its remotes when `name` has
    // a colon.
    static std::unique_ptr<SyncTarget> open(const std::string& name,
                                            const TransferOptions& options);
    virtual ~SyncTarget() = default;

    // Returns whether the destination is not a directory of this machine.
    virtual bool is_remote() const { return true; }

    // `progress` is called during later transfers and comparisons of steps, with the bytes done and
    // the bytes in total; it may be empty. rsync and rclone do not call it: they print their
    // progress to stderr if stderr is a terminal.
    void set_progress(std::function<void(i64 done, i64 total)> progress) {
        progress_ = std::move(progress);
    }

    // Returns the names of the files in the destination, and not always those of directories. None
    // when the destination does not exist.
    virtual std::vector<std::string> files() = 0;
    // Creates the destination. Returns a local directory that holds the current `latest` and
    // manifests of the target. A path target returns its path. A remote target copies these files
    // to `cache` and returns `cache`.
    virtual std::string manifests(const std::string& cache) = 0;
    // Returns whether the target has enough free space for the local step `path`, whose files have
    // `bytes` bytes, or its free space is unknown.
    virtual bool has_space(const std::string& path, i64 bytes);
    // Throws Error(failure) when has_space() does not hold.
    virtual void require_space(const std::string& path);
    // Copies the local step `path` under a temporary name, then gives the complete copy the name of
    // the step.
    virtual void send_step(const std::string& path) = 0;
    // Copies the local file `path` to `name`, which appears only when the copy is complete.
    virtual void send_file(const std::string& path, const std::string& name) = 0;
    // Returns whether the target has a directory `name` that is not empty.
    virtual bool has_directory(const std::string& name) = 0;
    // Renames the step `from` to `to`, a name that the target does not have; creates the directory
    // that contains `to`.
    virtual void rename(const std::string& from, const std::string& to) = 0;
    virtual void remove_step(const std::string& name) = 0;
    // Returns whether a step at the target has the bytes of the local step `path`.
    virtual bool same_bytes(const std::string& path) = 0;
    // Returns whether the target supports drop_state(), which removes the optimizer state of a
    // step. Only a path does.
    virtual bool can_drop_state() const { return false; }
    virtual void drop_state(const std::string& name);

  protected:
    // Returns the lines of the output of a program.
    static std::vector<std::string> names_in(const std::string& output);
    // Returns whether rsync and rclone should print their progress.
    bool programs_show_progress() const;
    std::function<void(i64 done, i64 total)> progress_;
};

// The targets that SyncTarget::open() chooses from.
std::unique_ptr<SyncTarget> path_target(const std::string& path, const TransferOptions& options);
std::unique_ptr<SyncTarget> rsync_target(const std::string& name, const TransferOptions& options);
std::unique_ptr<SyncTarget> rclone_target(const std::string& name, const TransferOptions& options);

}  // namespace lm::sync
