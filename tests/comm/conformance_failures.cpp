// SPDX-License-Identifier: Apache-2.0
// Bodies that must end the job with an error: a rank gives up, throws, does not start an operation,
// or starts another operation than the others.
#include <fmt/format.h>

#include <chrono>
#include <stdexcept>
#include <thread>

#include "base/error.hpp"
#include "conformance.hpp"

namespace lm::test {
namespace {

using comm::Group;

device::View view_of(std::vector<float>& values) {
    return {values.data(), DType::fp32, {static_cast<i64>(values.size())}};
}

void one_gives_up(Group& world) {
    if (world.rank() == 1) world.abort("the disk is full");
    std::vector<float> x(10);
    for (int i = 0; i < 100000; ++i) world.all_reduce(view_of(x));
}

void one_throws(Group& world) {
    if (world.rank() == 1) throw std::runtime_error("no such file");
    world.barrier();
}

void one_stops(Group& world) {
    if (world.rank() == 1) throw Error(Exit::self_stopped, "the kill switch is set");
    world.barrier();
}

// All ranks fail at the same time, each with its own error: one of them is printed, once.
void all_throw(Group& world) {
    world.barrier();
    run_error(fmt::format("data/{}.bin", world.rank()), "cannot be read");
}

void one_never_comes(Group& world) {
    std::vector<float> x(10);
    world.all_reduce(view_of(x));
    const std::unique_ptr<Group> half = world.split(world.rank() / 2, 0, "half");
    if (world.rank() == 1) {
        // Waits in another group for a message that no rank sends. Starts to wait 2 s after the
        // other ranks, so that their timeouts expire first.
        std::this_thread::sleep_for(std::chrono::seconds(2));
        std::vector<float> y(1);
        world.receive(view_of(y), 0);
    }
    half->all_reduce(view_of(x));
}

void other_operation(Group& world) {
    std::vector<float> x(10);
    std::vector<float> y(static_cast<size_t>(10 * world.size()));
    world.all_reduce(view_of(x));
    if (world.rank() == 1) return world.all_gather(view_of(x), view_of(y));
    world.all_reduce(view_of(x));
}

void other_shape(Group& world) {
    std::vector<float> x(world.rank() == 1 ? 11 : 10);
    world.all_reduce(view_of(x));
}

void other_message(Group& world) {
    std::vector<float> x(10);
    std::vector<float> y(11);
    if (world.rank() == 0) world.send(view_of(x), 1);
    if (world.rank() == 1) world.receive(view_of(y), 0);
    world.barrier();
}

}  // namespace

const std::vector<FailureCase>& failure_cases() {
    static const std::vector<FailureCase> cases = {
        {"one_gives_up", 2, one_gives_up, {"rank 1", "the disk is full"}, false},
        {"one_throws", 2, one_throws, {"no such file"}, false},
        {"one_stops", 2, one_stops, {"the kill switch is set"}, false},
        {"all_throw", 2, all_throw, {"cannot be read"}, false},
        {"one_never_comes", 2, one_never_comes, {"timed out after"}, false},
        {"other_operation",
         2,
         other_operation,
         {"operation 1:", "all_gather(10 x fp32)", "all_reduce(sum, 10 x fp32)"},
         true},
        {"other_shape", 2, other_shape, {"operation 0:", "rank 1", "11 x fp32", "10 x fp32"}, true},
        {"other_message",
         2,
         other_message,
         {"send(10 x fp32 to rank 1)", "receive(11 x fp32 from rank 0)"},
         true}};
    return cases;
}

}  // namespace lm::test
