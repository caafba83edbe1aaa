// SPDX-License-Identifier: Apache-2.0
// Paths that begin with an open descriptor of this process: /proc/self/fd/N/NAME (proc(5)).
#pragma once

#include <string>

namespace lm {

std::string fd_path(int fd);  // /proc/self/fd/N

// Returns `text`, a message or a path, with the present name of each open file or directory in
// place of its fd_path(). A name below the current directory becomes relative to it.
std::string without_fd_paths(std::string text);

}  // namespace lm
