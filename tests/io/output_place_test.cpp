// SPDX-License-Identifier: Apache-2.0
#include "io/output_place.hpp"

#include <filesystem>
#include <fstream>

#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using test::caught;

TEST_CASE("the parent of an output must exist and be a directory") {
    const test::TempDir dir;
    std::ofstream(dir / "plain.txt") << "text";
    std::filesystem::create_symlink("nowhere", dir / "dangling");
    io::require_parent(dir / "x");
    io::require_parent("x");
    io::require_parent("/x");

    const auto missing = caught([&] { io::require_parent(dir / "no/x"); });
    CHECK(missing.code == Exit::usage);
    const std::string parent = " " + dir / "no ";
    CHECK(missing.says(dir / "no/x: ", parent));
    CHECK(caught([&] { io::require_parent(dir / "no/x", "--out"); }).says("--out: ", parent));
    CHECK(caught([&] { io::require_parent(dir / "dangling/x"); }).says(dir / "dangling"));

    for (const std::string& path : {dir / "plain.txt/x", dir / "plain.txt/a/b/x"}) {
        const auto file = caught([&] { io::require_parent(path, "--out"); });
        CHECK(file.code == Exit::usage);
        CHECK(file.says(dir / "plain.txt: ", "file"));
    }
}

TEST_CASE("a file as parent is refused where missing directories are created") {
    const test::TempDir dir;
    std::ofstream(dir / "plain.txt") << "text";
    io::refuse_file_as_parent(dir / "a/b/c");
    io::refuse_file_as_parent(dir / "plain.txt");
    CHECK(caught([&] { io::refuse_file_as_parent(dir / "plain.txt/a/b"); }).code == Exit::usage);
}

TEST_CASE("whether a directory can be created is found by creating one") {
    const test::TempDir dir;
    CHECK(io::why_no_new_directory(dir.path()).empty());
    CHECK(io::list_directory(dir.path()).empty());
    CHECK_FALSE(io::why_no_new_directory("/proc").empty());
}
