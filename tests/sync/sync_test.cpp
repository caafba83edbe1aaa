// SPDX-License-Identifier: Apache-2.0
#include "sync/sync.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <set>

#include "base/error.hpp"
#include "base/log.hpp"
#include "ckpt/history/rollback.hpp"
#include "ckpt/history/steps.hpp"
#include "ckpt/support.hpp"
#include "io/append_file.hpp"
#include "io/path.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::sync;
using Steps = std::vector<i64>;

namespace {

// A target in a local directory that a test treats as remote: it gives its manifests as copies, and
// each kind of transfer fails a number of times.
class RemoteTarget : public SyncTarget {
  public:
    explicit RemoteTarget(const std::string& path) : path_(path) {
        local_ = SyncTarget::open(path, {});
    }

    std::vector<std::string> files() override {
        attempt("files");
        return local_->files();
    }

    std::string manifests(const std::string& cache) override {
        attempt("manifests");
        io::remove_tree(cache);
        io::make_directories(cache);
        local_->manifests(cache);
        for (const std::string& name : io::list_directory(path_)) {
            const std::string from = path_ + "/" + name;
            if (name == ckpt::latest_file) test::write(cache + "/" + name, test::read(from));
            if (!io::exists(from + "/manifest.json")) continue;
            io::make_directories(cache + "/" + name);
            test::write(cache + "/" + name + "/manifest.json", test::read(from + "/manifest.json"));
        }
        return cache;
    }
    bool has_space(const std::string&, i64) override {
        return std::ssize(ckpt::steps_in(path_)) < most_steps;
    }
    void send_step(const std::string& path) override {
        attempt("step");
        local_->send_step(path);
    }
    void send_file(const std::string& path, const std::string& name) override {
        attempt("file");
        local_->send_file(path, name);
    }
    bool has_directory(const std::string& name) override { return local_->has_directory(name); }
    void rename(const std::string& from, const std::string& to) override {
        attempt("rename");
        local_->rename(from, to);
    }
    void remove_step(const std::string& name) override { local_->remove_step(name); }
    bool same_bytes(const std::string& path) override { return local_->same_bytes(path); }

    i64 most_steps = 100;  // steps that it has the space for
    void fail(const std::string& what, int times) { failures_[what] = times; }
    int attempts(const std::string& what) { return attempts_[what]; }

  private:
    void attempt(const std::string& what) {
        ++attempts_[what];
        if (failures_[what]-- > 0) run_error("remote", "the connection broke");
    }

    std::string path_;
    std::unique_ptr<SyncTarget> local_;
    std::map<std::string, int> failures_, attempts_;
};

// A run that saved steps, and a destination.
class Run {
  public:
    explicit Run(const Steps& steps) : config_(test::small_model()), buffers_(config_, {}) {
        generation_ = ckpt::claim(source());
        save(steps);
        request.source = source();
        request.destination = destination();
        request.retries = 0;
    }
    void save(const Steps& steps) {
        for (const i64 step : steps) {
            ckpt::save(generation_, test::info_of(config_, step), buffers_.pieces());
        }
    }
    // Goes back to a step; later steps belong to a new branch.
    void resume(i64 step) {
        generation_ = ckpt::claim(source(), ckpt::tip_of(ckpt::read_manifest(path(step))));
    }
    std::string source() const { return scratch_ / "c"; }
    std::string destination() const { return scratch_ / "backup"; }
    std::string path(i64 step) const { return source() + "/" + ckpt::step_name(step); }
    SyncReport sync() const { return sync::sync(request).value(); }
    SyncReport sync_to(SyncTarget& target) const {
        return sync::sync_to(target, request, scratch_ / "cache");
    }
    Steps there() const { return ckpt::steps_in(destination()); }

    SyncRequest request;

