// SPDX-License-Identifier: Apache-2.0
// Atomic files and directories: the state before, during and after a write; overwriting; leftovers.
// fault_test.cpp puts a fault at every operation.
#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <fstream>
#include <optional>

#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/fault.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using io::Overwrite;
using test::caught;

namespace {

using Names = std::vector<std::string>;

void put(const std::string& path, std::string_view content) {
    std::ofstream(path, std::ios::binary) << content;
}

// Returns the id of a process that has ended.
pid_t dead_process() {
    const pid_t pid = ::fork();
    if (pid == 0) ::_exit(0);
    ::waitpid(pid, nullptr, 0);
    return pid;
}

std::string host() {
    char name[256] = {};
    ::gethostname(name, sizeof name - 1);
    return name;
}

// A file system of `bytes` bytes that is mounted while the object exists, if this process may
// mount.
class SmallDisk {
  public:
    SmallDisk(const std::string& path, int bytes) : path_(path) {
        io::make_directories(path);
        const std::string options = "size=" + std::to_string(bytes);
        mounted_ = ::mount("tmpfs", path.c_str(), "tmpfs", 0, options.c_str()) == 0;
    }
    ~SmallDisk() {
        if (mounted_) ::umount2(path_.c_str(), MNT_DETACH);
    }
    SmallDisk(const SmallDisk&) = delete;
    SmallDisk& operator=(const SmallDisk&) = delete;
    bool mounted() const { return mounted_; }

  private:
    std::string path_;
    bool mounted_ = false;
};

}  // namespace

TEST_CASE("a file appears at commit(), not before") {
    const test::TempDir dir;
    const std::string path = dir / "out";
    auto file = io::AtomicFile::create(path, Overwrite::no);
    CHECK(file.path() == path);
    file.write("hello ");
    file.write(std::as_bytes(std::span("world", 5)));
    CHECK(file.size() == 11);
    file.write_at(std::as_bytes(std::span("J", 1)), 0);
    file.write("!");
    CHECK_FALSE(io::exists(path));
    CHECK(io::list_directory(dir.path()).size() == 1);
    file.sync();
    CHECK_FALSE(io::exists(path));
    file.commit();
    CHECK(io::read_file(path) == "Jello world!");
    CHECK(io::list_directory(dir.path()) == Names{"out"});
    CHECK(caught([&] { file.write("more"); }).code == Exit::bug);
    CHECK(caught([&] { file.commit(); }).code == Exit::bug);
}

TEST_CASE("large and small writes keep their order") {
    const test::TempDir dir;
    std::string expected;
    auto file = io::AtomicFile::create(dir / "out", Overwrite::no);
    for (size_t i = 0; i < 60; ++i) {
        const std::string part(i * i * 1500 % 5'300'000, static_cast<char>('a' + i % 26));
        file.write(part);
        expected += part;
        REQUIRE(file.size() == static_cast<i64>(expected.size()));
    }
    file.commit();
    CHECK(io::read_file(dir / "out") == expected);
}

TEST_CASE("a file that is not committed leaves no temporary") {
    const test::TempDir dir;
    {
        auto file = io::AtomicFile::create(dir / "out", Overwrite::no);
        file.write("half");
        file.flush();
    }
    {
        auto file = io::AtomicFile::create(dir / "out", Overwrite::no);
        file.sync();
        file = io::AtomicFile::create(dir / "other", Overwrite::no);
        CHECK(io::list_directory(dir.path()).size() == 1);
    }
    CHECK(io::list_directory(dir.path()).empty());
}

TEST_CASE("an existing file is refused without overwrite and replaced with it") {
    const test::TempDir dir;
    put(dir / "out", "old");
    const auto refused = caught([&] { io::write_file(dir / "out", "new", Overwrite::no); });
    CHECK(refused.code == Exit::usage);
    CHECK(refused.says(dir / "out: ", "--force"));
    CHECK(io::read_file(dir / "out") == "old");
    io::write_file(dir / "out", "new", Overwrite::yes);
    CHECK(io::read_file(dir / "out") == "new");
    CHECK(io::list_directory(dir.path()) == Names{"out"});
}

