// SPDX-License-Identifier: Apache-2.0
#include "sync/sync_target.hpp"

#include <unistd.h>

#include "base/error.hpp"
#include "io/lines.hpp"
#include "io/output_place.hpp"
#include "io/program.hpp"

namespace lm::sync {
namespace {

bool is_rclone_remote(const std::string& remote) {
    const io::ProgramResult result =
        io::run_program({"rclone", "listremotes", "--log-level", "ERROR"});
    return result.code == 0 &&
           ("\n" + result.output).find("\n" + remote + "\n") != std::string::npos;
}

}  // namespace

TargetKind target_kind(const std::string& name,
                       const std::function<bool(const std::string&)>& is_remote) {
    const size_t colon = name.find(':');
    if (colon == name.npos || name.find('/') < colon) return TargetKind::path;
    return is_remote(name.substr(0, colon + 1)) ? TargetKind::rclone : TargetKind::rsync;
}

std::unique_ptr<SyncTarget> SyncTarget::open(const std::string& name,
                                             const TransferOptions& options) {
    switch (target_kind(name, is_rclone_remote)) {
        case TargetKind::path:
            break;
        case TargetKind::rsync:
            return rsync_target(name, options);
        case TargetKind::rclone:
            return rclone_target(name, options);
    }
    io::refuse_file_as_parent(name);
    return path_target(name, options);
}

std::vector<std::string> SyncTarget::names_in(const std::string& output) {
    const auto lines = io::lines_of(output);
    return {lines.begin(), lines.end()};
}

bool SyncTarget::programs_show_progress() const {
    return progress_ && ::isatty(STDERR_FILENO) == 1;
}

bool SyncTarget::has_space(const std::string&, i64) {
    return true;
}

void SyncTarget::require_space(const std::string&) {}

void SyncTarget::drop_state(const std::string& name) {
    usage_error(name, "--weights-only-older-than: expected a local directory as DEST");
}

}  // namespace lm::sync
