// SPDX-License-Identifier: Apache-2.0
// Frames that a hub must refuse: every field out of its range, before and after the start.
#include <unistd.h>

#include <initializer_list>
#include <thread>

#include "comm/tcp/frame_check.hpp"
#include "comm/tcp/hub.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::comm;

namespace {

const std::vector<int> group_of_3 = {4, 2, 7};  // world ranks of a group
constexpr int size_of_job = 8;

// The sum of 10 numbers, of world rank 2.
Frame valid_post() {
    return {.kind = FrameKind::post,
            .from = 2,
            .member = 1,
            .group = 5,
            .number = 3,
            .n = 10,
            .operation = static_cast<u8>(OperationKind::all_reduce),
            .dtype = static_cast<u8>(DType::fp32),
            .n_bytes = 40};
}

Frame of_kind(OperationKind kind, i64 n_elements, u32 n_bytes, i32 peer = -1) {
    Frame frame = valid_post();
    frame.operation = static_cast<u8>(kind);
    frame.n = n_elements;
    frame.n_bytes = n_bytes;
    frame.peer = peer;
    if (kind == OperationKind::send) frame.kind = FrameKind::message;
    return frame;
}

std::string problem_with(const Frame& frame, const std::vector<int>* group = &group_of_3) {
    return problem_of(frame, 2, size_of_job, group);
}

// Requires that a valid frame is refused when a field has one of `values`.
template <typename T, typename U>
void refuses(T Frame::*field, std::initializer_list<U> values, Frame frame = valid_post()) {
    for (const U value : values) {
        frame.*field = static_cast<T>(value);
        CAPTURE(value);
        CHECK_FALSE(problem_with(frame).empty());
    }
}

}  // namespace

TEST_CASE("frames of all operations with the right sizes are valid") {
    using enum OperationKind;
    CHECK(problem_with(valid_post()).empty());
    CHECK(problem_with(of_kind(all_gather, 10, 40)).empty());
    CHECK(problem_with(of_kind(reduce_scatter, 10, 120)).empty());
    CHECK(problem_with(of_kind(broadcast, 10, 40, 1)).empty());  // from the root
    CHECK(problem_with(of_kind(broadcast, 10, 0, 2)).empty());
    CHECK(problem_with(of_kind(barrier, 0, 0)).empty());
    CHECK(problem_with(of_kind(split, 0, sizeof(SplitChoice))).empty());
    CHECK(problem_with(of_kind(send, 10, 40, 2)).empty());
    CHECK(problem_with({.kind = FrameKind::question, .from = 2, .peer = -1}).empty());
    const Frame answer{.kind = FrameKind::answer, .from = 2, .peer = 7, .n_bytes = 100};
    CHECK(problem_with(answer, nullptr).empty());
    CHECK(problem_with({.kind = FrameKind::failure, .from = 2, .code = 3, .n_bytes = 100}).empty());
    CHECK(problem_with({.kind = FrameKind::bye, .from = 2}, nullptr).empty());
}

TEST_CASE("a frame with one field out of range is refused") {
    CHECK_FALSE(problem_with(valid_post(), nullptr).empty());  // an unknown group
    refuses(&Frame::from, {4, 0, -1});
    refuses(&Frame::member, {-1, 0, 3, 1000});
    refuses(&Frame::number, {-1});
    refuses(&Frame::n, {i64{-1}, i64{9}, i64{11}, i64{1} << 40, INT64_MAX});
    refuses(&Frame::operation, {3, 4, 5, 6, 7, 8, 255});
    refuses(&Frame::reduction, {2, 255});
    refuses(&Frame::dtype, {0, 1, 8, 200});
    refuses(&Frame::n_bytes, {0U, 39U, 41U, 0xffffffffU});
    refuses(&Frame::kind, {0, 1, 2, 3, 4, 6, 7, 9, 13, -1});
    using enum OperationKind;
    refuses(&Frame::peer, {-1, 3, 1000}, of_kind(broadcast, 10, 0));
    refuses(&Frame::peer, {-1, 3, 1000}, of_kind(send, 10, 40));
    CHECK_FALSE(problem_with(of_kind(reduce_scatter, i64{1} << 30, 16)).empty());
    CHECK_FALSE(problem_with(of_kind(all_gather, i64{1} << 27, u32{1} << 29)).empty());  // 1.5 GiB
    CHECK_FALSE(problem_with(of_kind(split, 0, sizeof(SplitChoice) - 1)).empty());
    const Frame question{.kind = FrameKind::question, .from = 2};
    refuses(&Frame::peer, {-2, 3}, question);
    CHECK_FALSE(problem_with(question, nullptr).empty());
    refuses(&Frame::peer, {-1, 8}, {.kind = FrameKind::answer, .from = 2});
    const Frame failure{.kind = FrameKind::failure, .from = 2, .code = 3};
    refuses(&Frame::code, {0, 5, 255}, failure);
    refuses(&Frame::n_bytes, {1 << 20}, failure);
    refuses(&Frame::n_bytes, {1}, {.kind = FrameKind::bye, .from = 2});
}

TEST_CASE("an invalid frame of a rank ends the job with an error that names the rank") {
    const Meeting meeting{.rank = 0, .size = 3, .host = "127.0.0.1", .token = "secret"};
    TcpHub hub(meeting, 20);
    hub.start();
    const Socket rank0 = hub.connection_of_rank0();
    std::vector<Socket> others(2);
    std::vector<std::thread> threads;
    for (int rank : {1, 2}) {
        threads.emplace_back([&, rank] {
            Meeting own = meeting;
            own.port = hub.port();
            own.rank = rank;
            others[static_cast<size_t>(rank - 1)] = join_hub(own, Deadline(20));
        });
    }
    for (std::thread& thread : threads) thread.join();
    REQUIRE(wait_for_welcome(rank0, meeting, Deadline(20)));

    const Frame bad = GENERATE(
        Frame{.kind = FrameKind::message, .from = 1, .member = 1, .peer = 1000, .operation = 6},
        Frame{.kind = FrameKind::post, .from = 1, .member = 1, .group = 77},
        Frame{.kind = FrameKind::post, .from = 1, .member = 1, .n_bytes = 0xffffffff},
        Frame{.kind = FrameKind::answer, .from = 1, .peer = -5},
        Frame{.kind = FrameKind::welcome, .from = 1});
    REQUIRE(others[0].send_all(std::as_bytes(std::span(&bad, 1)), Deadline(5)));
    for (const int fd : {rank0.fd(), others[1].fd()}) {
        const Socket socket(dup(fd));
        Frame frame;
        REQUIRE(socket.receive_all(std::as_writable_bytes(std::span(&frame, 1)), Deadline(20)));
        CHECK(frame.kind == FrameKind::failure);
        CHECK(frame.from == 1);
        CHECK(frame.code == static_cast<u8>(Exit::failure));
        FrameBytes text(frame.n_bytes);
        REQUIRE(socket.receive_all(text, Deadline(5)));
        CHECK_THAT(text_of_bytes(text), ContainsSubstring("rank 1 on "));
    }
    hub.stop();
}
