// SPDX-License-Identifier: Apache-2.0
// Reading: whole files, exact reads, mappings, directories; and the texts of errors.
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <span>

#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/directory.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using test::caught;

namespace {

void put_text(const std::string& path, std::string_view content) {
    std::ofstream(path, std::ios::binary) << content;
}

}  // namespace

TEST_CASE("read_file returns the bytes of a file") {
    const test::TempDir dir;
    const std::string odd("a\0b\n\xff", 5);
    put_text(dir / "odd", odd);
    put_text(dir / "empty", "");
    CHECK(io::read_file(dir / "odd") == odd);
    CHECK(io::read_file(dir / "empty").empty());
    CHECK(io::file_size(dir / "odd") == 5);
    // Files under /proc have size 0.
    CHECK(io::read_file("/proc/self/status").size() > 100);
}

TEST_CASE("read errors name the path and the reason") {
    const test::TempDir dir;
    const auto absent = caught([&] { io::read_file(dir / "absent"); });
    CHECK(absent.code == Exit::failure);
    CHECK(absent.says(dir / "absent: ", ": No such file or directory"));
    const auto directory = caught([&] { io::read_file(dir.path()); });
    CHECK(directory.says(dir.path() + ": ", "directory"));
    CHECK(caught([&] { io::list_directory(dir / "absent"); }).says("No such file or directory"));
    CHECK(caught([&] { io::file_size(dir / "absent"); }).says(dir / "absent"));
}

TEST_CASE("read_exact reads at an offset and refuses a short file") {
    const test::TempDir dir;
    put_text(dir / "f", "0123456789");
    const io::Fd fd = io::open_read(dir / "f");
    std::string part(4, '.');
    io::read_exact(fd, dir / "f", std::as_writable_bytes(std::span(part)), 6);
    CHECK(part == "6789");
    const auto error =
        caught([&] { io::read_exact(fd, dir / "f", std::as_writable_bytes(std::span(part)), 7); });
    CHECK(error.code == Exit::failure);
    CHECK(error.says("byte 10"));
    CHECK(error.says("truncated"));
}

TEST_CASE("a file of another kind is refused at once, by its kind") {
    const test::TempDir dir;
    REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
    put_text(dir / "file", "x");
    REQUIRE(::symlink("file", (dir / "link").c_str()) == 0);
    CHECK(io::read_file(dir / "link") == "x");
    CHECK(caught([&] { io::read_file(dir / "fifo"); }).says(dir / "fifo: ", "FIFO"));
    CHECK(caught([&] { io::read_file("/dev/zero"); }).says("character device"));
    CHECK(io::read_input("/dev/null").empty());
    CHECK(caught([&] { io::read_input("/dev/zero"); }).says("/dev/zero: ", "character device"));
    CHECK(caught([&] { io::read_input(dir / "file", 0); }).says(dir / "file: ", "large"));
    put_text(dir / "huge", "");
    REQUIRE(::truncate((dir / "huge").c_str(), off_t{5} << 40) == 0);
    CHECK(caught([&] { io::read_input(dir / "huge"); }).says(dir / "huge: ", "large"));
    for (const int flags : {O_WRONLY, O_RDWR}) {
        CHECK(
            caught([&] { io::checked::create(dir / "fifo", flags); }).says(dir / "fifo: ", "FIFO"));
        CHECK(caught([&] {
                  io::checked::create(dir / "link", flags);
              }).says(dir / "link: ", "symbolic link"));
        CHECK(caught([&] { io::checked::create(dir.path(), flags); }).says("is a directory"));
    }
}

