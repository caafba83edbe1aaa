// SPDX-License-Identifier: Apache-2.0
// Dumps of flight recorders, the explanation of a hang from them, and the recorder of a stopped
// process.
#include <sys/wait.h>
#include <unistd.h>
#include <csignal>

#include "comm/flight_memory.hpp"
#include "comm/hang_story.hpp"
#include "io/atomic.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::comm;

namespace {

constexpr Operation sum{OperationKind::all_reduce, Reduction::sum, DType::fp32, 100};

// Four ranks: 'tensor' has the ranks 0, 1 and 2, 3; 'data' has 0, 2 and 1, 3.
struct Ranks {
    std::vector<FlightRecorder> recorders{4};
    std::vector<u8> tensor, data;

    Ranks() {
        for (int rank = 0; rank < 4; ++rank) {
            FlightRecorder& recorder = (*this)[rank];
            recorder.identify(rank, 4, 77);
            tensor.push_back(recorder.add_group(u64(10 + rank / 2), "tensor", rank % 2, 2));
            data.push_back(recorder.add_group(u64(20 + rank % 2), "data", rank / 2, 2));
            recorder.step(5);
            recorder.enter("backward", 1);
        }
    }
    FlightRecorder& operator[](int rank) { return recorders[static_cast<size_t>(rank)]; }
    u8 group(const std::vector<u8>& groups, int rank) { return groups[static_cast<size_t>(rank)]; }
    void wait(int rank, const std::vector<u8>& groups, i64 number) {
        usleep(2000);  // the explanation orders waits by their time
        (*this)[rank].started(group(groups, rank), sum, number);
        (*this)[rank].waiting(group(groups, rank), number);
    }
    std::vector<RankDump> dumps(int silent = -1) {
        std::vector<RankDump> all;
        for (int rank = 0; rank < 4; ++rank) {
            const int writer = rank == silent ? (rank + 1) % 4 : rank;
            all.push_back(dump_of((*this)[rank].ring(), writer));
            all.back().at_s += 5;  // the waits have lasted 5 s
        }
        return all;
    }
};

}  // namespace

TEST_CASE("a dump that is written and read is the same") {
    Ranks ranks;
    ranks.wait(1, ranks.tensor, 3);
    const test::TempDir scratch;
    const RankDump dump = dump_of(ranks[1].ring(), 1);
    io::write_file(scratch / "rank-1.jsonl", dump_text(dump), io::Overwrite::no);
    const RankDump read = read_dump(scratch / "rank-1.jsonl");
    CHECK(dump_text(read) == dump_text(dump));
    CHECK(read.events.back().what == "wait");
    io::write_file(scratch / "other", "{\"kind\":\"step\"}\n", io::Overwrite::no);
    CHECK_THROWS_WITH(read_dump(scratch / "other"), HasInOrder(scratch / "other: ", "\"rank\""));
}

TEST_CASE("the explanation names the rank that has not started the operation") {
    Ranks ranks;
    ranks.wait(0, ranks.tensor, 0);  // rank 1 never starts it
    ranks.wait(2, ranks.data, 0);    // for rank 0, which waits too
    ranks.wait(3, ranks.data, 0);    // for rank 1
    const HangStory story = explain_hang(ranks.dumps());
    CHECK(story.diverged == std::vector{1});
    CHECK_THAT(story.text, ContainsSubstring("rank 1 on "));
    CHECK_THAT(story.text,
               ContainsSubstring("diverged first: rank 0 of 4 waits for all_reduce(sum, 100 x "
                                 "fp32), operation 0 of group 'tensor'; the diverged rank was in "
                                 "backward 1 of step 5 for"));
    CHECK_THAT(story.text, ContainsSubstring("rank 2 of 4 has waited 5 s for rank 0 of 4:"));
}

TEST_CASE("the explanation names a rank that did not write its dump, and one without a dump") {
    Ranks ranks;
    for (int rank = 0; rank < 4; ++rank) ranks.wait(rank, ranks.data, 0);
    CHECK(explain_hang(ranks.dumps()).diverged.empty());
    CHECK_THAT(explain_hang(ranks.dumps()).text, ContainsSubstring("all members have started"));
    const HangStory silent = explain_hang(ranks.dumps(3));
    CHECK(silent.diverged == std::vector{3});
    CHECK_THAT(silent.text, ContainsSubstring("did not write its dump; rank 0 wrote it"));
    std::vector<RankDump> three = ranks.dumps();
    three.erase(three.begin() + 2);
    CHECK(explain_hang(three).diverged == std::vector{2});
    CHECK_THAT(explain_hang(three).text, ContainsSubstring("no dump of rank 2 of 4"));
}

TEST_CASE("a dump that is older than the hang does not show the state of its rank") {
    Ranks ranks;
    ranks.wait(2, ranks.tensor, 0);  // during an earlier false alarm
    const std::vector<RankDump> alarm = ranks.dumps();
    ranks[2].waited(ranks.group(ranks.tensor, 2));
    for (int rank = 0; rank < 4; ++rank) {
        if (rank != 2) ranks.wait(rank, ranks.data, 0);
    }
    std::vector<RankDump> dumps = ranks.dumps();
    CHECK(explain_hang(dumps).diverged == std::vector{2});
    dumps[2] = alarm[2];  // rank 2 could not write a dump of the hang
    dumps[2].at_s -= 5;
    const HangStory story = explain_hang(dumps);
    CHECK(story.diverged == std::vector{2});
    CHECK_THAT(story.text, ContainsSubstring("did not write a dump of this hang: its dump is "));
    CHECK_THAT(story.text, ContainsSubstring("this state is from a dump before the hang"));
    CHECK_THAT(story.text, !ContainsSubstring("rank 2 of 4 waits"));
}