  private:
    test::ScratchDirectory scratch_;
    spec::ModelConfig config_;
    test::Buffers buffers_;
    ckpt::Generation generation_;
};

// Drops the log messages of a test.
struct Quiet {
    Quiet() {
        set_log_sink([](Severity, std::string_view) {});
    }
    ~Quiet() { set_log_sink(nullptr); }
    Quiet(const Quiet&) = delete;
    Quiet& operator=(const Quiet&) = delete;
};

void damage(const std::string& step) {
    const std::string weights = step + "/weights-00000.safetensors";
    std::string bytes = test::read(weights);
    bytes.back() ^= 1;
    test::write(weights, bytes);
}

}  // namespace

TEST_CASE("a sync copies the missing steps and names the newest one in latest") {
    Run run({2, 4});
    CHECK(run.sync().copied == Steps{2, 4});
    CHECK(ckpt::latest_step(run.destination()) == 4);
    run.save({6});
    const SyncReport again = run.sync();
    CHECK(again.copied == Steps{6});
    CHECK(again.present == Steps{2, 4});
    CHECK(again.bytes > 0);
    CHECK(ckpt::latest_step(run.destination()) == 6);
}

TEST_CASE("the destination keeps steps by its own rules") {
    Run run({2, 4, 6});
    run.sync();
    run.request.rules.keep.steps = {2};
    CHECK(run.sync().removed == Steps{4});
    CHECK(run.there() == Steps{2, 6});
    run.request.rules.full_steps = 1;
    CHECK(run.sync().state_removed == Steps{2});
    CHECK(run.sync().present == Steps{2, 6});
}

TEST_CASE("a corrupt step is reported and not copied; the other steps are") {
    const Quiet quiet;
    Run run({2, 4});
    damage(run.path(2));
    const SyncReport report = run.sync();
    REQUIRE(report.failed.size() == 1);
    CHECK_THAT(report.failed[0], HasInOrder("global_step2: ", "not copied"));
    CHECK(report.copied == Steps{4});
    CHECK(run.there() == Steps{4});
}

TEST_CASE("when the step that latest names is lost, the destination keeps its steps") {
    const Quiet quiet;
    const bool all = GENERATE(true, false);
    const std::string lost = GENERATE("", "/manifest.json");
    Run run({1, 2, 3});
    CHECK(run.sync().failed.empty());
    run.request.rules.keep.last = 1;
    for (const i64 step : all ? Steps{1, 2, 3} : Steps{3}) io::remove_tree(run.path(step) + lost);
    const SyncReport report = run.sync();
    REQUIRE(report.failed.size() == 1);
    CHECK_THAT(report.failed[0], HasInOrder(run.source() + "/latest: ", "global_step3"));
    CHECK(report.removed.empty());
    CHECK(report.set_aside.empty());
    CHECK(run.there() == Steps{1, 2, 3});
    CHECK(ckpt::latest_step(run.destination()) == 3);
}

TEST_CASE("with verify, changed bytes at the destination are reported") {
    const Quiet quiet;
    Run run({2, 4});
    run.sync();
    run.request.verify = true;
    CHECK(run.sync().verified == Steps{2, 4});
    damage(run.destination() + "/global_step2");
    const SyncReport report = run.sync();
    CHECK(report.verified == Steps{4});
    REQUIRE(report.failed.size() == 1);
    CHECK_THAT(report.failed[0], HasInOrder("global_step2: ", "differs"));
}

TEST_CASE("steps of an abandoned branch are set aside at the destination") {
    Run run({2, 4});
    run.sync();
    run.resume(2);
    run.save({4, 6});
    const SyncReport report = run.sync();
    CHECK(report.copied == Steps{4, 6});
    CHECK(report.set_aside == Steps{4});
    CHECK(io::exists(run.destination() + "/abandoned-g2/global_step4/manifest.json"));
    CHECK(ckpt::latest_step(run.destination()) == 6);
}

