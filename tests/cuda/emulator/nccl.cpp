// SPDX-License-Identifier: Apache-2.0
// A member of emulated communicators. What NCCL forbids is found and told on stderr: host pointers,
// views of other sizes on other ranks, a communicator used while it is in progress, after its end,
// or in two streams. Connections are made when they are needed first, as NCCL makes them for an
// algorithm, which it picks by kind, type and size: by a call that returns when the other members
// have come to it, too. Here every power of two has an algorithm of its own.
#include "nccl.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>
#include <vector>

#include "memory.hpp"
#include "nccl_hub.hpp"
#include "stream.hpp"

using emulator::Bytes;
using emulator::Exchange;
using emulator::Frame;
using emulator::FrameType;

namespace {

using Key = std::pair<uint32_t, uint64_t>;  // channel, number

// One operation of this member.
struct Started {
    Frame frame;
    const void* in = nullptr;
    size_t in_bytes = 0;
    void* out = nullptr;
    cudaStream_t stream = nullptr;
    int64_t place = 0;  // in the stream
    bool posted = false;
    bool complete = false;
    Bytes result;
};

ncclResult_t misuse(ncclResult_t result, const std::string& what) {
    fmt::print(stderr, "emulated NCCL: {}\n", what);
    return result;
}

}  // namespace

struct ncclComm {
    int rank = 0;
    int size = 0;
    bool blocking = false;
    std::mutex mutex;
    std::condition_variable changed;
    ncclResult_t state = ncclInProgress;
    bool joined = false;
    bool ended = false;
    std::string error;
    cudaStream_t stream = nullptr;  // of the first operation
    int socket = -1;
    std::vector<int> others;  // sockets to hubs of which nothing but their having come is wanted
    std::map<uint32_t, uint64_t> n_started;  // by channel
    std::set<Key> connected;                 // channels, and for what
    std::map<Key, std::shared_ptr<Started>> under_way;
    std::set<Key> hurried;  // others wait for these
    struct {
        ncclComm_t* target = nullptr;
        ncclComm_t comm = nullptr;
        bool blocking = false;
    } part;  // of a split: where it goes, and what it is
    std::mutex sending;
    std::thread reader, runner;

    bool tell(const Frame& frame, const Bytes& bytes) {
        const std::lock_guard lock(sending);
        return emulator::send_frame(socket, frame, bytes);
    }

