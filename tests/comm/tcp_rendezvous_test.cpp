// SPDX-License-Identifier: Apache-2.0
// The rendezvous among threads and processes, with strangers, missing ranks and second starts.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <functional>
#include <map>
#include <thread>

#include "base/error.hpp"
#include "comm/tcp/frame.hpp"
#include "comm/tcp/rendezvous.hpp"
#include "comm/tcp/socket.hpp"

using namespace lm;
using namespace lm::comm;
using Catch::Matchers::Contains;

namespace {

std::vector<std::byte> blob_of(size_t n) {
    std::vector<std::byte> blob(n);
    for (size_t i = 0; i < n; ++i) blob[i] = static_cast<std::byte>(i * 7);
    return blob;
}

Meeting guest_of(const RendezvousHost& host, const Meeting& meeting, int rank) {
    Meeting mine = meeting;
    mine.port = host.port();
    mine.rank = rank;
    return mine;
}

std::string trouble_of(const std::function<void()>& work) {
    try {
        work();
    } catch (const Error& error) {
        return error.what();
    }
    return "";
}

// What one stranger says before anybody else comes; the connection stays open.
Socket stranger(int port, const std::string& words) {
    std::string trouble;
    Socket socket = connect_to("127.0.0.1", port, Deadline(5), &trouble);
    REQUIRE(socket);
    (void)socket.send_all(std::as_bytes(std::span(words)), Deadline(5));
    return socket;
}

// Not one of those that the system gives away itself: a guest that calls such a one before the host
// is there may be given it for its own end, and so call itself.
int free_port() {
    int port = 20000 + getpid() % 12000;
    const auto taken = [&] {
        return !trouble_of([&] {
                    RendezvousHost({.size = 2, .host = "127.0.0.1", .port = port});
                }).empty();
    };
    while (taken()) ++port;
    return port;
}

}  // namespace

TEST_CASE("all ranks get the blob of rank 0") {
    const std::string host_name = GENERATE("127.0.0.1", "::1", "localhost");
    const size_t n_bytes = GENERATE(0u, 128u, 65536u);
    constexpr int size = 9;
    const Meeting meeting{.rank = 0, .size = size, .host = host_name, .port = 0, .token = "a"};
    RendezvousHost host(meeting);
    std::vector<std::vector<std::byte>> got(size);
    std::vector<std::string> trouble(size);
    std::vector<std::thread> guests;
    for (int rank = 1; rank < size; ++rank) {
        guests.emplace_back([&, rank] {
            const auto index = static_cast<size_t>(rank);
            trouble[index] = trouble_of(
                [&] { got[index] = receive_from_host(guest_of(host, meeting, rank), 20); });
        });
    }
    host.hand_out(blob_of(n_bytes), 20);
    for (std::thread& guest : guests) guest.join();
    for (size_t rank = 1; rank < size; ++rank) {
        CHECK(trouble[rank].empty());
        CHECK(got[rank] == blob_of(n_bytes));
    }
}

