// SPDX-License-Identifier: Apache-2.0
// Branches of a directory: what a resume may load, rollback, set-aside steps, the fence.
#include "ckpt/history/lineage.hpp"

#include <sys/wait.h>

#include <filesystem>

#include "base/log.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/rollback.hpp"
#include "ckpt/history/save.hpp"
#include "ckpt/history/steps.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;
using test::Buffers;

namespace {

// A directory with the runs that save in it.
class Runs {
  public:
    Runs() : config_(test::small_model()), buffers_(config_, {}) {}

    Generation start() { return claim(scratch_.path()); }
    Generation resume(i64 step) {
        return claim(scratch_.path(), tip_of(read_manifest(path(step))));
    }
    void save_steps(const Generation& generation, const std::vector<i64>& steps) {
        for (const i64 step : steps) {
            save(generation, test::info_of(config_, step), buffers_.pieces());
        }
    }
    std::string path(i64 step) const { return scratch_ / step_name(step); }
    const std::string& directory() const { return scratch_.path(); }
    std::string operator/(const std::string& name) const { return scratch_ / name; }
    i64 loaded() const { return ckpt::open(directory()).manifest().counters.iteration; }
    std::vector<i64> candidates() const {
        std::vector<i64> steps;
        const Lineage lineage = read_lineage(directory());
        for (const StepEntry* entry : lineage.candidates()) steps.push_back(entry->step);
        return steps;
    }
    void damage(i64 step) const { test::write(path(step) + "/manifest.json", "{}"); }

  private:
    test::ScratchDirectory scratch_;
    spec::ModelConfig config_;
    Buffers buffers_;
};

std::vector<std::string> notes_of(const std::function<void()>& f) {
    std::vector<std::string> notes;
    set_log_sink([&](Severity, std::string_view text) { notes.emplace_back(text); });
    f();
    set_log_sink(nullptr);
    return notes;
}

}  // namespace

TEST_CASE("a damaged step leads to its ancestors, never to a step of an abandoned branch") {
    Runs runs;
    runs.save_steps(runs.start(), {2, 4, 6, 8, 10});
    // The new branch begins at step 6; steps 8 and 10 of the old branch keep their names.
    const Generation branch = runs.resume(6);
    CHECK(branch.number == 2);
    runs.save_steps(branch, {12});
    CHECK(runs.loaded() == 12);
    CHECK(runs.candidates() == std::vector<i64>{12, 6, 4, 2});
    runs.damage(12);
    CHECK(runs.candidates() == std::vector<i64>{12, 6, 4, 2});
    CHECK(runs.loaded() == 6);
    CHECK(open_other(runs.directory(), {6}, "damaged").manifest().counters.iteration == 4);
    // The newest start began at step 6, so the branch is known without `latest`, and without the
    // generation files.
    io::remove_tree(runs / "latest");
    CHECK(runs.candidates() == std::vector<i64>{6, 4, 2});
    io::remove_tree(runs / "generation-2");
    CHECK(runs.candidates() == std::vector<i64>{6, 4, 2});
    for (const i64 step : {2, 4, 6}) runs.damage(step);
    CHECK_THAT(test::error_of([&] { runs.loaded(); }), ContainsSubstring("current branch"));
}

TEST_CASE("pruned steps between ancestors do not break a branch") {
    Runs runs;
    runs.save_steps(runs.start(), {2, 4, 6});
    runs.save_steps(runs.resume(4), {5, 7});
    runs.save_steps(runs.resume(7), {9});
    CHECK(runs.candidates() == std::vector<i64>{9, 7, 5, 4, 2});
    for (const i64 step : {4, 5, 7}) io::remove_tree(runs.path(step));
    CHECK(runs.candidates() == std::vector<i64>{9, 2});
    io::remove_tree(runs / "latest");
    CHECK(runs.candidates() == std::vector<i64>{9, 2});
}

TEST_CASE("a hand-written latest has only the name of a step") {
    Runs runs;
    runs.save_steps(runs.start(), {2, 4, 6});
    test::write(runs / "latest", "global_step4");
    CHECK(runs.candidates() == std::vector<i64>{4, 2});
    runs.damage(4);
    CHECK(runs.loaded() == 2);
    test::write(runs / "latest", "global_step5\n");
    CHECK(runs.loaded() == 2);
}

