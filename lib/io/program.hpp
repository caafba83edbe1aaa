// SPDX-License-Identifier: Apache-2.0
// Runs other programs, such as rsync and Python.
#pragma once

#include <string>
#include <vector>

namespace lm::io {

// Where the standard output of a program goes: into ProgramResult::output, or to stderr of this
// process.
enum class Stdout { returned, shown };

struct ProgramResult {
    int code = 0;        // exit code; 128 + N after signal N; 127: no such program
    std::string output;  // stdout
};

// Runs `words[0]`, searched in PATH, with the other words as arguments. The program's stdin is
// empty; its stderr is shown on that of this process, in whole lines that are printable(). The code
// is 127 when the program does not exist. Throws Error(failure) when the program exists and cannot
// be started.
ProgramResult run_program(const std::vector<std::string>& words, Stdout to = Stdout::returned);

// Throws Error(failure) when `result` of `program`, which works on `target` for lm-ckpt sync, has
// an exit code other than 0. The error names the program for the exit code 127, which may also mean
// that the program is missing on a remote host, and `target` for any other exit code.
void require_success(const std::string& target, const std::string& program,
                     const ProgramResult& result);

// Runs a program, calls require_success() with its result, and returns its output.
std::string must_run(const std::string& target, const std::vector<std::string>& words,
                     Stdout to = Stdout::returned);

// Returns `text` in single quotes, as one word for a shell.
std::string shell_quoted(const std::string& text);

}  // namespace lm::io
