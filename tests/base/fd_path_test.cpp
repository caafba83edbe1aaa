// SPDX-License-Identifier: Apache-2.0
#include "base/fd_path.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>

#include "base/error.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;

TEST_CASE("messages name open files instead of their descriptors") {
    const test::TempDir dir;
    const int fd = ::open(dir.path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    REQUIRE(fd >= 0);
    const std::string path = fd_path(fd);
    CHECK(without_fd_paths(path + "/a: b") == dir / "a: b");
    CHECK(without_fd_paths(path + "/a and " + path) == dir / "a" + " and " + dir.path());
    CHECK(std::string(Error(Exit::failure, path + "/a: gone").what()) == dir / "a: gone");
    ::close(fd);
    CHECK(without_fd_paths(path + "/a") == path + "/a");
    CHECK(without_fd_paths("/proc/self/fd/") == "/proc/self/fd/");

    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    CHECK(without_fd_paths(fd_path(ends[0])) == fd_path(ends[0]));  // a pipe has no name
    ::close(ends[0]);
    ::close(ends[1]);

    const std::string here = std::filesystem::current_path();
    const int cwd = ::open(here.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(without_fd_paths(fd_path(cwd)) == here);
    ::close(cwd);
}
