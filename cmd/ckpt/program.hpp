// SPDX-License-Identifier: Apache-2.0
// Runs other programs: rsync, ssh, rclone.
#pragma once

#include <string>
#include <vector>

namespace lm::ckpt_tool {

struct ProgramResult {
    int code = 0;        // exit code; 128 + N after signal N; 127 when it cannot be started
    std::string output;  // stdout
};

// Runs `words[0]`, searched in PATH, with the other words as arguments. Its stdin is empty; its
// stderr is that of this process.
ProgramResult run_program(const std::vector<std::string>& words);

// Returns `text` in single quotes, as one word for a shell.
std::string shell_quoted(const std::string& text);

}  // namespace lm::ckpt_tool