TEST_CASE("a file that another process creates before commit() is not replaced") {
    const test::TempDir dir;
    {
        auto file = io::AtomicFile::create(dir / "out", Overwrite::no);
        file.write("new");
        put(dir / "out", "theirs");
        const auto error = caught([&] { file.commit(); });
        CHECK(error.code == Exit::failure);
        CHECK(error.says(dir / "out: ", "another program"));
    }
    CHECK(io::read_file(dir / "out") == "theirs");
    CHECK(io::list_directory(dir.path()) == Names{"out"});
}

TEST_CASE("devices, directories and empty names are refused as output files") {
    const test::TempDir dir;
    CHECK(caught([] { io::AtomicFile::create("/dev/null", Overwrite::yes); }).says("regular file"));
    CHECK(caught([&] { io::AtomicFile::create(dir.path(), Overwrite::yes); }).code == Exit::usage);
    CHECK(caught([] { io::AtomicFile::create("", Overwrite::yes); }).code == Exit::usage);
    CHECK(caught([&] { io::AtomicFile::create(dir / "x/", Overwrite::no); }).code == Exit::usage);
    const auto orphan = caught([&] { io::AtomicFile::create(dir / "no/such/out", Overwrite::no); });
    CHECK(orphan.code == Exit::failure);
    CHECK(orphan.says(dir / "no/such "));
}

TEST_CASE("two writers of one name do not disturb each other") {
    const test::TempDir dir;
    auto a = io::AtomicFile::create(dir / "out", Overwrite::yes);
    auto b = io::AtomicFile::create(dir / "out", Overwrite::yes);
    a.write("a");
    b.write("b");
    b.commit();
    CHECK(io::read_file(dir / "out") == "b");
    a.commit();
    CHECK(io::read_file(dir / "out") == "a");
    CHECK(io::list_directory(dir.path()) == Names{"out"});
}

TEST_CASE("a full disk: the error has a remedy, and no temporary is left") {
    const test::TempDir dir;
    const SmallDisk disk(dir / "disk", 1 << 20);
    if (!disk.mounted()) {
        WARN("skipped: no right to mount a tmpfs: " << std::strerror(errno));
        return;
    }
    put(dir / "disk/out", "old");
    const auto error = caught([&] {
        auto file = io::AtomicFile::create(dir / "disk/out", Overwrite::yes);
        file.write(std::string(3 << 20, 'x'));
        file.commit();
    });
    CHECK(error.code == Exit::failure);
    CHECK(error.says(dir / "disk/out"));
    CHECK(error.says("No space left on device: "));
    CHECK(io::list_directory(dir / "disk") == Names{"out"});
    CHECK(io::read_file(dir / "disk/out") == "old");
}

TEST_CASE("a directory appears complete at commit()") {
    const test::TempDir dir;
    {
        auto out = io::AtomicDirectory::create(dir / "step-1/", "7", Overwrite::no);
        CHECK(out.final_path() == dir / "step-1");
        CHECK(io::is_directory(dir / "step-1.tmp.7"));
        put(out.path() + "/a", "1");
        io::make_directories(out.path() + "/sub");
        io::write_file(out.path() + "/sub/b", "2", Overwrite::no);
        CHECK_FALSE(io::exists(dir / "step-1"));
        out.commit();
    }
    CHECK(io::list_directory(dir.path()) == Names{"step-1"});
    CHECK(io::read_file(dir / "step-1/sub/b") == "2");
}

TEST_CASE("a directory that is not committed is removed, and so is an old temporary") {
    const test::TempDir dir;
    io::make_directories(dir / "out.tmp.7/old");
    {
        const auto out = io::AtomicDirectory::create(dir / "out", "7", Overwrite::no);
        CHECK(io::list_directory(out.path()).empty());
        put(out.path() + "/a", "1");
    }
    CHECK(io::list_directory(dir.path()).empty());
}

TEST_CASE("an existing directory is refused without overwrite and exchanged with it") {
    const test::TempDir dir;
    io::make_directories(dir / "out");
    put(dir / "out/old", "1");
    put(dir / "file", "1");
    CHECK(caught([&] { io::AtomicDirectory::create(dir / "out", "7", Overwrite::no); }).code ==
          Exit::usage);
    CHECK(caught([&] { io::AtomicDirectory::create(dir / "file", "7", Overwrite::yes); }).code ==
          Exit::usage);
    {
        auto out = io::AtomicDirectory::create(dir / "out", "7", Overwrite::yes);
        put(out.path() + "/new", "2");
        CHECK(io::exists(dir / "out/old"));
        out.commit();
    }
    CHECK(io::list_directory(dir / "out") == Names{"new"});
    CHECK(io::list_directory(dir.path()) == Names{"file", "out"});
}

