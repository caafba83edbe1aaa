// SPDX-License-Identifier: Apache-2.0
#include "nccl_hub.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "base/dtype.hpp"
#include "nccl.h"

namespace emulator {
namespace {

bool send_all(int socket, const void* data, size_t bytes) {
    const auto* at = static_cast<const char*>(data);
    while (bytes > 0) {
        const ssize_t n = send(socket, at, bytes, MSG_NOSIGNAL);
        if (n <= 0) return false;
        at += n;
        bytes -= static_cast<size_t>(n);
    }
    return true;
}

bool receive_all(int socket, void* data, size_t bytes) {
    auto* at = static_cast<char*>(data);
    while (bytes > 0) {
        const ssize_t n = recv(socket, at, bytes, 0);
        if (n <= 0) return false;
        at += n;
        bytes -= static_cast<size_t>(n);
    }
    return true;
}

// Returns an abstract socket address, which has no file.
sockaddr_un address_of(const std::string& name, socklen_t& length) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path + 1, name.data(), name.size());
    length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    return address;
}

std::string text_of(const Frame& f) {
    constexpr const char* names[] = {"AllReduce", "ReduceScatter", "AllGather", "Broadcast",
                                     "Send/Recv"};
    return fmt::format("{}(count {}, type {}, op {}, root {})", names[static_cast<int>(f.exchange)],
                       f.count, f.dtype, f.op, f.root);
}

std::atomic<int> n_elsewhere = 0;  // members in other processes that use hubs of this process

