// SPDX-License-Identifier: Apache-2.0
// Locks of a step (flock(2) on its manifest), between programs that read it for a long time, such
// as copies, and programs that remove or replace it. A lock ends with its process, even after a
// kill. On a file system without locks every lock succeeds.
#pragma once

#include <string>

#include "io/file.hpp"

namespace lm::ckpt {

// Holds the lock until it is destroyed.
class StepLock {
  public:
    // Acquires the lock for reading, which several programs may hold at once. Blocks while another
    // program removes the step.
    static StepLock to_read(const std::string& step_path);
    // Acquires the lock for removing. Blocks until no program reads the step; a note names the step
    // while it waits.
    static StepLock to_remove(const std::string& step_path);

  private:
    explicit StepLock(io::Fd fd) : fd_(std::move(fd)) {}
    io::Fd fd_;
};

}  // namespace lm::ckpt