TEST_CASE("processes meet, and guests may come before the host") {
    Meeting meeting{.rank = 0, .size = 4, .host = "127.0.0.1", .port = free_port(), .token = "b"};
    std::vector<pid_t> children;
    for (int rank = 1; rank < meeting.size; ++rank) {
        const pid_t child = fork();
        REQUIRE(child >= 0);
        if (child == 0) {
            meeting.rank = rank;
            bool same = false;
            (void)trouble_of([&] { same = rendezvous(meeting, {}, 20) == blob_of(128); });
            _exit(same ? 0 : 1);
        }
        children.push_back(child);
    }
    usleep(100'000);
    rendezvous(meeting, blob_of(128), 20);
    for (const pid_t child : children) {
        int status = -1;
        waitpid(child, &status, 0);
        CHECK(status == 0);
    }
}

TEST_CASE("ranks that do not come are named to all that did") {
    const Meeting meeting{.rank = 0, .size = 64, .host = "127.0.0.1", .port = 0, .token = "c"};
    RendezvousHost host(meeting);
    std::string told;
    std::thread guest(
        [&] { told = trouble_of([&] { receive_from_host(guest_of(host, meeting, 6), 3); }); });
    const std::string trouble = trouble_of([&] { host.hand_out(blob_of(128), 3); });
    guest.join();
    CHECK_THAT(trouble, Contains("ranks 1-5, 7-63 of 64 did not come within 3 s"));
    CHECK(told == trouble);
}

TEST_CASE("a host that is not there is told with the reason") {
    const Meeting meeting{.rank = 3, .size = 4, .host = "127.0.0.1", .port = 1, .token = "d"};
    CHECK_THAT(trouble_of([&] { receive_from_host(meeting, 0.3); }),
               Contains("rendezvous at 127.0.0.1:1: rank 0 did not answer rank 3") &&
                   Contains("Connection refused"));
    const Meeting nowhere{.rank = 3, .size = 4, .host = "no.such.host.invalid", .port = 9};
    CHECK_THAT(trouble_of([&] { receive_from_host(nowhere, 0.3); }), Contains("invalid"));
}

TEST_CASE("strangers, garbage and other jobs do not disturb") {
    const Meeting meeting{.rank = 0, .size = 3, .host = "127.0.0.1", .port = 0, .token = "e"};
    RendezvousHost host(meeting);
    std::vector<Socket> open;
    open.push_back(stranger(host.port(), "GET / HTTP/1.1\r\n\r\n"));
    open.push_back(stranger(host.port(), ""));
    open.push_back(stranger(host.port(), "lm-meet1"));
    open.push_back(stranger(host.port(), "lm-meet1" + std::string(48, '\xff')));
    open.push_back(stranger(host.port(), std::string(100'000, '\0')));
    for (int i = 0; i < 400; ++i) open.push_back(stranger(host.port(), ""));
    stranger(host.port(), "bye").reset();
    std::string others;
    std::vector<std::thread> guests;
    for (int rank = 1; rank < 3; ++rank) {
        guests.emplace_back([&, rank] { receive_from_host(guest_of(host, meeting, rank), 20); });
    }
    guests.emplace_back([&] {
        Meeting other_job = guest_of(host, meeting, 1);
        other_job.token = "another";
        others = trouble_of([&] { receive_from_host(other_job, 0.5); });
    });
    CHECK_NOTHROW(host.hand_out(blob_of(128), 20));
    for (std::thread& guest : guests) guest.join();
    CHECK_THAT(others, Contains("rank 0 did not answer rank 1"));
}

TEST_CASE("a job of another size is refused") {
    const Meeting meeting{.rank = 0, .size = 2, .host = "127.0.0.1", .port = 0, .token = "f"};
    RendezvousHost host(meeting);
    std::string told;
    std::thread guest([&] {
        Meeting larger = guest_of(host, meeting, 5);
        larger.size = 16;
        told = trouble_of([&] { receive_from_host(larger, 5); });
        receive_from_host(guest_of(host, meeting, 1), 20);
    });
    host.hand_out(blob_of(128), 20);
    guest.join();
    CHECK_THAT(told, Contains("rank 5 of 16 came, but rank 0 expects 2 ranks"));
}

TEST_CASE("a rank that is started again takes its former place") {
    const Meeting meeting{.rank = 0, .size = 3, .host = "127.0.0.1", .port = 0, .token = "g"};
    RendezvousHost host(meeting);
    const pid_t first = fork();
    if (first == 0) {
        (void)trouble_of([&] { receive_from_host(guest_of(host, meeting, 1), 20); });
        _exit(0);
    }
    std::thread guests([&] {
        usleep(200'000);
        kill(first, SIGKILL);
        std::thread again([&] { receive_from_host(guest_of(host, meeting, 1), 20); });
        usleep(200'000);
        receive_from_host(guest_of(host, meeting, 2), 20);
        again.join();
    });
    CHECK_NOTHROW(host.hand_out(blob_of(128), 20));
    guests.join();
    waitpid(first, nullptr, 0);
}

TEST_CASE("ranks that all come at once are each let in at their first attempt") {
    const Meeting meeting{.rank = 0, .size = 700, .host = "127.0.0.1", .port = 0, .token = "h"};
    RendezvousHost host(meeting);
    std::vector<std::thread> guests;
    for (int rank = 1; rank < meeting.size; ++rank) {
        guests.emplace_back([&, rank] { receive_from_host(guest_of(host, meeting, rank), 60); });
    }
    usleep(300'000);  // they wait in the system's queue
    const std::vector<Socket> connections = host.hand_out(blob_of(8), 60);
    for (std::thread& guest : guests) guest.join();
    CHECK(host.n_connections() == meeting.size - 1);
    CHECK(connections.size() == static_cast<size_t>(meeting.size));
    CHECK_FALSE(connections[0]);
    CHECK(connections[699]);
}

TEST_CASE("the connection over which a rank came stays") {
    const Meeting meeting{.rank = 0, .size = 2, .host = "127.0.0.1", .port = 0, .token = "i"};
    RendezvousHost host(meeting);
    std::thread guest([&] {
        Socket kept;
        receive_from_host(guest_of(host, meeting, 1), 20, &kept);
        (void)kept.send_all(std::as_bytes(std::span("hello", 5)), Deadline(20));
    });
    const std::vector<Socket> connections = host.hand_out({}, 20);
    std::string said(5, ' ');
    CHECK(connections[1].receive_all(std::as_writable_bytes(std::span(said)), Deadline(20)));
    CHECK(said == "hello");
    guest.join();
}

TEST_CASE("more ranks than rank 0 may open files are refused at once") {
    const pid_t child = fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        const rlimit few{512, 1024};
        setrlimit(RLIMIT_NOFILE, &few);
        const std::string why = trouble_of([] {
            RendezvousHost host({.rank = 0, .size = 10'000, .host = "127.0.0.1", .token = "j"});
        });
        const bool clear = why.find("may open 1024 files: raise the hard limit") != why.npos;
        trouble_of([] { RendezvousHost({.rank = 0, .size = 300, .host = "127.0.0.1"}); });
        rlimit raised{};
        getrlimit(RLIMIT_NOFILE, &raised);
        _exit(clear && raised.rlim_cur > 512 && raised.rlim_cur <= 1024 ? 0 : 1);
    }
    int status = -1;
    waitpid(child, &status, 0);
    CHECK(status == 0);
}

TEST_CASE("a regular part of ten thousand ranks is told in a few bytes") {
    std::vector<int> data;  // of 8 tensor x 80 data x 16 pipeline ranks, those of one stage
    for (int i = 0; i < 80; ++i) data.push_back(5 + 640 * 3 + 8 * i);
    std::vector<int> all(10'240);
    for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
    for (const auto& ranks : {data, all, std::vector<int>{7}}) {
        CHECK(bytes_of_part(3, ranks).size() == 8 + 12);
        CHECK(part_of_bytes(bytes_of_part(3, ranks)) == std::pair(u64{3}, ranks));
    }
    const std::vector<int> odd{9, 4, 5, 6, 6, 2, 100, 50, 0};
    CHECK(part_of_bytes(bytes_of_part(1, odd)).second == odd);
}
