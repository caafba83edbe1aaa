// SPDX-License-Identifier: Apache-2.0
// The texts of a flight recorder, and when the watchdog reports.
#include <atomic>
#include <mutex>
#include <thread>

#include "comm/flight_recorder.hpp"
#include "comm/threads/run_ranks.hpp"
#include "comm/watchdog.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::comm;

namespace {

bool has(const std::vector<std::string>& lines, const std::string& word) {
    for (const std::string& line : lines) {
        if (line.find(word) != std::string::npos) return true;
    }
    return false;
}

}  // namespace

TEST_CASE("where() describes phase, step and wait") {
    FlightRecorder recorder;
    CHECK(recorder.where() == "not started yet");
    recorder.step(12);
    CHECK(recorder.where() == "step 12 for 0 s");
    const u8 tensor = recorder.add_group(1, "tensor", 0, 2);
    recorder.enter("forward", 3);
    CHECK(recorder.where() == "forward 3 of step 12 for 0 s");
    recorder.waiting(tensor, 0);
    CHECK(recorder.where() == "forward 3 of step 12 for 0 s, waiting in group 'tensor' for 0 s");
    recorder.waited(tensor);
    recorder.enter("optimizer");
    CHECK(recorder.where() == "optimizer of step 12 for 0 s");
}

TEST_CASE("a flight recorder keeps the last events only, and cuts long names") {
    FlightRecorder recorder;
    for (i64 i = 0; i < 10000; ++i) recorder.enter("forward", i);
    recorder.waiting(recorder.add_group(2, std::string(100, 'x'), 0, 1), 0);
    const std::vector<std::string> events = recorder.events();
    REQUIRE(events.size() == FlightRecorder::n_events);
    CHECK_THAT(events[FlightRecorder::n_events - 2], ContainsSubstring("s ago: forward 9999"));
    CHECK_THAT(events[0], ContainsSubstring("s ago: forward 8977"));
    CHECK_THAT(events.back(), ContainsSubstring("group 'xxxxxxxxxxxxxxxxxxxxxxx': waits"));
}

TEST_CASE("groups and their parts record their operations") {
    std::vector<FlightRecorder> recorders(2);
    run_ranks(2, [&](Group& world) {
        FlightRecorder& recorder = recorders[static_cast<size_t>(world.rank())];
        world.record_to(&recorder);
        recorder.enter("forward", 1);
        const std::unique_ptr<Group> part = world.split(0, 0, "tensor");
        float x[3] = {};
        world.barrier();
        part->all_reduce({x, DType::fp32, {3}});
        if (world.rank() == 0) part->send({x, DType::fp32, {3}}, 1);
        if (world.rank() == 1) part->receive({x, DType::fp32, {3}}, 0);
    });
    const std::vector<std::string> events = recorders[0].events();
    CHECK(has(events, "group 'world': split, operation 0"));
    CHECK(has(events, "group 'world': barrier, operation 1"));
    CHECK(has(events, "group 'tensor': all_reduce(sum, 3 x fp32), operation 0, 12 bytes"));
    CHECK(has(events, "group 'tensor': continues"));
    CHECK_THAT(
        recorders[0].where(),
        ContainsSubstring("last started group 'tensor': send(3 x fp32 to rank 1), message 0"));
    CHECK_THAT(recorders[1].where(), StartsWith("forward 1 for"));
}

TEST_CASE("the watchdog reports on request, and once for each stall") {
    FlightRecorder recorder;
    recorder.enter("save");
    std::atomic<bool> asked = true;
    std::mutex mutex;
    std::vector<std::string> lines;
    const auto n_told = [&](const std::string& word) {
        const std::lock_guard lock(mutex);
        int n = 0;
        for (const std::string& line : lines) n += line.starts_with(word);
        return n;
    };
    {
        const Watchdog dog(recorder, {0.3, [&] { return asked.exchange(false); },
                                      [&](const std::string& line) {
                                          const std::lock_guard lock(mutex);
                                          lines.push_back(line);
                                      }});
        while (n_told("nothing has happened for") < 1) std::this_thread::yield();
        CHECK(n_told("state: save for") == 1);
        recorder.enter("forward");
        while (n_told("nothing has happened for") < 2) std::this_thread::yield();
    }
    CHECK_THAT(lines.back(), ContainsSubstring(": forward for"));
    CHECK(n_told("nothing has happened for") == 2);
}
