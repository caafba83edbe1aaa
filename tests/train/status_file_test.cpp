// SPDX-License-Identifier: Apache-2.0
#include "train/log/status_file.hpp"

#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::train;

namespace {

struct Fixture {
    test::TempDir scratch;
    std::string path = scratch / "status.json";
    double started_s = unix_time_s() - 1;

    StatusFile status(bool is_rank0 = true) const {
        return StatusFile({.path = path, .save = "run", .total_iterations = 50, .log_interval = 10},
                          is_rank0);
    }
    io::Json json() const { return io::read_json(path); }
};

}  // namespace

TEST_CASE("the status file follows a run from start to end") {
    const Fixture run;
    StatusFile status = run.status();
    status.start();
    CHECK(run.json()["state"] == "starting");
    CHECK(run.json()["iteration"].is_null());
    CHECK(run.json()["due"] > unix_time_s() + 500);  // the timeout of operations between ranks
    status.resumed(0, 4);
    status.claimed("4711", 3);
    CHECK(run.json()["iteration"] == 0);
    CHECK(run.json()["consumed_samples"] == 4);
    status.iteration(1, 8, 2.0, false);  // the first iteration is written although it is not logged
    CHECK(run.json()["state"] == "running");
    status.iteration(2, 16, 2.5, false);
    CHECK(run.json()["iteration"] == 1);
    CHECK(run.json()["failed_saves"] == 0);
    CHECK(run.json()["failed_local_saves"] == 0);
    status.saved(-1, 2);
    status.saved_locally(4, 3);
    status.iteration(9, 72, 2.5, true);
    CHECK(run.json()["saved_iteration"].is_null());
    CHECK(run.json()["failed_saves"] == 2);
    CHECK(run.json()["local_saved_iteration"] == 4);
    CHECK(run.json()["failed_local_saves"] == 3);
    status.saved(10, 0);
    status.iteration(10, 80, 2.5, true);
    CHECK(run.json()["failed_saves"] == 0);
    const io::Json json = run.json();
    CHECK(json["iteration"] == 10);
    CHECK(json["total_iterations"] == 50);
    CHECK(json["saved_iteration"] == 10);
    CHECK(json["consumed_samples"] == 80);
    CHECK(json["step_s"] == 2.5);
    CHECK(json["run_id"] == "4711");
    CHECK(json["generation"] == 3);
    CHECK(json["exit_code"].is_null());
    // Three intervals of 10 iterations, and some slack.
    CHECK(json["due"].get<double>() - json["time"].get<double>() == Approx(3 * 25 + 60).margin(1));
    status.busy("validating", 100);
    CHECK(run.json()["state"] == "validating");
    status.stopping("SIGUSR1: stopped");
    end_status(run.path, {.code = Exit::run_again}, run.started_s);
    CHECK(run.json()["state"] == "stopped");
    CHECK(run.json()["exit_code"] == 75);
    CHECK(run.json()["reason"] == "SIGUSR1: stopped");
    CHECK(run.json()["iteration"] == 10);
    CHECK(run.json()["due"].is_null());
}

TEST_CASE("an older generation does not write over a newer one") {
    const Fixture run;
    StatusFile older = run.status();
    older.start();
    older.claimed("4711", 1);
    StatusFile newer = run.status();
    newer.start();
    newer.claimed("4711", 2);
    newer.iteration(5, 40, 1, true);
    older.iteration(9, 72, 1, true);
    CHECK(run.json()["generation"] == 2);
    CHECK(run.json()["iteration"] == 5);
}

TEST_CASE("a long interval is due by the minute") {
    const Fixture run;
    StatusFile status = run.status();
    status.start();
    status.iteration(10, 80, 30, true);
    CHECK(run.json()["due"] < unix_time_s() + 3 * 60 + 70);
}

TEST_CASE("the first error is kept, and an error before the start replaces an older run") {
    const Fixture run;
    StatusFile status = run.status();
    status.start();
    status.iteration(7, 56, 1, true);
    end_status(run.path, {Exit::failure, "rank 2: disk full", 2}, run.started_s);
    end_status(run.path, {Exit::failure, "rank 0: connection closed", 0}, run.started_s);
    CHECK(run.json()["state"] == "failed");
    CHECK(run.json()["reason"] == "rank 2: disk full");
    CHECK(run.json()["rank"] == 2);
    CHECK(run.json()["iteration"] == 7);
    const double later_s = unix_time_s() + 1;
    end_status(run.path, {Exit::usage, "--load: no such directory", 0}, later_s);
    CHECK(run.json()["exit_code"] == 2);
    CHECK_FALSE(run.json().contains("iteration"));
}

TEST_CASE("other ranks and runs without --status-file write nothing") {
    const Fixture run;
    StatusFile other = run.status(false);
    other.start();
    other.iteration(1, 8, 1, true);
    CHECK_FALSE(io::exists(run.path));
    StatusFile none({}, true);
    none.start();
    end_status("", {}, 0);
}

TEST_CASE("a status file that cannot be written is one warning") {
    const Fixture run;
    StatusFile status({.path = run.scratch / "missing/status.json"}, true);
    status.start();
    status.iteration(1, 8, 1, true);
    end_status(run.scratch / "missing/status.json", {.code = Exit::done}, run.started_s);
}

TEST_CASE("states of exit codes") {
    CHECK(state_of(Exit::done) == std::string("finished"));
    CHECK(state_of(Exit::do_not_run_again) == std::string("stopped"));
    CHECK(state_of(Exit::self_stopped) == std::string("failed"));
}

TEST_CASE("with_end_status writes results and errors") {
    const Fixture run;
    CHECK(with_end_status(run.path, [] { return 76; }) == 76);
    CHECK(run.json()["state"] == "stopped");
    CHECK_THROWS_AS(
        with_end_status(run.path, []() -> int { throw JointError(Exit::self_stopped, "NaN"); }),
        JointError);
    CHECK(run.json()["exit_code"] == 4);
    CHECK(run.json()["reason"] == "NaN");
    // A superseded run writes its end to its own file, but not to that of the newer run.
    const auto supersede = [&] {
        return with_end_status(run.path, [] { return static_cast<int>(Exit::superseded); });
    };
    CHECK(supersede() == 77);
    CHECK(run.json()["exit_code"] == 77);
    io::Json newer = run.json();
    newer["process"] = 1;
    newer["exit_code"] = nullptr;
    io::write_file(run.path, newer.dump(), io::Overwrite::yes);
    CHECK(supersede() == 77);
    CHECK(run.json()["exit_code"].is_null());
}
