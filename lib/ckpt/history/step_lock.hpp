// SPDX-License-Identifier: Apache-2.0
// Locks of a step (flock(2) on its manifest), between programs that read the step for a long time,
// such as copies, and programs that remove or replace the step. A lock ends when its process ends,
// even by a kill. On a file system without locks every lock succeeds.
#pragma once

#include <string>

#include "io/file.hpp"

namespace lm::ckpt {

// Holds a lock until this object is destroyed.
class StepLock {
  public:
    // Acquires the lock for reading, which several programs may hold at once. Blocks while another
    // program removes the step.
    static StepLock to_read(const std::string& step_path);
    // Acquires the lock for removing. Blocks until no program reads the step; if it has to wait,
    // prints a note that names the step.
    static StepLock to_remove(const std::string& step_path);

  private:
    explicit StepLock(io::Fd fd) : fd_(std::move(fd)) {}
    io::Fd fd_;
};

}  // namespace lm::ckpt
