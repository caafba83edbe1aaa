// SPDX-License-Identifier: Apache-2.0
#include "sync/sync_target.hpp"

#include <sys/stat.h>

#include <cstdlib>

#include "base/error.hpp"
#include "ckpt/support.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::sync;

namespace {

TargetKind kind_of(const std::string& name) {
    return target_kind(name, [](const std::string& remote) { return remote == "store:"; });
}

// Puts a shell script in the place of rclone, for the programs that this process starts.
class FakeRclone {
  public:
    explicit FakeRclone(const std::string& script) : path_(std::getenv("PATH")) {
        const std::string rclone = directory_ / "rclone";
        test::write(rclone, "#!/bin/sh\n" + script + "\n");
        ::chmod(rclone.c_str(), 0755);
        ::setenv("PATH", (directory_.path() + ":" + path_).c_str(), 1);
    }
    ~FakeRclone() { ::setenv("PATH", path_.c_str(), 1); }
    FakeRclone(const FakeRclone&) = delete;
    FakeRclone& operator=(const FakeRclone&) = delete;

  private:
    test::TempDir directory_;
    std::string path_;
};

}  // namespace

TEST_CASE("the name of a destination states its kind") {
    CHECK(kind_of("backup") == TargetKind::path);
    CHECK(kind_of("/backup/run") == TargetKind::path);
    CHECK(kind_of("./host:run") == TargetKind::path);
    CHECK(kind_of("host:run") == TargetKind::rsync);
    CHECK(kind_of("user@host:/backup/run:2") == TargetKind::rsync);
    CHECK(kind_of("store:run") == TargetKind::rclone);
    CHECK(kind_of("store:") == TargetKind::rclone);
    CHECK(kind_of("stores:run") == TargetKind::rsync);
}

TEST_CASE("a path is the only destination that can remove optimizer state") {
    const test::ScratchDirectory scratch;
    const auto path = SyncTarget::open(scratch / "backup/", {});
    CHECK(path->can_drop_state());
    CHECK(path->files().empty());
    CHECK_FALSE(io::exists(scratch / "backup"));
    CHECK(path->manifests("unused") == scratch / "backup");
    CHECK(io::is_directory(scratch / "backup"));
}

TEST_CASE("a step at a path has the bytes of its source, until they change") {
    const test::ScratchDirectory scratch;
    const std::string step = test::save_grid(scratch / "c", test::small_model(), {}, 7, 0);
    const auto target = SyncTarget::open(scratch / "backup", {});
    target->manifests("unused");
    target->send_step(step);
    CHECK(target->same_bytes(step));
    target->rename("global_step7", "aside/global_step7");
    CHECK(io::exists(scratch / "backup/aside/global_step7/manifest.json"));
    CHECK(target->has_directory("aside/global_step7"));
    CHECK_FALSE(target->has_directory("aside/global_step7.2"));
    target->send_step(step);
    const std::string weights = scratch / "backup/global_step7/weights-00000.safetensors";
    std::string bytes = test::read(weights);
    bytes.back() ^= 1;
    test::write(weights, bytes);
    CHECK_FALSE(target->same_bytes(step));
    target->remove_step("global_step7");
    CHECK_FALSE(io::exists(scratch / "backup/global_step7"));
}

TEST_CASE("a comparison by rclone that fails is an error, not a difference") {
    const auto target = rclone_target("store:run", {});
    const auto same_after = [&](const std::string& script) {
        const FakeRclone rclone(script);
        return target->same_bytes("c/global_step7");
    };
    CHECK(same_after("echo '= a'"));
    for (const char* mark : {"*", "+", "-"}) {
        INFO(mark);
        CHECK_FALSE(same_after(fmt::format("echo '= a'; echo '{} b'; exit 1", mark)));
    }
    // A broken connection: no report, a report that ends early, a file that could not be read.
    for (const char* script : {"exit 1", "echo '= a'; exit 1", "echo '! a'; exit 1"}) {
        INFO(script);
        CHECK_THAT(test::error_of([&] { (void)same_after(script); }),
                   HasInOrder("store:run: ", "rclone ", "exit code 1"));
    }
}

TEST_CASE("a file at a path is replaced") {
    const test::ScratchDirectory scratch;
    const auto target = SyncTarget::open(scratch / "backup", {});
    target->manifests("unused");
    for (const char* text : {"one", "two"}) {
        test::write(scratch / "run.log", text);
        target->send_file(scratch / "run.log", "logs/run.log");
        CHECK(test::read(scratch / "backup/logs/run.log") == text);
    }
}
