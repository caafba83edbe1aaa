// SPDX-License-Identifier: Apache-2.0
// Saves in which any single operation on files fails, writes only a part, or is the last one before
// a kill.
#include <sys/wait.h>

#include <cerrno>
#include <system_error>

#include "base/error.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/history/save.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/verbs/copy.hpp"
#include "ckpt/verbs/diff.hpp"
#include "ckpt/verbs/merge.hpp"
#include "ckpt/verbs/reshard.hpp"
#include "ckpt/verbs/verify.hpp"
#include "io/fault.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;
using test::Buffers;
using test::salt_of;

namespace {

// Checks a directory after a save that may have been interrupted: step 1 with salt 1, or step 2 (or
// a second step 1) with salt 2, never a mix.
void check_whole(const std::string& directory, const spec::ModelConfig& config, bool may_be_new) {
    const Checkpoint checkpoint = open(directory);
    const i64 salt = salt_of(checkpoint);
    CHECK((salt == 1 || (may_be_new && salt == 2)));
    test::check_grid(checkpoint, config, {}, salt);
}

SaveInfo salted(const spec::ModelConfig& config, i64 iteration, i64 salt) {
    SaveInfo info = test::info_of(config, iteration);
    info.state = test::state_with_salt(salt);
    return info;
}

}  // namespace

TEST_CASE("a save that fails or is killed at any operation leaves the old step or the new one") {
    const auto config = test::small_model();
    Buffers old(config, {});
    old.fill(config, 1);
    Buffers fresh(config, {});
    fresh.fill(config, 2);
    const i64 second_step = GENERATE(1, 2);
    const std::pair<io::fault::Action, int> faults[] = {{io::fault::Action::fail, EIO},
                                                        {io::fault::Action::fail, EACCES},
                                                        {io::fault::Action::fail, ESTALE},
                                                        {io::fault::Action::short_write, ENOSPC},
                                                        {io::fault::Action::kill, 0}};
    for (const auto& [action, error_number] : faults) {
        i64 n_cut = 0;
        for (i64 at = 1;; ++at) {
            const test::ScratchDirectory scratch;
            save(claim(scratch.path()), salted(config, 1, 1), old.pieces());
            const pid_t child = ::fork();
            if (child == 0) {
                io::fault::arm(action, at, error_number);
                try {
                    const Generation generation =
                        claim(scratch.path(), tip_of(open(scratch.path()).manifest()));
                    save(generation, salted(config, second_step, 2), fresh.pieces());
                } catch (const Error& error) {
                    ::_exit(static_cast<int>(error.code()));
                }
                ::_exit(0);
            }
            int status = 0;
            REQUIRE(::waitpid(child, &status, 0) == child);
            INFO("operation " << at << " status " << status);
            const bool done = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            const bool failed = WIFEXITED(status) && WEXITSTATUS(status) == 3;
            const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
            REQUIRE((done || failed || killed));
            check_whole(scratch.path(), config, true);
            if (done) CHECK(salt_of(open(scratch.path())) == 2);
            // The next run cleans up and saves.
            save(claim(scratch.path(), tip_of(open(scratch.path()).manifest())),
                 salted(config, 3, 2), fresh.pieces());
            check_whole(scratch.path(), config, true);
            for (const std::string& name : io::list_directory(scratch.path())) {
                CHECK(name.find(".tmp.") == std::string::npos);
            }
            if (done) break;
            ++n_cut;
        }
        CHECK(n_cut > 20);
    }
}

// A failing disk must not look like a corrupt checkpoint, because a run would then continue from an
// older step.
TEST_CASE("a read that fails is an error of the system, never damage") {
    const test::ScratchDirectory scratch;
    const auto config = test::small_model();
    Buffers buffers(config, {.tp = 2});
    buffers.fill(config, 1);
    const std::string step = test::save_grid(scratch.path(), config, {.tp = 2}, 1, 1);
    const auto use = [&](int what) {
        const Checkpoint checkpoint = what == 0 ? open(scratch.path()) : Checkpoint::open(step);
        if (what == 0) test::check_grid(checkpoint, config, {}, 1);
        if (what == 1) (void)verify(step, {});
        if (what == 2) copy(plan_copy(checkpoint, false), scratch / "copy", {.replace = true});
        if (what == 3) diff(checkpoint, checkpoint, all_kinds, [](const auto&) {});
        if (what == 4) reshard(checkpoint, 1, 2, scratch / "resharded", {});
        if (what == 5) merge({{checkpoint, 1}}, {}, scratch / "merged");
    };
    io::make_directories(scratch / "resharded");
    io::make_directories(scratch / "merged");
    const int error_number = GENERATE(EIO, EACCES, ESTALE);
    const std::string expected = std::generic_category().message(error_number);
    for (int what = 0; what < 6; ++what) {
        i64 n_failed = 0;
        for (i64 at = 1;; at += at / 8 + 1) {
            io::fault::arm(io::fault::Action::fail_read, at, error_number);
            std::string text;
            try {
                use(what);
            } catch (const DamageError& error) {
                FAIL_CHECK("use " << what << " read " << at << ": damage: " << error.what());
            } catch (const Error& error) {
                text = error.what();
            }
            io::fault::arm(io::fault::Action::none, 0);
            if (text.empty()) break;
            CHECK_THAT(text, ContainsSubstring(expected));
            ++n_failed;
        }
        CHECK(n_failed > 0);
    }
    CHECK(verify(step, {}).problems.empty());
}
