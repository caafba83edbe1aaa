// SPDX-License-Identifier: Apache-2.0
#include "preprocess/work_directory.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include "io/atomic.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::preprocess;
using Found = lm::preprocess::WorkDirectory::Found;

namespace {

struct WorkFixture {
    test::TempDir dir{test::memory_root()};
    std::string prefix = dir / "out";

    WorkDirectory open() const { return {prefix, {"text", "title"}}; }
    void put(const std::string& path, const std::string& text = "") const {
        io::write_file(path, text, io::Overwrite::yes);
    }
    // Creates the files that a killed run leaves.
    void leave_unfinished(bool complete = false) const {
        WorkDirectory work = open();
        work.claim(false, false);
        put(work.run_file());
        put(work.journal(0));
        put(work.part_stem(0, 1) + ".bin");
        if (complete) put(work.file("complete"));
    }
    Found claim(bool resume, bool force) const {
        WorkDirectory work = open();
        return work.claim(resume, force);
    }
};

}  // namespace

TEST_CASE("names in a work directory are stable: --resume of another release relies on them") {
    const WorkDirectory work("d/out", {"text", "title"});
    CHECK(work.path() == "d/out.unfinished");
    CHECK(work.run_file() == "d/out.unfinished/run.json");
    CHECK(work.journal(12) == "d/out.unfinished/part-0012.journal");
    CHECK(work.part_stem(12, 1) == "d/out.unfinished/part-0012.1");
    CHECK(work.part_stems(3) ==
          std::vector<std::string>{"d/out.unfinished/part-0003.0", "d/out.unfinished/part-0003.1"});
    CHECK(work.assembled(1, ".idx") == "d/out.unfinished/key-1.idx");
    CHECK(work.output_prefixes() ==
          std::vector<std::string>{"d/out_text_document", "d/out_title_document"});
}

TEST_CASE("an empty directory is claimed and removed") {
    const WorkFixture f;
    WorkDirectory work = f.open();
    CHECK(work.claim(false, false) == Found::nothing);
    CHECK(work.is_new());
    CHECK(io::exists(f.prefix + ".unfinished/lock"));
    work.remove();
    CHECK_FALSE(io::exists(f.prefix + ".unfinished"));
}

TEST_CASE("unfinished work is resumed, replaced or refused") {
    const WorkFixture f;
    f.leave_unfinished();
    CHECK(test::caught([&] { f.claim(false, false); }).says("--resume"));
    CHECK(f.claim(true, false) == Found::unfinished);
    CHECK(io::exists(f.open().journal(0)));
    CHECK(f.claim(false, true) == Found::nothing);
    CHECK_FALSE(io::exists(f.open().journal(0)));
}

TEST_CASE("assembled work needs only to be published") {
    const WorkFixture f;
    f.leave_unfinished(true);
    CHECK(f.claim(true, false) == Found::complete);
}

TEST_CASE("unfinished work without run.json is removed") {
    const WorkFixture f;
    f.leave_unfinished();
    ::unlink(f.open().run_file().c_str());
    CHECK(f.claim(true, false) == Found::nothing);
    CHECK_FALSE(io::exists(f.open().journal(0)));
}

TEST_CASE("a directory with other files is refused, and they are never removed") {
    const WorkFixture f;
    const std::string notes = f.prefix + ".unfinished/notes.txt";
    f.leave_unfinished();
    f.put(notes);
    WorkDirectory work = f.open();
    work.claim(true, false);
    work.remove();
    CHECK(io::exists(notes));
    CHECK_FALSE(io::exists(work.journal(0)));
    const auto refused = test::caught([&] { f.claim(false, true); });
    CHECK(refused.code == Exit::usage);
    CHECK(refused.says("notes.txt"));
}

TEST_CASE("a second claim of the same directory is refused while the first one lasts") {
    const WorkFixture f;
    WorkDirectory work = f.open();
    work.claim(false, false);
    const pid_t child = ::fork();
    if (child == 0)
        ::_exit(test::caught([&] { f.claim(false, true); }).says("another run") ? 0 : 1);
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    CHECK(status == 0);
}

TEST_CASE("outputs that exist are refused without --force, others than files always") {
    const WorkFixture f;
    const WorkDirectory work = f.open();
    CHECK_NOTHROW(work.refuse_existing_outputs(false));
    f.put(work.output_prefix(1) + ".json");
    CHECK(test::caught([&] { work.refuse_existing_outputs(false); }).says("--force"));
    CHECK_NOTHROW(work.refuse_existing_outputs(true));
    REQUIRE(::symlink("/dev/null", (work.output_prefix(0) + ".bin").c_str()) == 0);
    CHECK(test::caught([&] { work.refuse_existing_outputs(true); }).says("not a regular file"));
}

TEST_CASE("publish renames the assembled files and continues where a kill ended it") {
    const WorkFixture f;
    WorkDirectory work = f.open();
    work.claim(false, false);
    for (const size_t key : {0, 1}) {
        for (const char* suffix : {".bin", ".json", ".idx"})
            f.put(work.assembled(key, suffix), std::to_string(key) + suffix);
    }
    // As if a run had been killed after two renames.
    for (const char* suffix : {".bin", ".json"}) {
        REQUIRE(::rename(work.assembled(0, suffix).c_str(),
                         (work.output_prefix(0) + suffix).c_str()) == 0);
    }
    CHECK_FALSE(work.outputs_exist());
    work.publish(false);
    CHECK(work.outputs_exist());
    CHECK(io::read_file(work.output_prefix(0) + ".bin") == "0.bin");
    CHECK(io::read_file(work.output_prefix(1) + ".idx") == "1.idx");
    CHECK_FALSE(io::exists(work.path()));
}