TEST_CASE("the size of latest is limited") {
    Runs runs;
    runs.save_steps(runs.start(), {2, 4});
    test::write(runs / "latest", "global_step2\r\n" + std::string(size_t{1} << 20, '\n'));
    CHECK(latest_step(runs.directory()) == 2);
    CHECK(read_latest(runs.directory())->step.digest.empty());
    test::write(runs / "latest", "global_step2\n" + std::string(size_t{17} << 20, '\n'));
    for (const auto& read :
         std::vector<std::function<void()>>{[&] { runs.loaded(); }, [&] { (void)runs.start(); }}) {
        CHECK_THAT(test::error_of(read), HasInOrder(runs / "latest", "large"));
    }
}

TEST_CASE("an error of the system does not lead to another step") {
    Runs runs;
    runs.save_steps(runs.start(), {2, 4});
    Lineage lineage = read_lineage(runs.directory());
    CHECK_FALSE(lineage.steps.back().unreadable);
    // A manifest that is a directory cannot be read, whoever runs the test.
    io::remove_tree(runs.path(4) + "/manifest.json");
    io::make_directories(runs.path(4) + "/manifest.json");
    CHECK_THAT(test::error_of([&] { runs.loaded(); }), ContainsSubstring("is a directory"));
    io::remove_tree(runs / "latest");
    CHECK_THAT(test::error_of([&] { runs.loaded(); }), ContainsSubstring("is a directory"));
}

TEST_CASE("a step that cannot be read prevents neither a start nor the load of another one") {
    Runs runs;
    runs.save_steps(runs.start(), {2, 4});
    io::make_directories(runs.path(9) + "/manifest.json");
    CHECK(runs.loaded() == 4);
    CHECK(runs.resume(4).number == 2);
    CHECK(runs.candidates() == std::vector<i64>{4, 2});
}

TEST_CASE("a rollback sets later steps aside and supersedes the running training") {
    Runs runs;
    const Generation running = runs.start();
    runs.save_steps(running, {2, 4, 6, 8});
    runs.damage(8);
    CHECK_THAT(test::error_of([&] { roll_back(runs.directory(), 8); }),
               ContainsSubstring("manifest.json"));
    const Rollback rollback = roll_back(runs.directory(), 4);
    CHECK(rollback.generation.number == 2);
    CHECK(rollback.set_aside == std::vector<std::string>{runs / "abandoned-g2/global_step6",
                                                         runs / "abandoned-g2/global_step8"});
    CHECK(steps_in(runs.directory()) == std::vector<i64>{2, 4});
    CHECK(runs.loaded() == 4);
    CHECK_THAT(test::error_of([&] { runs.save_steps(running, {10}); }, Exit::superseded),
               ContainsSubstring("generation 2"));
    // The number of a set-aside branch is not used again, whatever else was deleted.
    io::remove_tree(runs / "generation-2");
    io::remove_tree(runs / "fence.json");
    io::remove_tree(runs / "latest");
    CHECK(runs.resume(4).number == 3);
}

TEST_CASE("a save sets a step of another branch aside and replaces a step of its own branch") {
    Runs runs;
    runs.save_steps(runs.start(), {2, 4, 6});
    const std::string old = test::read(runs.path(4) + "/manifest.json");
    const Generation branch = runs.resume(2);
    const auto notes = notes_of([&] { runs.save_steps(branch, {4}); });
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], HasInOrder("global_step4: ", "set aside"));
    CHECK(test::read(runs / "abandoned-g2/global_step4/manifest.json") == old);
    CHECK(runs.candidates() == std::vector<i64>{4, 2});
    CHECK(notes_of([&] { runs.save_steps(branch, {4}); }).empty());
    CHECK(io::list_directory(runs / "abandoned-g2") == std::vector<std::string>{"global_step4"});
    CHECK_THAT(set_aside(runs.directory(), "global_step4", 2), ContainsSubstring("global_step4.2"));
}

TEST_CASE("the fence holds when the generation files are deleted") {
    Runs runs;
    const Generation old = runs.start();
    runs.save_steps(old, {2});
    const Generation fresh = runs.resume(2);
    io::remove_tree(runs / "generation-2");
    CHECK_THAT(test::error_of([&] { runs.save_steps(old, {4}); }, Exit::superseded),
               ContainsSubstring("generation 2: host"));
    runs.save_steps(fresh, {4});
    io::remove_tree(runs / "fence.json");
    CHECK_THAT(test::error_of([&] { runs.save_steps(old, {6}); }, Exit::superseded),
               ContainsSubstring("generation 2"));
    io::remove_tree(runs / "latest");
    CHECK(runs.resume(4).number == 3);
}

