// SPDX-License-Identifier: Apache-2.0
#include "nccl_comm.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <bit>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include "events.hpp"
#include "memory.hpp"
#include "stream.hpp"

using emulator::Bytes;
using emulator::Exchange;
using emulator::Frame;
using emulator::FrameType;
using emulator::Started;

namespace {

std::mutex comms_mutex;
std::set<ncclComm_t> comms;  // not destroyed

// Returns a number for the algorithm of an operation. Messages have one algorithm for all sizes.
uint64_t algorithm_of(const Started& started) {
    const Frame& f = started.frame;
    if (f.exchange == Exchange::message) return 0;
    const auto size = static_cast<uint64_t>(std::bit_width(f.count));
    return ((static_cast<uint64_t>(f.exchange) * 16 + f.op) * 16 + f.dtype) * 64 + size;
}

std::string kind_of(uint32_t channel) {
    return channel == 0 ? "a communicator's collectives" : "a pair's messages";
}

}  // namespace

namespace emulator {

ncclComm_t new_comm(int rank, int size, const std::vector<std::string>& hubs) {
    log(hubs.size() == 1 ? "NCCL: a communicator"
                         : fmt::format("NCCL: a communicator by {} ids", hubs.size()));
    auto* const comm = new ncclComm;
    comm->rank = rank;
    comm->size = size;
    {
        const std::lock_guard lock(comms_mutex);
        comms.insert(comm);
    }
    comm->join(hubs);
    return comm;
}

bool lives(ncclComm_t comm) {
    const std::lock_guard lock(comms_mutex);
    return comms.contains(comm);
}

bool forget(ncclComm_t comm) {
    const std::lock_guard lock(comms_mutex);
    return comms.erase(comm) > 0;
}

}  // namespace emulator

bool ncclComm::tell(const Frame& frame, const Bytes& bytes) {
    const std::lock_guard lock(sending);
    return emulator::send_frame(socket, frame, bytes);
}

void ncclComm::join(const std::vector<std::string>& hubs) {
    Frame hello{FrameType::hello};
    hello.rank = rank;
    hello.size = size;
    hello.process = getpid();
    for (const std::string& hub : hubs) {
        const int connection = emulator::connect_to_hub(hub);
        if (connection < 0 || !emulator::send_frame(connection, hello, {})) {
            state = ncclSystemError;
            error = "no such id";
            return;
        }
        if (socket < 0) {
            socket = connection;
        } else {
            others.push_back(connection);
        }
    }
    reader = std::thread([this] { read(); });
    runner = std::thread([this] { run_hurried(); });
}

ncclResult_t ncclComm::wait_until_joined() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return joined || ended || !error.empty(); });
    return state;
}

void ncclComm::leave() {
    {
        const std::lock_guard lock(mutex);
        ended = true;
    }
    changed.notify_all();
    for (const int other : others) shutdown(other, SHUT_RDWR);
    if (socket >= 0) shutdown(socket, SHUT_RDWR);
    if (reader.joinable()) reader.join();
    if (runner.joinable()) runner.join();
    if (socket >= 0) close(socket);
    for (const int other : others) close(other);
}

void ncclComm::post(Started& started) {
    if (started.posted) return;
    started.posted = true;
    Bytes bytes(started.in_bytes);
    if (!bytes.empty()) {
        const emulator::Window window;
        std::memcpy(bytes.data(), started.in, bytes.size());
    }
    tell(started.frame, bytes);
}

cudaError_t ncclComm::finish(Started& started) {
    post(started);
    Frame waiting = started.frame;
    waiting.type = FrameType::waiting;
    tell(waiting, {});  // the hub ignores this frame if the exchange has ended
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return started.complete || ended; });
    if (!started.complete || started.out == nullptr) return cudaSuccess;
    const emulator::Window window;
    std::memcpy(started.out, started.result.data(), started.result.size());
    return cudaSuccess;
}

void ncclComm::connect(const Started& started) {
    const Key key{started.frame.channel, algorithm_of(started)};
    {
        const std::lock_guard lock(mutex);
        if (connected.contains(key)) return;
    }
    emulator::log(fmt::format("NCCL: connections for {}", kind_of(key.first)));
    const char* const lost = std::getenv("EMULATED_NCCL_LOST");
    if (lost != nullptr && std::atoi(lost) == rank) raise(SIGSTOP);
    Frame frame = started.frame;
    frame.type = FrameType::connect;
    frame.rank = rank;
    frame.number = key.second;
    tell(frame, {});
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return connected.contains(key) || ended || !error.empty(); });
}

ncclResult_t ncclComm::start(std::shared_ptr<Started> started) {
    connect(*started);
    const Key key{started->frame.channel, n_started[started->frame.channel]++};
    started->frame.type = FrameType::post;
    started->frame.rank = rank;
    started->frame.number = key.second;
    {
        const std::lock_guard lock(mutex);
        under_way[key] = started;
    }
    const int64_t place = emulator::enqueue_exchange(
        started->stream, [this, started] { return finish(*started); },
        [this, started] {
            post(*started);
            const std::lock_guard lock(mutex);
            return started->complete || ended;
        });
    const std::lock_guard lock(mutex);
    started->place = place;
    changed.notify_all();
    return ncclSuccess;
}

void ncclComm::read() {
    Frame frame;
    Bytes bytes;
    for (const int other : others) {
        if (!emulator::receive_frame(other, frame, bytes)) return;
    }
    while (emulator::receive_frame(socket, frame, bytes)) {
        const std::lock_guard lock(mutex);
        const Key key{frame.channel, frame.number};
        if (frame.type == FrameType::joined && frame.number == emulator::all_members) {
            joined = true;
        } else if (frame.type == FrameType::joined) {
            connected.insert(key);
        } else if (frame.type == FrameType::hurry) {
            hurried.insert(key);
        } else if (frame.type == FrameType::error) {
            error.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
            fmt::print(stderr, "emulated NCCL: {}\n", error);
            state = ncclInvalidUsage;
        } else if (const auto found = under_way.find(key); found != under_way.end()) {
            found->second->result = std::move(bytes);
            found->second->complete = true;
            hurried.erase(key);
            under_way.erase(found);
        }
        changed.notify_all();
    }
}

void ncclComm::run_hurried() {
    std::unique_lock lock(mutex);
    while (!ended) {
        std::shared_ptr<Started> next;
        for (const Key& key : hurried) {
            const auto found = under_way.find(key);
            if (found != under_way.end() && found->second->place > 0) next = found->second;
        }
        if (!next) {
            changed.wait(lock);
            continue;
        }
        hurried.erase({next->frame.channel, next->frame.number});
        lock.unlock();
        emulator::run_until(next->stream, next->place);
        lock.lock();
    }
}