TEST_CASE("the explanation names the sender that a receiver waits for, and members that disagree") {
    Ranks ranks;
    const Operation receive{OperationKind::receive, Reduction::sum, DType::fp32, 7, 1};
    ranks[0].started(ranks.group(ranks.data, 0), receive, 0);
    ranks[0].waiting(ranks.group(ranks.data, 0), -1);
    CHECK(explain_hang(ranks.dumps()).diverged == std::vector{2});
    ranks.wait(1, ranks.data, 0);
    ranks[3].started(ranks.group(ranks.data, 3), {OperationKind::barrier}, 0);
    CHECK_THAT(explain_hang(ranks.dumps()).text,
               ContainsSubstring(
                   "group 'data': the members disagree, beginning with operation 0: rank 1 of 4: "
                   "all_reduce(sum, 100 x fp32); rank 3 of 4: barrier"));
}

TEST_CASE("the dumps of ranks that wait for a short time show no hang") {
    Ranks ranks;
    ranks.wait(0, ranks.tensor, 3);
    std::vector<RankDump> dumps = ranks.dumps();
    for (RankDump& dump : dumps) dump.at_s -= 4;
    const HangStory story = explain_hang(dumps);
    CHECK(story.diverged.empty());
    CHECK_THAT(story.text, ContainsSubstring("no hang: no rank has waited 2 s or longer\n"));
}

TEST_CASE("a dump with an impossible rank is refused") {
    Ranks ranks;
    const test::TempDir scratch;
    for (const auto& [rank, size] :
         {std::pair(-7, 4), std::pair(4, 4), std::pair(0, 2'000'000'000)}) {
        RankDump dump = ranks.dumps().front();
        dump.rank = rank;
        dump.size = size;
        io::write_file(scratch / "rank-0.jsonl", dump_text(dump), io::Overwrite::yes);
        CHECK_THROWS_WITH(read_dump(scratch / "rank-0.jsonl"),
                          HasInOrder(scratch / "rank-0.jsonl: corrupt", "rank"));
    }
}

TEST_CASE("dumps of two runs, or none, are refused") {
    Ranks ranks;
    std::vector<RankDump> dumps = ranks.dumps();
    dumps[2].run = 78;
    CHECK_THROWS_WITH(explain_hang(dumps), ContainsSubstring("different runs"));
    CHECK_THROWS_WITH(explain_hang({dumps[0], dumps[0]}), ContainsSubstring("two dumps of rank 0"));
    CHECK_THROWS_WITH(explain_hang({}), ContainsSubstring("no dumps"));
}

TEST_CASE("the recorder of a stopped process can be read") {
    const i64 run = 123456 + getpid();
    const pid_t child = fork();
    if (child == 0) {
        FlightRecorder recorder = FlightRecorder::shared();
        recorder.step(9);
        recorder.enter("save");
        recorder.identify(3, 8, run);
        raise(SIGSTOP);
        _exit(0);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, WUNTRACED) == child);
    REQUIRE(WIFSTOPPED(status));
    FlightRecorder own;
    own.identify(0, 8, run);
    CHECK_THAT(state_of_silent_rank(own, 3), ContainsSubstring("save of step 9 for 0 s"));
    CHECK(state_of_silent_rank(own, 4).empty());
    const test::TempDir scratch;
    own.set_dump_directory(scratch / "dumps");
    CHECK(write_dumps(own) == scratch / "dumps/rank-0.jsonl");
    CHECK(read_dump(scratch / "dumps/rank-3.jsonl").written_by == 0);
    kill(child, SIGKILL);
    waitpid(child, &status, 0);
    CHECK(rings_on_host(run).empty());
}

TEST_CASE("a dump of an earlier request is replaced when its rank has worked since") {
    const i64 run = 223456 + getpid();
    const test::TempDir scratch;
    FlightRecorder own;
    FlightRecorder other = FlightRecorder::shared();
    own.identify(0, 2, run);
    other.identify(1, 2, run);
    other.step(4);
    own.set_dump_directory(scratch / "dumps");
    const auto dumped_step = [&] {
        write_dumps(own);
        return read_dump(scratch / "dumps/rank-1.jsonl").events.back().step;
    };
    CHECK(dumped_step() == 4);
    CHECK(dumped_step() == 4);  // rank 1 did nothing since
    own.step(5);
    other.step(5);
    usleep(2'100'000);
    CHECK(dumped_step() == 5);
    // Rank 1 has written a dump of rank 0, `age_s` ago; then rank 0 writes its dumps. Returns the
    // rank whose dump of rank 0 remains.
    const auto writer_after = [&](double age_s, bool stopped) {
        RankDump dump = dump_of(own.ring(), 1);
        dump.at_s -= age_s;
        dump.stopped = stopped;
        io::write_file(scratch / "dumps/rank-0.jsonl", dump_text(dump), io::Overwrite::yes);
        write_dumps(own);
        return read_dump(scratch / "dumps/rank-0.jsonl").written_by;
    };
    CHECK(writer_after(0, true) == 1);  // rank 0 has done nothing since
    CHECK(writer_after(0, false) == 0);
    CHECK(writer_after(31, true) == 0);  // left by an earlier request
    CHECK(writer_after(10, true) == 0);  // rank 0 has worked more than 2 s after that dump
}