// At the end of the process, waits until members in other processes have received their results and
// closed their connections. The wait is limited to 2 s, because a member that hangs must not block
// this process.
struct LastResults {
    ~LastResults() {
        for (int i = 0; i < 200 && n_elsewhere > 0; ++i) {
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
} last_results;

class Hub {
  public:
    explicit Hub(int listener) : listener_(listener) {}
    void serve() {
        while (!left()) {
            std::vector<pollfd> entries{{listener_, POLLIN, 0}};
            for (const int socket : sockets_) entries.push_back({socket, POLLIN, 0});
            poll(entries.data(), entries.size(), -1);
            if (entries[0].revents != 0) sockets_.push_back(accept(listener_, nullptr, nullptr));
            for (size_t i = 1; i < entries.size(); ++i) {
                if (entries[i].revents != 0) read_one(entries[i].fd);
            }
        }
        close(listener_);
    }

  private:
    struct Meeting {
        std::map<int, Frame> posts;  // by rank; of a message: the sender's and the receiver's
        std::map<int, Bytes> bytes;
        std::set<int> waiting;
    };
    using Key = std::pair<uint32_t, uint64_t>;

    // Returns true when all members have joined and all have left.
    bool left() const { return size_ > 0 && n_gone_ == size_; }

    void read_one(int socket) {
        Frame frame;
        Bytes bytes;
        if (!receive_frame(socket, frame, bytes)) {
            close(socket);
            std::erase(sockets_, socket);
            if (elsewhere_.erase(socket) > 0) --n_elsewhere;
            const auto gone = [socket](const auto& member) { return member.second == socket; };
            n_gone_ += static_cast<int>(std::erase_if(members_, gone));
            return;
        }
        if (frame.type == FrameType::hello) return greet(socket, frame);
        if (frame.type == FrameType::connect) return connect_members(frame);
        const Key key{frame.channel, frame.number};
        if (frame.type == FrameType::waiting && !meetings_.contains(key)) return;  // has ended
        Meeting& meeting = meetings_[key];
        if (frame.type == FrameType::waiting) {
            meeting.waiting.insert(frame.rank);
        } else {
            if (!meeting.posts.empty() && !agree(meeting.posts.begin()->second, frame)) return;
            meeting.posts[frame.rank] = frame;
            meeting.bytes[frame.rank] = std::move(bytes);
        }
        go_on(key);
    }

    void greet(int socket, const Frame& frame) {
        if (members_.contains(frame.rank) || (size_ > 0 && size_ != frame.size)) {
            return break_all(
                fmt::format("rank {} of {} ranks cannot join a communicator of {} ranks",
                            frame.rank, frame.size, size_));
        }
        size_ = frame.size;
        members_[frame.rank] = socket;
        if (frame.process != getpid() && elsewhere_.insert(socket).second) ++n_elsewhere;
        if (static_cast<int>(members_.size()) < size_) return;
        for (const auto& [rank, each] : members_) {
            send_to(rank, {0, all_members}, FrameType::joined, {});
        }
    }

    // A connecting call returns when all members that it connects have called it.
    void connect_members(const Frame& frame) {
        const Key key{frame.channel, frame.number};
        std::set<int>& come = connecting_[key];
        come.insert(frame.rank);
        const std::vector<int> members = wanted(frame.channel);
        if (!std::ranges::all_of(members, [&](int rank) { return come.contains(rank); })) return;
        for (const int rank : members) send_to(rank, key, FrameType::joined, {});
        connecting_.erase(key);
    }

    bool agree(const Frame& a, const Frame& b) {
        if (a.exchange == b.exchange && a.op == b.op && a.dtype == b.dtype && a.count == b.count &&
            a.root == b.root) {
            return true;
        }
        break_all(fmt::format("rank {} calls {}, but rank {} calls {}", a.rank, text_of(a), b.rank,
                              text_of(b)));
        return false;
    }

    void break_all(const std::string& text) {
        const auto* begin = reinterpret_cast<const std::byte*>(text.data());
        for (const auto& [rank, socket] : members_) {
            send_frame(socket, {FrameType::error}, {begin, begin + text.size()});
        }
    }

    std::vector<int> wanted(uint32_t channel) const {
        if (channel > 0) {
            const int pair = static_cast<int>(channel) - 1;
            return {pair / size_, pair % size_};
        }
        std::vector<int> all;
        for (int rank = 0; rank < size_; ++rank) all.push_back(rank);
        return all;
    }

    void go_on(const Key& key) {
        Meeting& meeting = meetings_[key];
        bool complete = true;
        for (const int rank : wanted(key.first)) {
            if (meeting.posts.contains(rank)) continue;
            complete = false;
            if (!meeting.waiting.empty()) {
                send_to(rank, key, FrameType::hurry, {});
            }
        }
        if (!complete) return;
        finish(key, meeting);
        meetings_.erase(key);
    }

    void send_to(int rank, const Key& key, FrameType type, const Bytes& bytes) {
        const auto member = members_.find(rank);
        if (member == members_.end()) return;
        Frame frame{type};
        frame.channel = key.first;
        frame.number = key.second;
        send_frame(member->second, frame, bytes);
    }

    void finish(const Key& key, Meeting& meeting) {
        const Frame& first = meeting.posts.begin()->second;
        const auto to_all = [&](const Bytes& bytes) {
            for (int rank = 0; rank < size_; ++rank) send_to(rank, key, FrameType::result, bytes);
        };
        if (first.exchange == Exchange::broadcast) return to_all(meeting.bytes[first.root]);
        if (first.exchange == Exchange::message) {
            const std::vector<int> pair = wanted(key.first);
            send_to(pair[0], key, FrameType::result, {});
            return send_to(pair[1], key, FrameType::result, meeting.bytes[pair[0]]);
        }
        if (first.exchange == Exchange::all_gather) {
            Bytes all;
            for (const auto& [rank, bytes] : meeting.bytes) {
                all.insert(all.end(), bytes.begin(), bytes.end());
            }
            return to_all(all);
        }
        std::vector<Bytes> inputs;
        for (auto& [rank, bytes] : meeting.bytes) inputs.push_back(std::move(bytes));
        const Bytes sum = reduce(first.dtype, first.op, inputs);
        if (first.exchange == Exchange::all_reduce) return to_all(sum);
        const auto part = static_cast<std::ptrdiff_t>(sum.size() / static_cast<size_t>(size_));
        for (int rank = 0; rank < size_; ++rank) {
            const auto begin = sum.begin() + rank * part;
            send_to(rank, key, FrameType::result, {begin, begin + part});
        }
    }

    int listener_;
    int size_ = 0;
    int n_gone_ = 0;
    std::vector<int> sockets_;
    std::set<int> elsewhere_;     // sockets of members in other processes
    std::map<int, int> members_;  // sockets by rank
    std::map<Key, Meeting> meetings_;
    std::map<Key, std::set<int>> connecting_;  // by channel and algorithm
};

template <typename T>
void store(std::byte* at, T value) {
    std::memcpy(at, &value, sizeof value);
}

template <typename T, typename Load, typename Store>
void reduce_into(Bytes& sum, const Bytes& x, bool max, const Load& load_one, const Store& put) {
    for (size_t i = 0; i < sum.size(); i += sizeof(T)) {
        const auto a = load_one(&sum[i]);
        const auto b = load_one(&x[i]);
        if constexpr (std::is_floating_point_v<decltype(a)>) {
            put(&sum[i], max ? std::fmax(a, b) : a + b);
        } else {
            put(&sum[i], max ? std::max(a, b) : a + b);
        }
    }
}

template <typename T>
void reduce_plain(Bytes& sum, const Bytes& x, bool max) {
    const auto load_one = [](const std::byte* at) {
        T value{};
        std::memcpy(&value, at, sizeof value);
        return value;
    };
    reduce_into<T>(sum, x, max, load_one, [](std::byte* at, T value) { store(at, value); });
}

template <float (*to_float)(lm::u16), lm::u16 (*from_float)(float)>
void reduce_half(Bytes& sum, const Bytes& x, bool max) {
    const auto load_one = [](const std::byte* at) {
        uint16_t bits = 0;
        std::memcpy(&bits, at, sizeof bits);
        return to_float(bits);
    };
    reduce_into<uint16_t>(sum, x, max, load_one,
                          [](std::byte* at, float value) { store(at, from_float(value)); });
}

}  // namespace

bool send_frame(int socket, Frame frame, const Bytes& bytes) {
    frame.bytes = bytes.size();
    return send_all(socket, &frame, sizeof frame) && send_all(socket, bytes.data(), bytes.size());
}

bool receive_frame(int socket, Frame& frame, Bytes& bytes) {
    if (!receive_all(socket, &frame, sizeof frame)) return false;
    bytes.resize(frame.bytes);
    return receive_all(socket, bytes.data(), bytes.size());
}

std::string start_hub() {
    static std::atomic<int> count = 0;
    const std::string name = fmt::format("lm-emulated-nccl-{}-{}", getpid(), count++);
    const int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = 0;
    const sockaddr_un address = address_of(name, length);
    constexpr int longest_queue = 1024;
    if (bind(listener, reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
        listen(listener, longest_queue) != 0) {
        fmt::print(stderr, "emulated NCCL: no socket: {}\n", std::strerror(errno));
        std::abort();
    }
    std::thread([listener] { Hub(listener).serve(); }).detach();
    return name;
}

int connect_to_hub(const std::string& name) {
    const int connection = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socklen_t length = 0;
    const sockaddr_un address = address_of(name, length);
    if (connect(connection, reinterpret_cast<const sockaddr*>(&address), length) == 0) {
        return connection;
    }
    close(connection);
    return -1;
}

size_t size_of(uint32_t dtype) {
    switch (dtype) {
        case ncclUint8:
            return 1;
        case ncclFloat16:
        case ncclBfloat16:
            return 2;
        case ncclInt32:
        case ncclFloat32:
            return 4;
        default:
            return 8;
    }
}

Bytes reduce(uint32_t dtype, uint32_t op, const std::vector<Bytes>& inputs) {
    Bytes sum = inputs[0];
    const bool max = op == ncclMax;
    for (size_t i = 1; i < inputs.size(); ++i) {
        switch (dtype) {
            case ncclFloat32:
                reduce_plain<float>(sum, inputs[i], max);
                break;
            case ncclFloat64:
                reduce_plain<double>(sum, inputs[i], max);
                break;
            case ncclInt32:
                reduce_plain<int32_t>(sum, inputs[i], max);
                break;
            case ncclInt64:
                reduce_plain<int64_t>(sum, inputs[i], max);
                break;
            case ncclBfloat16:
                reduce_half<lm::fp32_from_bf16, lm::bf16_from_fp32>(sum, inputs[i], max);
                break;
            case ncclFloat16:
                reduce_half<lm::fp32_from_fp16, lm::fp16_from_fp32>(sum, inputs[i], max);
                break;
            default:
                reduce_plain<uint8_t>(sum, inputs[i], max);
        }
    }
    return sum;
}

}  // namespace emulator