    // The first hub carries what is exchanged; all must know all members.
    void join(const std::vector<std::string>& hubs) {
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

    void leave() {
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

    // ---- Operations ----------------------------------------------------------------------------

    // Sends this rank's part. Runs in the stream's order, once.
    void post(Started& started) {
        if (started.posted) return;
        started.posted = true;
        Bytes bytes(started.in_bytes);
        if (!bytes.empty()) {
            const emulator::Window window;
            std::memcpy(bytes.data(), started.in, bytes.size());
        }
        tell(started.frame, bytes);
    }

    cudaError_t finish(Started& started) {
        post(started);
        Frame waiting = started.frame;
        waiting.type = FrameType::waiting;
        tell(waiting, {});  // too late at times: the hub then knows of no such exchange
        std::unique_lock lock(mutex);
        changed.wait(lock, [&] { return started.complete || ended; });
        if (!started.complete || started.out == nullptr) return cudaSuccess;
        const emulator::Window window;
        std::memcpy(started.out, started.result.data(), started.result.size());
        return cudaSuccess;
    }

    // What wants connections of its own: messages none beyond the first.
    static uint64_t algorithm_of(const Started& started) {
        const Frame& f = started.frame;
        if (f.exchange == Exchange::message) return 0;
        const auto size = static_cast<uint64_t>(std::bit_width(f.count));
        return ((static_cast<uint64_t>(f.exchange) * 16 + f.op) * 16 + f.dtype) * 64 + size;
    }

    // In the caller's thread, as NCCL does it.
    void connect(const Started& started) {
        const Key key{started.frame.channel, algorithm_of(started)};
        {
            const std::lock_guard lock(mutex);
            if (connected.contains(key)) return;
        }
        emulator::log(fmt::format("NCCL: connections for {}", to_string(key.first)));
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

    ncclResult_t start(std::shared_ptr<Started> started) {
        connect(*started);
        const Key key{started->frame.channel, n_started[started->frame.channel]++};
        started->frame.type = FrameType::post;
        started->frame.rank = rank;
        started->frame.number = key.second;
        {
            const std::lock_guard lock(mutex);
            under_way[key] = started;
            if (!blocking) state = ncclInProgress;  // until somebody asks
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
        return blocking ? ncclSuccess : ncclInProgress;
    }

    static std::string to_string(uint32_t channel) {
        return channel == 0 ? "a communicator's collectives" : "a pair's messages";
    }

    // ---- The GPU's part: what goes on while the host does other things --------------------------

    void read() {
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
                if (found->second->frame.exchange == Exchange::split) take_part(*found->second);
                under_way.erase(found);
            }
            changed.notify_all();
        }
    }

    // Runs the stream of an operation that others wait for, as a GPU would have done by then.
    void run_hurried() {
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

    // The answer to a split: "RANK SIZE HUB".
    void take_part(const Started& split);
};

namespace {

std::mutex comms_mutex;
std::set<ncclComm_t> comms;  // that live

ncclComm_t new_comm(int rank, int size, const std::vector<std::string>& hubs, bool blocking) {
    emulator::log(hubs.size() == 1 ? "NCCL: a communicator"
                                   : fmt::format("NCCL: a communicator by {} ids", hubs.size()));
    auto* const comm = new ncclComm;
    comm->rank = rank;
    comm->size = size;
    comm->blocking = blocking;
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

thread_local bool in_group = false;
thread_local std::optional<bool> group_is_blocking;  // what the group's first communicator is

// A group has communicators of one kind (NCCL 2.20, group.cc, ncclAsyncLaunch).
bool joins_group(ncclComm_t comm) {
    if (!in_group || !lives(comm)) return true;
    if (!group_is_blocking) group_is_blocking = comm->blocking;
    return *group_is_blocking == comm->blocking;
}

// May it be used?
ncclResult_t check(ncclComm_t comm) {
    if (!lives(comm)) return misuse(ncclInvalidArgument, "a communicator that has ended");
    const std::lock_guard lock(comm->mutex);
    if (comm->state == ncclInProgress) {
        return misuse(ncclInvalidArgument, "a communicator that is still in progress");
    }
    return comm->state;
}

struct Side {
    const void* data;
    size_t bytes;
};

ncclResult_t begin(ncclComm_t comm, cudaStream_t stream, Frame frame, Side in, Side out) {
    if (const ncclResult_t result = check(comm); result != ncclSuccess) return result;
    if (comm->stream == nullptr) comm->stream = stream;
    if (stream != comm->stream || stream == nullptr) {
        return misuse(ncclInvalidUsage, "a communicator in two streams, or in the legacy stream");
    }
    for (const Side& side : {in, out}) {
        if (side.bytes > 0 && !emulator::is_device(side.data, side.bytes)) {
            return misuse(ncclInvalidArgument, "a buffer that is not memory of the device");
        }
    }
    auto started = std::make_shared<Started>();
    started->frame = frame;
    started->in = in.data;
    started->in_bytes = in.bytes;
    started->out = const_cast<void*>(out.data);
    started->stream = stream;
    return comm->start(std::move(started));
}

Frame collective(Exchange exchange, size_t count, ncclDataType_t dtype, ncclRedOp_t op = ncclSum,
                 int root = 0) {
    Frame frame;
    frame.exchange = exchange;
    frame.count = count;
    frame.dtype = dtype;
    frame.op = op;
    frame.root = root;
    return frame;
}

// The whole and this rank's part of it lie apart, or the part in its place.
bool placed(const void* whole, const void* part, size_t part_bytes, ncclComm_t comm) {
    const auto* const begin = static_cast<const std::byte*>(whole);
    const auto* const at = static_cast<const std::byte*>(part);
    const size_t n = part_bytes * static_cast<size_t>(comm->size);
    return at == begin + part_bytes * static_cast<size_t>(comm->rank) || at + part_bytes <= begin ||
           at >= begin + n;
}

}  // namespace

void ncclComm::take_part(const Started& split) {
    const std::string text(reinterpret_cast<const char*>(split.result.data()), split.result.size());
    const size_t first = text.find(' ');
    const size_t second = text.find(' ', first + 1);
    const std::string hub = text.substr(second + 1);
    if (!hub.empty()) {
        part.comm =
            new_comm(std::stoi(text), std::stoi(text.substr(first + 1)), {hub}, part.blocking);
        *part.target = part.comm;
    }
}

ncclResult_t ncclGetVersion(int* version) {
    const char* const text = std::getenv("EMULATED_NCCL_VERSION");
    *version = text != nullptr ? std::atoi(text) : NCCL_VERSION_CODE;
    return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
    constexpr const char* texts[] = {"no error",
                                     "unhandled cuda error",
                                     "unhandled system error",
                                     "internal error",
                                     "invalid argument",
                                     "invalid usage",
                                     "remote process exited or there was a network error",
                                     "NCCL operation in progress"};
    return texts[result];
}

const char* ncclGetLastError(ncclComm_t comm) {
    return comm != nullptr && lives(comm) ? comm->error.c_str() : "";
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
    const std::string name = emulator::start_hub();
    std::memset(id, 0, sizeof *id);
    std::memcpy(id->internal, name.data(), name.size());
    return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int n_ranks, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
    if (config->blocking != 0) return misuse(ncclInvalidUsage, "ranks that join blocking");
    *comm = new_comm(rank, n_ranks, {id.internal}, false);
    return ncclInProgress;
}

ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int n_ranks, int rank, int n_ids,
                                      ncclUniqueId* ids, ncclConfig_t* config) {
    if (config->blocking != 0) return misuse(ncclInvalidUsage, "ranks that join blocking");
    if (n_ids > n_ranks) return misuse(ncclInvalidArgument, "more ids than ranks");
    std::vector<std::string> hubs;
    for (int i = 0; i < n_ids; ++i) hubs.emplace_back(ids[i].internal);
    *comm = new_comm(rank, n_ranks, hubs, false);
    return ncclInProgress;
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t* part,
                           ncclConfig_t* config) {
    if (const ncclResult_t result = check(comm); result != ncclSuccess) return result;
    if (comm->blocking) return misuse(ncclInvalidUsage, "a split of a blocking communicator");
    *part = nullptr;
    comm->part = {part, nullptr, config->blocking != 0};
    auto started = std::make_shared<Started>();
    started->frame = collective(Exchange::split, 0, ncclUint8);
    started->frame.type = FrameType::post;
    started->frame.color = color;
    started->frame.key = key;
    started->frame.rank = comm->rank;
    started->frame.number = comm->n_started[0]++;
    {
        const std::lock_guard lock(comm->mutex);
        comm->state = ncclInProgress;
        comm->under_way[{0, started->frame.number}] = started;
    }
    comm->post(*started);
    return ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
    if (!lives(comm)) return misuse(ncclInvalidArgument, "a communicator that has ended");
    const std::lock_guard lock(comm->mutex);
    *error = comm->state;
    const auto is_split = [](const auto& entry) {
        return entry.second->frame.exchange == Exchange::split;
    };
    const bool splits = std::ranges::any_of(comm->under_way, is_split);
    if (comm->state != ncclInProgress || !comm->joined || splits) return ncclSuccess;
    if (ncclComm_t part = comm->part.comm) {
        const std::lock_guard part_lock(part->mutex);
        if (!part->joined) return ncclSuccess;
        part->state = ncclSuccess;
        comm->part.comm = nullptr;
    }
    comm->state = ncclSuccess;
    return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
    const ncclResult_t result = check(comm);
    if (result != ncclSuccess) return result;
    const std::lock_guard lock(comm->mutex);
    if (comm->blocking) return ncclSuccess;
    comm->state = ncclInProgress;
    return ncclInProgress;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
    if (!lives(comm)) return misuse(ncclInvalidArgument, "a communicator that has ended");
    bool busy = false;
    {
        const std::lock_guard lock(comm->mutex);
        busy = !comm->under_way.empty() && comm->state == ncclSuccess;
    }
    if (busy) misuse(ncclInvalidUsage, "a communicator destroyed with operations under way");
    return ncclCommAbort(comm);
}

// Not deleted: what waits in streams still names it.
ncclResult_t ncclCommAbort(ncclComm_t comm) {
    if (!joins_group(comm)) {
        return misuse(ncclInvalidArgument, "blocking and nonblocking communicators in one group");
    }
    {
        const std::lock_guard lock(comms_mutex);
        if (comms.erase(comm) == 0) {
            return misuse(ncclInvalidArgument, "a communicator that has ended");
        }
    }
    comm->leave();
    return ncclSuccess;
}

// Only the ends of communicators are put into groups, and those here need nothing of each other.
ncclResult_t ncclGroupStart() {
    in_group = true;
    group_is_blocking.reset();
    return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
    in_group = false;
    return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void* in, void* out, size_t count, ncclDataType_t dtype,
                           ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    const size_t bytes = count * emulator::size_of(dtype);
    return begin(comm, stream, collective(Exchange::all_reduce, count, dtype, op), {in, bytes},
                 {out, bytes});
}

ncclResult_t ncclReduceScatter(const void* in, void* out, size_t out_count, ncclDataType_t dtype,
                               ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream) {
    const size_t bytes = out_count * emulator::size_of(dtype);
    if (lives(comm) && !placed(in, out, bytes, comm)) {
        return misuse(ncclInvalidUsage, "ncclReduceScatter into a part that is not this rank's");
    }
    return begin(comm, stream, collective(Exchange::reduce_scatter, out_count, dtype, op),
                 {in, bytes * static_cast<size_t>(comm->size)}, {out, bytes});
}

ncclResult_t ncclAllGather(const void* in, void* out, size_t in_count, ncclDataType_t dtype,
                           ncclComm_t comm, cudaStream_t stream) {
    const size_t bytes = in_count * emulator::size_of(dtype);
    if (lives(comm) && !placed(out, in, bytes, comm)) {
        return misuse(ncclInvalidUsage, "ncclAllGather from a part that is not this rank's");
    }
    return begin(comm, stream, collective(Exchange::all_gather, in_count, dtype), {in, bytes},
                 {out, bytes * static_cast<size_t>(comm->size)});
}

ncclResult_t ncclBroadcast(const void* in, void* out, size_t count, ncclDataType_t dtype, int root,
                           ncclComm_t comm, cudaStream_t stream) {
    const size_t bytes = count * emulator::size_of(dtype);
    return begin(comm, stream, collective(Exchange::broadcast, count, dtype, ncclSum, root),
                 {in, bytes}, {out, bytes});
}

ncclResult_t ncclSend(const void* in, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    Frame frame = collective(Exchange::message, count, dtype);
    frame.channel = emulator::message_channel(comm->rank, peer, comm->size);
    return begin(comm, stream, frame, {in, count * emulator::size_of(dtype)}, {nullptr, 0});
}

ncclResult_t ncclRecv(void* out, size_t count, ncclDataType_t dtype, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
    Frame frame = collective(Exchange::message, count, dtype);
    frame.channel = emulator::message_channel(peer, comm->rank, comm->size);
    return begin(comm, stream, frame, {nullptr, 0}, {out, count * emulator::size_of(dtype)});
}
