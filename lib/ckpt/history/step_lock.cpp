// SPDX-License-Identifier: Apache-2.0
#include "ckpt/history/step_lock.hpp"

#include <fcntl.h>
#include <sys/file.h>

#include <cerrno>

#include "base/log.hpp"
#include "ckpt/format/manifest.hpp"
#include "io/checked.hpp"

namespace lm::ckpt {
namespace {

// Returns an invalid descriptor for a step without a manifest. Such a step needs no lock, because
// it is incomplete and no program copies it.
io::Fd open_manifest(const std::string& step_path) {
    const std::string path = fmt::format("{}/{}", step_path, manifest_file);
    return io::Fd(io::checked::open_regular(path, O_RDONLY));
}

// Any error except EINTR means that the file system has no locks, and is ignored.
void lock(const io::Fd& fd, int operation) {
    while (::flock(fd.get(), operation) != 0 && errno == EINTR) continue;
}

}  // namespace

StepLock StepLock::to_read(const std::string& step_path) {
    io::Fd fd = open_manifest(step_path);
    if (fd.valid()) lock(fd, LOCK_SH);
    return StepLock(std::move(fd));
}

StepLock StepLock::to_remove(const std::string& step_path) {
    io::Fd fd = open_manifest(step_path);
    if (fd.valid() && ::flock(fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK) {
        note("{}: is being copied: waiting for the end of the copy", step_path);
        lock(fd, LOCK_EX);
    }
    return StepLock(std::move(fd));
}

}  // namespace lm::ckpt