TEST_CASE("a log is a file, a device or a descriptor, also behind a link of this user") {
    const test::TempDir dir;
    put_text(dir / "file", "x");
    REQUIRE(::mkfifo((dir / "fifo").c_str(), 0600) == 0);
    const auto link = [&](const std::string& target, const std::string& name) {
        REQUIRE(::symlink(target.c_str(), (dir / name).c_str()) == 0);
        return dir / name;
    };
    const auto append = [](const std::string& path) {
        const io::Fd fd(io::checked::append_to(path));
        CHECK((::fcntl(fd.get(), F_GETFL) & O_NONBLOCK) == 0);
        io::checked::write_at(fd.get(), path, std::as_bytes(std::span("y", 1)), 0);
    };
    append(link("file", "link"));
    append(link("link", "second"));
    append(link(dir / "new", "dangling"));
    CHECK(io::read_file(dir / "file") == "xyy");
    CHECK(io::read_file(dir / "new") == "y");
    append("/dev/null");
    int ends[2];
    REQUIRE(::pipe2(ends, O_CLOEXEC) == 0);
    const io::Fd out(ends[0]), in(ends[1]);
    append(link("/proc/self/fd/" + std::to_string(in.get()), "stderr"));  // as /dev/stderr
    char text[8];
    CHECK(::read(out.get(), text, sizeof text) == 1);

    const auto refused = [&](const std::string& path, const char* kind) {
        const test::Caught error = caught([&] { io::checked::append_to(path); });
        CHECK(error.code == Exit::usage);
        CHECK(error.says(path + ": ", kind));
    };
    refused(dir / "fifo", "FIFO");
    const io::Fd reader(::open((dir / "fifo").c_str(), O_RDONLY | O_NONBLOCK));
    refused(dir / "fifo", "FIFO");
    refused(dir.path(), "directory");
    const std::string cycle = link("cycle", "cycle");
    CHECK(caught([&] { io::checked::append_to(cycle); }).says(cycle + ": "));
    if (::geteuid() != 0) return;
    constexpr uid_t other = 65534;
    REQUIRE(::lchown((dir / "link").c_str(), other, other) == 0);
    refused(dir / "link", "another user");
    CHECK(caught([&] { io::checked::append_to(dir / "second"); }).says("link: ", "another user"));
    CHECK(io::read_file(dir / "file") == "xyy");
}

TEST_CASE("a document has a limit of its size") {
    const test::TempDir dir;
    put_text(dir / "f", "12345");
    CHECK(io::read_file(dir / "f", 5) == "12345");
    CHECK(caught([&] { io::read_file(dir / "f", 4); }).says(dir / "f: ", "large"));
    CHECK(caught([&] {
              io::read_file("/proc/self/status", 10);
          }).says("/proc/self/status: ", "large"));
    put_text(dir / "huge", "");
    REQUIRE(::truncate((dir / "huge").c_str(), off_t{5} << 40) == 0);
    CHECK(caught([&] { io::read_file(dir / "huge"); }).says(dir / "huge: ", "large"));
}

TEST_CASE("a link in place of a directory of the toolkit is refused, also a dangling one") {
    const test::TempDir dir;
    io::make_directories(dir / "home");
    for (const char* target : {"home", "absent"}) {
        const std::string link = dir / (std::string("to-") + target);
        REQUIRE(::symlink(target, link.c_str()) == 0);
        CHECK(caught([&] { io::checked::make_directory(link); }).says(link + ": ", "symbolic"));
        CHECK(caught([&] {
                  io::make_directories_in(dir.path(), std::string("to-") + target + "/sub");
              }).says(link + ": ", "symbolic"));
    }
    CHECK(io::list_directory(dir / "home").empty());
    io::make_directories_in(dir.path(), "a/b");
    io::make_directories_in(dir.path(), "a/b");
    CHECK(io::is_directory(dir / "a/b"));
    io::make_directories_in(dir / "to-home", "below");  // the user named the link
    CHECK(io::is_directory(dir / "home/below"));
}

