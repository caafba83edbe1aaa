// SPDX-License-Identifier: Apache-2.0
// The files that the names on a command line stand for.
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/stream.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using test::caught;

TEST_CASE("a directory stands for the files below it, in bytewise order") {
    const test::TempDir dir;
    for (const char* name : {"d/a", "d/b/c", "d/b/.git", "d/.cache", "d/b-d", "e"}) {
        io::make_directories(std::filesystem::path(dir / name).parent_path());
        std::ofstream(dir / name) << "";
    }
    io::make_directories(dir / "d/empty");
    std::filesystem::create_symlink(dir / "e", dir / "d/link");
    std::filesystem::create_directory_symlink(dir / "d", dir / "d/ring");
    std::filesystem::create_directory_symlink(dir / "d/b", dir / "start");
    const std::vector<std::string> arguments = {dir / "e", "-", dir / "d", dir / "d/",
                                                dir / "start"};
    CHECK(io::expand_inputs(arguments) ==
          std::vector<std::string>{dir / "e", "-", dir / "d/a", dir / "d/b-d", dir / "d/b/c",
                                   dir / "d/link", dir / "d/a", dir / "d/b-d", dir / "d/b/c",
                                   dir / "d/link", dir / "start/c"});
    CHECK(io::expand_inputs({}).empty());
}

TEST_CASE("inputs that are not there are usage errors") {
    const test::TempDir dir;
    io::make_directories(dir / "empty/sub");
    const auto expand = [](const std::string& path) {
        return caught([&] { io::expand_inputs(std::span(&path, 1)); });
    };
    CHECK(expand(dir / "no").code == Exit::usage);
    CHECK(expand(dir / "no").message == dir / "no: No such file or directory");
    CHECK(expand(dir / "empty").code == Exit::usage);
    CHECK(expand(dir / "empty").says("holds no files"));
}
