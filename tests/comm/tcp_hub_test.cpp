// SPDX-License-Identifier: Apache-2.0
// Ranks that join the hub of rank 0: as threads and processes, among unidentified connections,
// with missing and restarted ranks.
#include <netinet/in.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <deque>
#include <functional>
#include <thread>

#include "base/error.hpp"
#include "comm/tcp/hub.hpp"
#include "support/catch.hpp"
#include "support/free_port.hpp"

using namespace lm;
using namespace lm::comm;

namespace {

Meeting as_rank(const TcpHub& hub, Meeting meeting, int rank) {
    meeting.port = hub.port();
    meeting.rank = rank;
    return meeting;
}

std::string error_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

Socket join_as(TcpHub& hub, const Meeting& meeting, int rank, double timeout_s) {
    const Meeting own = as_rank(hub, meeting, rank);
    if (rank != 0) return join_hub(own, Deadline(timeout_s));
    Socket socket = hub.connection_of_rank0();
    (void)wait_for_welcome(socket, own, Deadline(timeout_s));
    return socket;
}

// Joins the hub as each of `ranks`, in threads. Blocks; returns their errors.
std::vector<std::string> join(TcpHub& hub, const Meeting& meeting, const std::vector<int>& ranks,
                              double timeout_s) {
    std::vector<std::string> errors(ranks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks.size(); ++i) {
        threads.emplace_back([&, i] {
            errors[i] = error_of([&] { (void)join_as(hub, meeting, ranks[i], timeout_s); });
        });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
}

std::vector<int> all_ranks(int size) {
    std::vector<int> ranks(static_cast<size_t>(size));
    for (int rank = 0; rank < size; ++rank) ranks[static_cast<size_t>(rank)] = rank;
    return ranks;
}

// A connection that sends `words` and stays open.
Socket unidentified(int port, const std::string& words) {
    std::string problem;
    Socket socket = connect_to("127.0.0.1", port, Deadline(5), &problem);
    REQUIRE(socket);
    (void)socket.send_all(std::as_bytes(std::span(words)), Deadline(5));
    return socket;
}

// Starts a process that connects to the port without a pause, and sends nothing.
pid_t flood(int port) {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child != 0) return child;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<u16>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    std::deque<Socket> open;
    while (true) {
        open.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
        // Without the state TIME_WAIT, in which closed connections would use up the ports.
        const linger reset{.l_onoff = 1, .l_linger = 0};
        setsockopt(open.back().fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        (void)connect(open.back().fd(), reinterpret_cast<sockaddr*>(&address), sizeof address);
        if (open.size() > 50) open.pop_front();
    }
}

}  // namespace

TEST_CASE("all ranks join") {
    const std::string host_name = GENERATE("127.0.0.1", "::1", "localhost");
    const Meeting meeting{.rank = 0, .size = 9, .host = host_name, .token = "a"};
    TcpHub hub(meeting, 20);
    hub.start();
    for (const std::string& error : join(hub, meeting, all_ranks(9), 20)) CHECK(error.empty());
}

TEST_CASE("processes join, also before the hub listens") {
    Meeting meeting{
        .rank = 0, .size = 4, .host = "127.0.0.1", .port = test::free_port(), .token = "b"};
    std::vector<pid_t> children;
    for (int rank = 1; rank < meeting.size; ++rank) {
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            meeting.rank = rank;
            _exit(error_of([&] { (void)join_hub(meeting, Deadline(20)); }).empty() ? 0 : 1);
        }
        children.push_back(child);
    }
    usleep(100'000);
    TcpHub hub(meeting, 20);
    hub.start();
    CHECK(error_of([&] { (void)join_as(hub, meeting, 0, 20); }).empty());
    for (const pid_t child : children) {
        int status = -1;
        waitpid(child, &status, 0);
        CHECK(status == 0);
    }
}

TEST_CASE("all ranks that joined get the names of the missing ones") {
    const Meeting meeting{.rank = 0, .size = 64, .host = "127.0.0.1", .token = "c"};
    TcpHub hub(meeting, 3);
    hub.start();
    const std::vector<std::string> errors = join(hub, meeting, {0, 6}, 3);
    CHECK_THAT(errors[0], HasInOrder(" 3 s ", "ranks 1-5, 7-63 of 64"));
    CHECK(errors[1] == errors[0]);
}

TEST_CASE("an unreachable hub is an error with its reason") {
    const Meeting meeting{.rank = 3, .size = 4, .host = "127.0.0.1", .port = 1, .token = "d"};
    CHECK_THAT(error_of([&] { (void)join_hub(meeting, Deadline(0.3)); }),
               HasInOrder("127.0.0.1:1: ", "rank 0 ", "rank 3", "Connection refused"));
    const Meeting nowhere{.rank = 3, .size = 4, .host = "no.such.host.invalid", .port = 9};
    CHECK_THAT(error_of([&] { (void)join_hub(nowhere, Deadline(0.3)); }),
               ContainsSubstring("invalid"));
}

TEST_CASE("unidentified connections, garbage and other jobs are dropped") {
    const Meeting meeting{.rank = 0, .size = 3, .host = "127.0.0.1", .token = "e"};
    TcpHub hub(meeting, 20);
    hub.start();
    std::vector<Socket> open;
    open.push_back(unidentified(hub.port(), "GET / HTTP/1.1\r\n\r\n"));
    open.push_back(unidentified(hub.port(), ""));
    Frame hello{.n_bytes = sizeof(Hello)};
    const std::string header(reinterpret_cast<const char*>(&hello), sizeof hello);
    open.push_back(unidentified(hub.port(), header));
    open.push_back(unidentified(hub.port(), header + std::string(sizeof(Hello), '\xff')));
    hello.n_bytes = 4'000'000'000;
    open.push_back(
        unidentified(hub.port(), std::string(reinterpret_cast<const char*>(&hello), sizeof hello)));
    open.push_back(unidentified(hub.port(), std::string(100'000, '\0')));
    for (int i = 0; i < 400; ++i) open.push_back(unidentified(hub.port(), ""));
    unidentified(hub.port(), "bye").reset();
    Meeting other_job = as_rank(hub, meeting, 1);
    other_job.token = "another";
    CHECK_THAT(error_of([&] { (void)join_hub(other_job, Deadline(0.5)); }),
               HasInOrder("rank 0 ", "rank 1"));
    for (const std::string& error : join(hub, meeting, all_ranks(3), 20)) CHECK(error.empty());
}

TEST_CASE("ranks join, and missing ranks are reported, during a flood of connections") {
    const bool complete = GENERATE(true, false);
    const Meeting meeting{.rank = 0, .size = 3, .host = "127.0.0.1", .token = "k"};
    TcpHub hub(meeting, complete ? 60 : 3);
    hub.start();
    std::vector<pid_t> floods;
    for (int n = 0; n < 8; ++n) floods.push_back(flood(hub.port()));
    while (hub.n_accepted() < 1000) usleep(1000);
    const std::vector<std::string> errors =
        join(hub, meeting, complete ? all_ranks(3) : std::vector{0}, 60);
    for (const pid_t child : floods) {
        kill(child, SIGKILL);
        waitpid(child, nullptr, 0);
    }
    for (const std::string& error : errors) {
        if (complete) CHECK(error.empty());
        if (!complete) CHECK_THAT(error, HasInOrder(" 3 s ", "ranks 1, 2 of 3"));
    }
}

TEST_CASE("a rank of a job of another size is refused") {
    const Meeting meeting{.rank = 0, .size = 2, .host = "127.0.0.1", .token = "f"};
    TcpHub hub(meeting, 20);
    hub.start();
    Meeting larger = as_rank(hub, meeting, 5);
    larger.size = 16;
    CHECK_THAT(error_of([&] { (void)join_hub(larger, Deadline(5)); }),
               HasInOrder("rank 5 of 16 ", "rank 0 ", "2 ranks"));
    for (const std::string& error : join(hub, meeting, {0, 1}, 20)) CHECK(error.empty());
}

TEST_CASE("a rank that was restarted takes its former place") {
    const Meeting meeting{.rank = 0, .size = 3, .host = "127.0.0.1", .token = "g"};
    TcpHub hub(meeting, 20);
    hub.start();
    const pid_t first = fork();
    if (first == 0) {
        (void)error_of([&] { (void)join_as(hub, meeting, 1, 20); });
        _exit(0);
    }
    usleep(200'000);
    kill(first, SIGKILL);
    waitpid(first, nullptr, 0);
    for (const std::string& error : join(hub, meeting, {0, 1, 2}, 20)) CHECK(error.empty());
}

TEST_CASE("of two processes with the same rank the earlier one is refused") {
    const Meeting meeting{.rank = 0, .size = 3, .host = "127.0.0.1", .token = "h"};
    TcpHub hub(meeting, 20);
    hub.start();
    // The scheduler decides which one connects first. Rank 2 joins after both.
    std::vector<std::string> errors;
    std::thread both([&] { errors = join(hub, meeting, {1, 1}, 20); });
    while (hub.n_accepted() < 2) usleep(1000);
    usleep(500'000);
    for (const std::string& error : join(hub, meeting, {0, 2}, 20)) CHECK(error.empty());
    both.join();
    std::ranges::sort(errors);
    CHECK(errors[0].empty());
    CHECK_THAT(errors[1], HasInOrder("another process", "rank 1"));
}

TEST_CASE("ranks that connect at the same time all join at their first attempt") {
    const Meeting meeting{.rank = 0, .size = 700, .host = "127.0.0.1", .token = "i"};
    TcpHub hub(meeting, 60);
    hub.start();
    for (const std::string& error : join(hub, meeting, all_ranks(700), 60)) CHECK(error.empty());
    CHECK(hub.n_accepted() == meeting.size - 1);  // rank 0 does not connect over TCP
}

TEST_CASE("a job with more ranks than files that rank 0 may open is refused at once") {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const rlimit few{512, 1024};
        setrlimit(RLIMIT_NOFILE, &few);
        const std::string why = error_of([] {
            TcpHub({.rank = 0, .size = 10'000, .host = "127.0.0.1", .token = "j"}, 20).start();
        });
        const bool clear = test::has_in_order(why, {"open files", "1024"});
        TcpHub hub({.rank = 0, .size = 300, .host = "127.0.0.1"}, 20);
        hub.start();
        rlimit raised{};
        getrlimit(RLIMIT_NOFILE, &raised);
        _exit(clear && raised.rlim_cur > 512 && raised.rlim_cur <= 1024 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
}
