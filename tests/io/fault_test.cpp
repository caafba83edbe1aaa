// SPDX-License-Identifier: Apache-2.0
// Faults at every operation. The k-th create, write, fsync, rename or unlink fails, writes less or
// kills the process. A reader then finds the old state or the new one, never a mixture, and the
// next attempt succeeds. The recorded operations show that every fsync is in its place.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <functional>

#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/fault.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using io::Overwrite;
using io::fault::Action;
using test::caught;

namespace {

using Names = std::vector<std::string>;

const std::string old_content = "old";
const std::string new_content(5'000'000, 'n');

// An operation that replaces an old state by a new one.
struct Scenario {
    std::function<void(const std::string& dir)> prepare;
    std::function<void(const std::string& dir)> work;
    // Returns "old", "new", or a description of the fault.
    std::function<std::string(const std::string& dir)> look;
};

std::string look_at_file(const std::string& path, bool absent_is_old) {
    if (!io::exists(path)) return absent_is_old ? "old" : "gone";
    const std::string content = io::read_file(path);
    if (content == new_content) return "new";
    return content == old_content && !absent_is_old ? "old" : "mixed";
}

void write_in_pieces(const std::string& path, Overwrite overwrite) {
    auto file = io::AtomicFile::create(path, overwrite);
    file.write(std::string_view(new_content).substr(0, 4'500'000));
    file.write(std::string(500'000, '?'));
    file.write_at(std::as_bytes(std::span(new_content)).first(500'000), 4'500'000);
    file.commit();
}

std::string look_at_directory(const std::string& path, bool absent_is_old) {
    if (!io::exists(path)) return absent_is_old ? "old" : "gone";
    const Names names = io::list_directory(path);
    if (names == Names{"was"} && !absent_is_old) return "old";
    if (names != Names{"a", "sub"}) return "mixed";
    return look_at_file(path + "/a", false) == "new" ? look_at_file(path + "/sub/b", false)
                                                     : "mixed";
}

void write_directory(const std::string& path, Overwrite overwrite) {
    auto out = io::AtomicDirectory::create(path, "1", overwrite);
    io::write_file(out.path() + "/a", new_content, Overwrite::no);
    io::make_directories(out.path() + "/sub");
    io::write_file(out.path() + "/sub/b", new_content, Overwrite::no);
    out.commit();
}

void nothing(const std::string&) {}

const Scenario new_file = {
    nothing, [](const std::string& dir) { write_in_pieces(dir + "/out", Overwrite::no); },
    [](const std::string& dir) { return look_at_file(dir + "/out", true); }};

const Scenario replaced_file = {
    [](const std::string& dir) { io::write_file(dir + "/out", old_content, Overwrite::yes); },
    [](const std::string& dir) { write_in_pieces(dir + "/out", Overwrite::yes); },
    [](const std::string& dir) { return look_at_file(dir + "/out", false); }};

const Scenario new_directory = {
    nothing, [](const std::string& dir) { write_directory(dir + "/out", Overwrite::no); },
    [](const std::string& dir) { return look_at_directory(dir + "/out", true); }};

const Scenario replaced_directory = {
    [](const std::string& dir) {
        io::make_directories(dir + "/out");
        io::write_file(dir + "/out/was", old_content, Overwrite::yes);
    },
    [](const std::string& dir) { write_directory(dir + "/out", Overwrite::yes); },
    [](const std::string& dir) { return look_at_directory(dir + "/out", false); }};

const Scenario& scenario_named(const std::string& name) {
    if (name == "new file") return new_file;
    if (name == "replaced file") return replaced_file;
    if (name == "new directory") return new_directory;
    return replaced_directory;
}

i64 count_operations(const Scenario& scenario) {
    const test::TempDir dir(test::memory_root());
    scenario.prepare(dir.path());
    io::fault::start_recording();
    scenario.work(dir.path());
    return static_cast<i64>(io::fault::stop_recording().size());
}

// The features of the simulated file system; a seccomp filter makes the kernel refuse the others.
enum class Renames { all, links_only, plain };

void refuse(long system_call, u32 flags_argument, u32 error) {
    const auto word = [](size_t offset) {
        return sock_filter{BPF_LD | BPF_W | BPF_ABS, 0, 0, static_cast<u32>(offset)};
    };
    sock_filter program[] = {
        word(offsetof(seccomp_data, nr)),
        {BPF_JMP | BPF_JEQ | BPF_K, 0, 3, static_cast<u32>(system_call)},
        word(offsetof(seccomp_data, args) + 8 * flags_argument),
        {BPF_JMP | BPF_JEQ | BPF_K, 1, 0, 0},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ERRNO | error},
        {BPF_RET | BPF_K, 0, 0, SECCOMP_RET_ALLOW},
    };
    const sock_fprog filter = {std::size(program), program};
    if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
        ::_exit(98);
    }
}

void limit_to(Renames renames) {
    constexpr u32 renameat2_flags = 4, link_target = 1;
    if (renames != Renames::all) refuse(SYS_renameat2, renameat2_flags, EINVAL);
    if (renames == Renames::plain) refuse(SYS_link, link_target, EPERM);
}

// Runs `work` in a child process with the fault armed. Returns the child's wait status.
int run_in_child(const Scenario& scenario, const std::string& dir, Action action, i64 at,
                 Renames renames = Renames::all) {
    const pid_t child = ::fork();
    if (child == 0) {
        limit_to(renames);
        io::fault::arm(action, at);
        scenario.work(dir);
        ::_exit(0);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    return status;
}

}  // namespace

TEST_CASE("a failure at any operation leaves the old or the new state and no leftover") {
    const std::string name =
        GENERATE("new file", "replaced file", "new directory", "replaced directory");
    const Action action = GENERATE(Action::fail, Action::short_write);
    const Scenario& scenario = scenario_named(name);
    const i64 n = count_operations(scenario);
    REQUIRE(n > 5);
    for (i64 k = 1; k <= n; ++k) {
        INFO(name << ", operation " << k << " of " << n);
        const test::TempDir dir(test::memory_root());
        scenario.prepare(dir.path());
        io::fault::arm(action, k);
        const auto error = caught([&] { scenario.work(dir.path()); });
        io::fault::arm(Action::none, 0);
        CHECK(error.threw);
        CHECK(error.code == Exit::failure);
        CHECK(error.says(dir.path()));
        const std::string state = scenario.look(dir.path());
        CHECK((state == "old" || state == "new"));
        // Only the removal of the old directory after the exchange may be missing.
        const Names names = io::list_directory(dir.path());
        CHECK((names.empty() || names == Names{"out"} ||
               (name == "replaced directory" && state == "new")));
    }
}

TEST_CASE("a kill at any operation leaves the old or the new state, and the next run succeeds") {
    const std::string name =
        GENERATE("new file", "replaced file", "new directory", "replaced directory");
    const Scenario& scenario = scenario_named(name);
    const i64 n = count_operations(scenario);
    for (i64 k = 1; k <= n; ++k) {
        INFO(name << ", operation " << k << " of " << n);
        const test::TempDir dir(test::memory_root());
        scenario.prepare(dir.path());
        const int status = run_in_child(scenario, dir.path(), Action::kill, k);
        REQUIRE((WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
        const std::string state = scenario.look(dir.path());
        CHECK((state == "old" || state == "new"));
        for (const std::string& stale : io::stale_temporaries(dir / "out")) io::remove_tree(stale);
        if (state == "old") scenario.work(dir.path());
        CHECK(scenario.look(dir.path()) == "new");
        if (state == "old") CHECK(io::list_directory(dir.path()) == Names{"out"});
    }
}

TEST_CASE("file systems without exclusive rename and exchange are supported") {
    const std::string name =
        GENERATE("new file", "replaced file", "new directory", "replaced directory");
    const Renames renames = GENERATE(Renames::links_only, Renames::plain);
    const Scenario& scenario = scenario_named(name);
    bool ended = false;
    for (i64 k = 1; !ended; ++k) {
        INFO(name << ", operation " << k);
        const test::TempDir dir(test::memory_root());
        scenario.prepare(dir.path());
        const int status = run_in_child(scenario, dir.path(), Action::kill, k, renames);
        ended = WIFEXITED(status);
        if (ended) REQUIRE(WEXITSTATUS(status) == 0);
        const std::string state = scenario.look(dir.path());
        // Without an atomic exchange, a failure between the renames leaves no "out": the old
        // directory has its temporary name.
        const bool aside = state == "gone" && name == "replaced directory" &&
                           io::stale_temporaries(dir / "out").empty() &&
                           io::list_directory(dir.path()).size() == 2;
        CHECK((state == "new" || (state == "old" && !ended) || aside));
        if (ended) CHECK(io::list_directory(dir.path()) == Names{"out"});
    }
}

TEST_CASE("without exclusive rename an existing file is still not replaced") {
    const Renames renames = GENERATE(Renames::links_only, Renames::plain);
    const test::TempDir dir(test::memory_root());
    const Scenario meanwhile = {nothing,
                                [](const std::string& path) {
                                    auto file =
                                        io::AtomicFile::create(path + "/out", Overwrite::no);
                                    io::write_file(path + "/out", old_content, Overwrite::yes);
                                    const auto error = caught([&] { file.commit(); });
                                    ::_exit(error.says("another program") ? 0 : 1);
                                },
                                nullptr};
    const int status = run_in_child(meanwhile, dir.path(), Action::none, 0, renames);
    CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
    CHECK(io::read_file(dir / "out") == old_content);
}

TEST_CASE("rename_new completes a rename that was killed at any operation") {
    const Renames renames = GENERATE(Renames::all, Renames::links_only, Renames::plain);
    const Scenario scenario = {nothing,
                               [](const std::string& path) {
                                   if (!io::checked::rename_new(path + "/from", path + "/out"))
                                       ::_exit(1);
                               },
                               nullptr};
    bool ended = false;
    for (i64 k = 1; !ended; ++k) {
        INFO("operation " << k);
        const test::TempDir dir(test::memory_root());
        io::write_file(dir / "from", new_content, Overwrite::no);
        int status = run_in_child(scenario, dir.path(), Action::kill, k, renames);
        ended = WIFEXITED(status);
        if (!ended) status = run_in_child(scenario, dir.path(), Action::none, 0, renames);
        CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 0));
        CHECK(io::list_directory(dir.path()) == Names{"out"});
        CHECK(look_at_file(dir / "out", false) == "new");
        io::write_file(dir / "other", new_content, Overwrite::no);
        CHECK(!io::checked::rename_new(dir / "other", dir / "out"));
        CHECK(io::exists(dir / "other"));
    }
}

TEST_CASE("a file is fsynced before the rename, its directory after it") {
    const test::TempDir dir(test::memory_root());
    io::fault::start_recording();
    io::write_file(dir / "out", "x", Overwrite::no);
    const auto record = io::fault::stop_recording();
    const std::string temporary = io::temporary_name(dir / "out");
    Names seen;
    for (const auto& operation : record) seen.push_back(operation.name + " " + operation.path);
    CHECK(seen == Names{"create " + temporary, "write " + temporary, "fsync " + temporary,
                        "rename " + dir / "out", "fsync " + dir.path()});
}

TEST_CASE("all files of a directory are fsynced before the rename") {
    const test::TempDir dir(test::memory_root());
    auto out = io::AtomicDirectory::create(dir / "out", "1", Overwrite::no);
    io::make_directories(out.path() + "/sub");
    io::write_file(out.path() + "/sub/b", "x", Overwrite::no);
    io::write_file(out.path() + "/a", "x", Overwrite::no);
    io::fault::start_recording();
    out.commit();
    Names seen;
    for (const auto& operation : io::fault::stop_recording()) {
        seen.push_back(operation.name + " " + operation.path);
    }
    const std::string temporary = dir / "out.tmp.1";
    CHECK(seen == Names{"fsync " + temporary + "/a", "fsync " + temporary + "/sub/b",
                        "fsync " + temporary + "/sub", "fsync " + temporary,
                        "rename " + dir / "out", "fsync " + dir.path()});
}

TEST_CASE("LM_IO_FAULT arms a fault; an invalid value is a usage error") {
    const test::TempDir dir(test::memory_root());
    const auto status_with = [&](const char* value) {
        const pid_t child = ::fork();
        if (child == 0) {
            // This process has read LM_IO_FAULT already, at its first operation. So a new process
            // is started.
            ::setenv("LM_IO_FAULT", value, 1);
            ::execl("/proc/self/exe", "test_io", "[.probe]", nullptr);
            ::_exit(99);
        }
        int status = 0;
        ::waitpid(child, &status, 0);
        return status;
    };
    ::setenv("LM_TEST_PROBE_DIR", dir.path().c_str(), 1);
    CHECK(WTERMSIG(status_with("kill:2")) == SIGKILL);
    CHECK(io::list_directory(dir.path()).size() == 1);  // killed after the create
    for (const char* wrong : {"kill", "kill:", "kill:0", "kill:2x", "crash:1", ""}) {
        INFO(wrong);
        const int status = status_with(wrong);
        CHECK((WIFEXITED(status) && WEXITSTATUS(status) == 2));
    }
    ::unsetenv("LM_TEST_PROBE_DIR");
}

// The test above runs this one in a new process. Its exit code is that of the Error.
TEST_CASE("write a file", "[.probe]") {
    const char* dir = std::getenv("LM_TEST_PROBE_DIR");
    REQUIRE(dir);
    const auto error =
        caught([&] { io::write_file(std::string(dir) + "/probe", "x", Overwrite::yes); });
    ::_exit(static_cast<int>(error.code));
}