TEST_CASE("a remote target gets the steps, latest and the logs") {
    Run run({2, 4});
    test::write(run.source() + "/run.log", "text\n");
    run.request.logs = {run.source() + "/*.log"};
    RemoteTarget target(run.destination());
    const SyncReport report = run.sync_to(target);
    CHECK(report.copied == Steps{2, 4});
    CHECK(report.n_logs == 1);
    CHECK(test::read(run.destination() + "/logs/run.log") == "text\n");
    CHECK(ckpt::latest_step(run.destination()) == 4);
    // Nothing has changed: `latest` is not sent again, only the log.
    const int sent = target.attempts("file");
    CHECK(run.sync_to(target).present == Steps{2, 4});
    CHECK(target.attempts("file") == sent + 1);
}

TEST_CASE("at a full destination the rules make room for a copy, but not for a corrupt step") {
    const Quiet quiet;
    Run run({2, 4});
    run.request.rules.keep.last = 2;
    RemoteTarget target(run.destination());
    target.most_steps = 2;
    run.sync_to(target);
    run.save({6, 8});
    damage(run.path(6));
    SyncReport report = run.sync_to(target);
    CHECK(report.copied == Steps{8});
    CHECK(report.removed == Steps{2});
    CHECK(run.there() == Steps{4, 8});
    run.save({10});
    damage(run.path(10));
    report = run.sync_to(target);
    CHECK(report.removed.empty());
    CHECK(run.there() == Steps{4, 8});
    // The newest step stays, whatever the rules are.
    run.save({12});
    run.request.rules.keep.last = 1;
    target.most_steps = 1;
    report = run.sync_to(target);
    CHECK(report.removed == Steps{4, 8});
    CHECK(run.there() == Steps{12});
}

TEST_CASE("a broken transfer is repeated, at most `retries` times") {
    const Quiet quiet;
    Run run({2});
    run.request.retries = 1;
    RemoteTarget target(run.destination());
    target.fail("step", 1);
    CHECK(run.sync_to(target).copied == Steps{2});
    CHECK(target.attempts("step") == 2);
}

TEST_CASE("a step whose transfer keeps failing is reported, and the next one is copied") {
    const Quiet quiet;
    Run run({2, 4});
    RemoteTarget target(run.destination());
    target.fail("step", 1);
    const SyncReport report = run.sync_to(target);
    const std::vector<std::string> broke = {
        "remote: the connection broke: run lm-ckpt sync again to continue"};
    CHECK(report.failed == broke);
    CHECK(report.copied == Steps{4});
    target.fail("manifests", 1);
    const SyncReport ended = run.sync_to(target);
    CHECK(ended.failed == broke);
    CHECK(ended.copied.empty());
}

TEST_CASE("steps that a rollback has abandoned do not keep their names at the destination") {
    Run run({2, 4, 6});
    run.sync();
    ckpt::roll_back(run.source(), 2);
    CHECK(run.sync().set_aside == Steps{4, 6});
    CHECK(ckpt::steps_in(run.destination()) == Steps{2});
    CHECK(run.sync().set_aside.empty());
}

TEST_CASE("a second rollback to one step sets a step number aside under a name with a suffix") {
    Run run({2, 4});
    run.sync();
    for (int n = 0; n < 3; ++n) {
        ckpt::roll_back(run.source(), 2);
        const SyncReport report = run.sync();
        CHECK(report.set_aside == Steps{4});
        CHECK(report.failed.empty());
        run.resume(2);
        run.save({4});
        CHECK(run.sync().copied == Steps{4});
    }
    CHECK(io::list_directory(run.destination() + "/abandoned-g1") ==
          std::vector<std::string>{"global_step4", "global_step4.2", "global_step4.3"});
}

TEST_CASE("a second sync to the same destination does nothing") {
    Run run({2});
    run.sync();
    auto lock = io::AppendFile::open(run.destination() + "/.sync-lock");
    REQUIRE(lock.lock());
    // The same directory under another name.
    run.request.destination = run.destination() + "/../" + io::base_name(run.destination());
    CHECK_FALSE(sync::sync(run.request).has_value());
}
