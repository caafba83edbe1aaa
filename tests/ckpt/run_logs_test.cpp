// SPDX-License-Identifier: Apache-2.0
#include "ckpt/history/run_logs.hpp"

#include <unistd.h>

#include <filesystem>
#include <set>

#include "metrics/event_file.hpp"
#include "support.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::ckpt;

namespace {

// A checkpoint directory with logs of each kind.
class RunDirectory {
  public:
    void write(const std::string& name, const std::string& text) const {
        const std::string path = scratch_ / name;
        io::make_directories(path.substr(0, path.rfind('/')));
        test::write(path, text);
    }
    std::string read(const std::string& name) const { return test::read(scratch_ / name); }
    bool has(const std::string& name) const { return io::exists(scratch_ / name); }
    std::string operator/(const std::string& name) const { return scratch_ / name; }
    const std::string& path() const { return scratch_.path(); }
    bool cut(const std::string& name, i64 step) const {
        const LogCut point{
            .iteration = step, .samples = 8 * step, .tokens = 80 * step, .gigaflos = 800 * step};
        return cut_log({scratch_ / name, name}, point, scratch_ / "aside");
    }

  private:
    test::ScratchDirectory scratch_;
};

std::set<std::string> names(const std::vector<RunLog>& logs) {
    std::set<std::string> all;
    for (const RunLog& log : logs) all.insert(log.name);
    return all;
}

}  // namespace

TEST_CASE("logs are found by their names, but not in steps and abandoned branches") {
    const RunDirectory run;
    for (const char* name :
         {"a.log", "b.out", "c.err", "d.jsonl", "tb/events.out.tfevents.1.host", "e.txt", "latest",
          "log", "log.json", "status.json", "global_step4/x.log", "global_step8.tmp.g2/x.log",
          "abandoned-g2/x.log"}) {
        run.write(name, "text\n");
    }
    CHECK(names(logs_below(run.path())) == std::set<std::string>{"a.log", "b.out", "c.err",
                                                                 "d.jsonl", "log", "log.json",
                                                                 "tb/events.out.tfevents.1.host"});
}

TEST_CASE("a pattern matches files of any name, and a directory stands for its logs") {
    const RunDirectory run;
    for (const char* name : {"x.txt", "y.txt", "more/z.log", "more/z.txt"}) run.write(name, "\n");
    CHECK(names(logs_matching({run / "*.txt"})) == std::set<std::string>{"x.txt", "y.txt"});
    CHECK(names(logs_matching({run / "more", run / "x*"})) ==
          std::set<std::string>{"more/z.log", "x.txt"});
    CHECK_THAT(test::error_of(
                   [&] {
                       logs_matching({run / "x*", run / "no*"});
                   },
                   Exit::usage),
               ContainsSubstring("no*: "));
    CHECK(logs_matching({}).empty());
}

TEST_CASE("logs of the same name in different directories have different names") {
    const RunDirectory run;
    for (const char* name : {"a/x.log", "b/x.log", "b/y.log"}) run.write(name, "\n");
    const std::string path = run.path().substr(1);
    CHECK(names(logs_matching({run / "*/*.log"})) ==
          std::set<std::string>{path + "/a/x.log", path + "/b/x.log", "y.log"});
}

TEST_CASE("a link of the user stands for its target, and links below a directory are skipped") {
    const RunDirectory run;
    for (const char* name : {"real.log", "more/z.log"}) run.write(name, "{\"iteration\": 9}\n");
    const auto link = [&](const char* target, const char* name) {
        REQUIRE(::symlink(target, (run / name).c_str()) == 0);
    };
    link("real.log", "own.out");
    link("more", "also");
    CHECK(names(logs_below(run.path())) == std::set<std::string>{"real.log", "more/z.log"});
    const std::vector<RunLog> own = logs_matching({run / "own.out"});
    REQUIRE(own.size() == 1);
    CHECK(own[0].name == "own.out");
    CHECK(std::filesystem::equivalent(own[0].path, run / "real.log"));
    CHECK(names(logs_matching({run / "also/"})) == std::set<std::string>{"also/z.log"});
    // A link that takes the place of a log meanwhile is not followed.
    CHECK_THAT(test::error_of(
                   [&] {
                       cut_log({run / "own.out", "own.out"}, {}, run / "abandoned-g2");
                   },
                   Exit::failure),
               ContainsSubstring("own.out: is a symbolic link"));
    if (::geteuid() != 0) return;
    constexpr uid_t other = 65534;
    for (const char* name : {"own.out", "also"})
        REQUIRE(::lchown((run / name).c_str(), other, other) == 0);
    CHECK(logs_matching({run / "own.out", run / "also"}).empty());
}

TEST_CASE("a text log is cut before the first line of a later iteration") {
    const RunDirectory run;
    const std::string kept =
        "start\n{\"iteration\": 4, \"loss\": 1}\nvalidation loss at iteration 4 | 1.5\nnote\n";
    const std::string later = "{\"iteration\": 5, \"loss\": 1}\nnote of 5\n";
    run.write("run.log", kept + later);
    CHECK(run.cut("run.log", 4));
    CHECK(run.read("run.log") == kept);
    CHECK(run.read("aside/run.log") == kept + later);
}

TEST_CASE("lines of a resumed run after a rolled-back iteration are kept") {
    const RunDirectory run;
    const std::string first = "{\"iteration\": 4}\n", later = "{\"iteration\": 6}\nnote of 6\n",
                      resumed = "{\"iteration\": 5}\nnote of 5, without a newline at its end";
    run.write("run.jsonl", first + later + resumed);
    CHECK(run.cut("run.jsonl", 5));
    CHECK(run.read("run.jsonl") == first + resumed);
}

TEST_CASE("a log without later iterations is unchanged, and gets no copy") {
    const RunDirectory run;
    run.write("run.log", "{\"iteration\": 4}\n{\"iteration\": \"nine\"}\n{broken\nnote\n");
    run.write("empty.log", "");
    CHECK_FALSE(run.cut("run.log", 4));
    CHECK_FALSE(run.cut("empty.log", 4));
    CHECK_FALSE(run.has("aside"));
}

TEST_CASE("an event file loses the records of later steps") {
    const RunDirectory run;
    const std::string kept =
        metrics::version_event(1.0) + metrics::scalar_event(1.0, 4, "lm-loss", 1.0F);
    run.write("tb/events.out.tfevents.1.host",
              kept + metrics::scalar_event(1.0, 5, "lm-loss", 1.0F));
    CHECK(run.cut("tb/events.out.tfevents.1.host", 4));
    CHECK(run.read("tb/events.out.tfevents.1.host") == kept);
}

TEST_CASE("an event file is cut at the position of the step on its own axis") {
    const RunDirectory run;
    for (const auto& [directory, per_step] :
         {std::pair<std::string, i64>{"vs-samples", 8}, {"vs-tokens", 80}, {"vs-gigaflos", 800}}) {
        const std::string name = "tb/" + directory + "/events.out.tfevents.1.host";
        const std::string kept =
            metrics::version_event(1.0) + metrics::scalar_event(1.0, 4 * per_step, "lm-loss", 1.0F);
        run.write(name, kept + metrics::scalar_event(1.0, 5 * per_step, "lm-loss", 1.0F));
        CHECK(run.cut(name, 4));
        CHECK(run.read(name) == kept);
    }
}