TEST_CASE("a run does not save into a directory that took the place of its own") {
    Runs runs;
    const Generation old = runs.start();
    runs.save_steps(old, {2});
    const auto refused = [&](const Generation& run, i64 step) {
        return test::error_of([&] { runs.save_steps(run, {step}); }, Exit::superseded)
            .starts_with(runs.directory());
    };
    const std::string away = runs.directory() + ".away";
    const auto move_away = [&] {
        io::checked::rename(runs.directory(), away);
        io::make_directories(runs.directory());
    };
    move_away();
    CHECK(refused(old, 4));
    CHECK(io::list_directory(runs.directory()).empty());
    // Another run has the same number.
    const Generation other = runs.start();
    CHECK(other.number == old.number);
    CHECK(refused(old, 4));
    runs.save_steps(other, {3});
    CHECK(steps_in(runs.directory()) == std::vector<i64>{3});
    // The same run resumed with the same number from a copy of its step.
    io::remove_tree(runs.directory());
    io::checked::rename(away, runs.directory());
    const Generation second = runs.resume(2);
    move_away();
    std::filesystem::copy(away + "/global_step2", runs.path(2));
    const Generation copied = runs.resume(2);
    CHECK(copied.number == second.number);
    CHECK(copied.run_id == second.run_id);
    runs.save_steps(copied, {4});
    CHECK(refused(second, 4));
    // Its own directory continues under a link, and with only one of the two files.
    io::remove_tree(runs.directory());
    std::filesystem::create_directory_symlink(away, runs.directory());
    runs.save_steps(second, {4});
    io::remove_tree(away + "/fence.json");
    runs.save_steps(second, {6});
    io::remove_tree(away + "/generation-2");
    CHECK(refused(second, 8));
    CHECK(steps_in(away) == std::vector<i64>{2, 4, 6});
    std::filesystem::remove(runs.directory());
    io::remove_tree(away);
}

TEST_CASE("claims that no run makes are damage, and nothing is claimed") {
    const auto refused = [](const std::string& name, const std::string& text) {
        const test::ScratchDirectory scratch;
        io::write_file(scratch / name, text, io::Overwrite::no);
        try {
            (void)claim(scratch.path());
        } catch (const DamageError& error) {
            return std::string(error.what()).starts_with(scratch / name) &&
                   io::list_directory(scratch.path()) == std::vector{name};
        }
        return false;
    };
    const std::string most = std::to_string(INT64_MAX);
    CHECK(refused("generation-" + most, ""));
    CHECK(refused("generation-3", R"({"generation": 3, "host": 5})"));
    CHECK(refused("generation-3", R"({"generation": 3, "process": "x"})"));
    CHECK(refused("generation-3", R"({"generation": "3"})"));
    CHECK(refused("fence.json", R"({"generation": )" + most + "}"));
    CHECK(refused("latest", "global_step3\n\n[{\"generation\": " + most +
                                R"(, "run_id": "a", "start": null}])" + "\n"));
    CHECK(refused("abandoned-g" + most, ""));
}

TEST_CASE("the largest generation is not exceeded") {
    for (const std::string name : {"generation-", "fence.json"}) {
        const test::ScratchDirectory scratch;
        const auto put = [&](i64 number) {
            const std::string file = name.ends_with('-') ? name + std::to_string(number) : name;
            const io::OrderedJson claim{{"generation", number}, {"lineage", io::Json::array()}};
            test::write(scratch / file, io::json_line(claim));
        };
        put(max_generation - 1);
        CHECK(claim(scratch.path()).number == max_generation);
        CHECK(newest_claim(scratch.path())->number == max_generation);
        const auto names = io::list_directory(scratch.path());
        CHECK_THROWS_AS((void)claim(scratch.path()), DamageError);
        CHECK(io::list_directory(scratch.path()) == names);
        CHECK(newest_claim(scratch.path())->number == max_generation);
    }
}

TEST_CASE("a start reports the run that it supersedes, if that one may be alive") {
    Runs runs;
    int ready[2] = {};
    REQUIRE(::pipe(ready) == 0);
    const pid_t child = ::fork();
    if (child == 0) {
        claim(runs.directory());
        ::_exit(::write(ready[1], "x", 1) == 1 ? ::pause() : 1);
    }
    char byte = 0;
    REQUIRE(::read(ready[0], &byte, 1) == 1);
    const auto notes = notes_of([&] { runs.start(); });
    REQUIRE(notes.size() == 1);
    CHECK_THAT(notes[0], HasInOrder("generation 1 (host", fmt::format("process {}", child)));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK(notes_of([&] { runs.start(); }).empty());
    ::close(ready[0]);
    ::close(ready[1]);
}