TEST_CASE("a link that takes the name of a temporary directory is neither filled nor published") {
    const test::TempDir dir;
    io::make_directories(dir / "home");
    {
        auto out = io::AtomicDirectory::create(dir / "out", "7", Overwrite::no);
        REQUIRE(::rename((dir / "out.tmp.7").c_str(), (dir / "away").c_str()) == 0);
        REQUIRE(::symlink("home", (dir / "out.tmp.7").c_str()) == 0);
        put(out.path() + "/new", "");
        CHECK(caught([&] { out.commit(); }).says("another program"));
    }
    CHECK(io::list_directory(dir / "home").empty());
    CHECK(io::list_directory(dir.path()) == Names{"away", "home"});
}

TEST_CASE("a directory that another process creates before commit() is not replaced") {
    const test::TempDir dir;
    {
        auto out = io::AtomicDirectory::create(dir / "out", "7", Overwrite::no);
        put(out.path() + "/new", "");
        io::make_directories(dir / "out");
        CHECK(caught([&] { out.commit(); }).says("another program"));
    }
    CHECK(io::list_directory(dir / "out").empty());
    CHECK(io::list_directory(dir.path()) == Names{"out"});
}

TEST_CASE("stale_temporaries: of ended processes of this host, and old ones of other hosts") {
    const test::TempDir dir;
    const std::string path = dir / "out";
    const std::string dead = path + ".tmp." + host() + "." + std::to_string(dead_process());
    const std::string other = path + ".tmp.elsewhere.17";
    const std::string old = path + ".tmp.elsewhere.18.2";
    const timespec long_ago[2] = {{1'000'000'000, 0}, {1'000'000'000, 0}};
    for (const std::string& name : {dead, dead + ".2", other, old, path + ".tmp.notes",
                                    path + ".tmp", path, dir / "out2.tmp.elsewhere.19"}) {
        put(name, "");
    }
    for (const std::string& name : {old, path + ".tmp.notes", path}) {
        REQUIRE(::utimensat(AT_FDCWD, name.c_str(), long_ago, 0) == 0);
    }
    const auto alive = io::AtomicFile::create(path, Overwrite::yes);
    Names expected = {dead, dead + ".2", old};
    std::ranges::sort(expected);
    CHECK(io::stale_temporaries(path) == expected);
    CHECK(io::stale_temporaries(dir / "no/such/file").empty());
    CHECK(io::temporary_name(path) == path + ".tmp." + host() + "." + std::to_string(::getpid()));
}

TEST_CASE("errors have the final names of unfinished outputs") {
    CHECK(io::final_name("m.safetensors.tmp.vm.12.2") == "m.safetensors");
    CHECK(io::final_name("/a/m.tmp.vm.7/global_step8.tmp.g0/x") == "/a/m/global_step8/x");
    CHECK(io::final_name("a.tmp/.tmp.x/b.tmp") == "a.tmp/.tmp.x/b.tmp");
    CHECK(io::final_name("").empty());
    const test::TempDir dir;
    const std::string path = dir.path() + "/file";
    for (i64 at = 1; at <= 4; ++at) {  // create, write, fsync, rename
        io::fault::arm(io::fault::Action::fail, at, ENOSPC);
        const test::Caught error = caught([&] { io::write_file(path, "text", Overwrite::no); });
        io::fault::arm(io::fault::Action::none, 0);
        CHECK(error.message.starts_with(path + ": cannot "));
        CHECK_FALSE(error.says(".tmp."));
    }
}

TEST_CASE("a temporary name has a host and a process number") {
    CHECK(io::is_temporary_name(io::temporary_name("latest")));
    for (const char* name : {"latest.tmp.n1.7", "a.tmp.n1.cluster.org.71.2", "a.tmp.n1.7.old"})
        CHECK(io::is_temporary_name(name));
    for (const char* name : {"results.tmp.final.csv", "notes.tmp.old", "a.tmp.7", "a.tmp.n1.07",
                             "a.tmp..", "a.tmp.n1.", ".tmp.n1.7", "a.tmp.n1.-7", "latest"})
        CHECK_FALSE(io::is_temporary_name(name));
}
