// SPDX-License-Identifier: Apache-2.0
// expand_inputs of stream.hpp: the files that --input arguments mean.
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <iterator>
#include <system_error>

#include "base/error.hpp"
#include "base/log.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/stream.hpp"

namespace lm::io {
namespace {

// Appends the paths of the regular files below `directory`; links to files count, links to
// directories are named and not followed (they may form a ring), as is all else that is no file.
void collect(const std::string& directory, std::vector<std::string>& files) {
    for (const std::string& name : list_directory(directory)) {
        if (name.starts_with('.')) continue;
        std::string path = directory + (directory.ends_with('/') ? "" : "/") + name;
        struct stat status {};
        if (::stat(path.c_str(), &status) != 0) {
            if (errno == ENOENT) run_error(path, "is a link to nothing: mend or remove it");
            system_error(path, "look at it", errno);
        }
        const bool is_directory = S_ISDIR(status.st_mode);
        if (S_ISREG(status.st_mode)) {
            files.push_back(std::move(path));
        } else if (!is_directory) {
            note("{}: left out: neither a file nor a directory", path);
        } else if (::lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode)) {
            note("{}: left out: a link to a directory, which is followed only when it is named",
                 path);
        } else {
            collect(path, files);
        }
    }
}

}  // namespace

std::vector<std::string> expand_inputs(std::span<const std::string> arguments) {
    std::vector<std::string> inputs;
    for (const std::string& argument : arguments) {
        if (argument == "-") {
            if (std::ranges::find(inputs, argument) != inputs.end())
                usage_error("--input", "- stands twice: standard input can be read only once");
            inputs.push_back(argument);
        } else if (is_directory(argument)) {
            std::vector<std::string> files;
            collect(argument, files);
            if (files.empty()) usage_error(argument, "the directory holds no files");
            std::ranges::sort(files);
            std::ranges::move(files, std::back_inserter(inputs));
        } else {
            if (::access(argument.c_str(), F_OK) != 0) {
                usage_error(argument, "{}", std::generic_category().message(errno));
            }
            inputs.push_back(argument);
        }
    }
    return inputs;
}

}  // namespace lm::io
