// SPDX-License-Identifier: Apache-2.0
#include "io/path.hpp"

#include "support/catch.hpp"

using namespace lm;

TEST_CASE("the name of a file in a manifest, an index or an archive") {
    for (const char* name : {"a", "weights-00000.safetensors", ".data", "a b", "...", "gr\u00fcn"})
        CHECK(io::is_plain_name(name));
    for (const std::string_view name :
         {"", ".", "..", "/a", "a/b", "../a", "a\\b", "a\nb", "\x1b[2J", "\x7f", "\xff"})
        CHECK_FALSE(io::is_plain_name(name));
    CHECK_FALSE(io::is_plain_name(std::string_view("a\0b", 3)));
    CHECK(io::is_plain_path("archive/.data/0"));
    for (const char* path : {"", "/a", "a/", "a//b", "a/../b", "a/."})
        CHECK_FALSE(io::is_plain_path(path));
}

TEST_CASE("the parent of a path") {
    CHECK(io::parent_of("a/b") == "a");
    CHECK(io::parent_of("a/b/") == "a");
    CHECK(io::parent_of("a//b") == "a");
    CHECK(io::parent_of("b") == ".");
    CHECK(io::parent_of("") == ".");
    CHECK(io::parent_of("/b") == "/");
    CHECK(io::parent_of("/a/b") == "/a");
    CHECK(io::parent_of("//") == "/");
}

TEST_CASE("the last component of a path") {
    CHECK(io::base_name("a/b") == "b");
    CHECK(io::base_name("/b") == "b");
    CHECK(io::base_name("b") == "b");
}

TEST_CASE("a path below a directory begins with it") {
    CHECK(io::is_below("run/log", "run"));
    CHECK(io::is_below("run/a/log", "run//"));
    CHECK_FALSE(io::is_below("run2/log", "run"));
    CHECK_FALSE(io::is_below("run", "run"));
    CHECK_FALSE(io::is_below("log", ""));
}

TEST_CASE("slashes at the end are removed, except that of the root") {
    CHECK(io::without_trailing_slashes("a//") == "a");
    CHECK(io::without_trailing_slashes("a/b") == "a/b");
    CHECK(io::without_trailing_slashes("/") == "/");
    CHECK(io::without_trailing_slashes("//") == "/");
    CHECK(io::without_trailing_slashes("").empty());
}