TEST_CASE("a directory keeps its files when a link takes its name") {
    const test::TempDir dir;
    io::make_directories(dir / "home");
    put_text(dir / "home/thesis", "precious");
    const auto made = io::Directory::create(dir / "out.tmp.copy");
    made.check_name();
    REQUIRE(::rename((dir / "out.tmp.copy").c_str(), (dir / "away").c_str()) == 0);
    REQUIRE(::symlink("home", (dir / "out.tmp.copy").c_str()) == 0);
    io::write_file(made / "file", "x", io::Overwrite::no);
    CHECK(io::list_directory(dir / "home") == std::vector<std::string>{"thesis"});
    CHECK(io::list_directory(dir / "away") == std::vector<std::string>{"file"});
    CHECK(caught([&] { made.check_name(); }).says(dir / "out.tmp.copy: ", "another program"));
    CHECK(caught([&] { io::Directory::open(dir / "out.tmp.copy"); }).says("symbolic link"));
    // Messages have the present name.
    CHECK(caught([&] { io::read_file(made / "absent"); }).says(dir / "away/absent: "));
}

TEST_CASE("an Fd closes itself once") {
    const test::TempDir dir;
    put_text(dir / "f", "x");
    int number = -1;
    {
        io::Fd a = io::open_read(dir / "f");
        number = a.get();
        io::Fd b = std::move(a);
        CHECK_FALSE(a.valid());
        CHECK(b.get() == number);
        a = std::move(b);
        CHECK(a.get() == number);
    }
    CHECK(::fcntl(number, F_GETFD) == -1);
    io::Fd c = io::open_read(dir / "f");
    number = c.release();
    CHECK(::close(number) == 0);
}

TEST_CASE("a mapping has the bytes of the file; an empty file maps to an empty span") {
    const test::TempDir dir;
    put_text(dir / "f", "mapped");
    put_text(dir / "empty", "");
    auto file = io::MappedFile::open(dir / "f");
    const auto is_mapped = [](const io::MappedFile& of) {
        return std::ranges::equal(of.bytes(), std::as_bytes(std::span("mapped", 6)));
    };
    CHECK(is_mapped(file));
    CHECK(file.path() == dir / "f");
    file.advise_will_need(2, 100);
    file.advise_will_need(100, 1);
    const io::MappedFile moved = std::move(file);
    CHECK(is_mapped(moved));
    CHECK(file.bytes().empty());
    CHECK(io::MappedFile::open(dir / "empty").bytes().empty());
    CHECK(io::MappedFile().bytes().empty());
    CHECK(caught([&] { io::MappedFile::open(dir.path()); }).says("is a directory"));
    CHECK(caught([&] { io::MappedFile::open("/dev/null"); }).says("character device"));
}

TEST_CASE("directories are listed in bytewise order and created with their parents") {
    const test::TempDir dir;
    io::make_directories(dir / "a/b/c");
    io::make_directories(dir / "a/b/c/");
    CHECK(io::is_directory(dir / "a/b/c"));
    put_text(dir / "a/b/c/Z", "");
    put_text(dir / "a/b/c/a", "");
    put_text(dir / "a/b/c/\xc3\xa4", "");
    put_text(dir / "a/b/c/10", "");
    put_text(dir / "a/b/c/9", "");
    CHECK(io::list_directory(dir / "a/b/c") ==
          std::vector<std::string>{"10", "9", "Z", "a", "\xc3\xa4"});
    CHECK(caught([&] { io::make_directories(dir / "a/b/c/Z/d"); }).says("Z: ", "directory"));
}

TEST_CASE("remove_tree removes a tree and does not follow links") {
    const test::TempDir dir;
    io::make_directories(dir / "tree/sub");
    io::make_directories(dir / "other");
    put_text(dir / "other/kept", "x");
    put_text(dir / "tree/sub/f", "x");
    REQUIRE(::symlink((dir / "other").c_str(), (dir / "tree/link").c_str()) == 0);
    io::remove_tree(dir / "tree");
    io::remove_tree(dir / "tree");
    CHECK_FALSE(io::exists(dir / "tree"));
    CHECK(io::exists(dir / "other/kept"));
}
