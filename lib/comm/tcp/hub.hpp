// SPDX-License-Identifier: Apache-2.0
// The middle of the star over which ranks without MPI tell each other small things: a thread of
// rank 0, with a connection to every rank, that puts collectives together and passes messages on.
// It never waits for one rank with what it has for another. What many ranks are told alike is kept
// once, and a turn costs what has come, not how many ranks there are.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "comm/tcp/frame.hpp"

namespace lm::comm {

class TcpHub {
  public:
    // The connections of all ranks, by rank; each begins with a hello.
    explicit TcpHub(std::vector<Socket> connections);
    // Waits until all ranks have said bye, or have gone.
    ~TcpHub();
    TcpHub(const TcpHub&) = delete;
    TcpHub& operator=(const TcpHub&) = delete;

    // Waits for nobody any more.
    void stop() { stop_.store(true); }

  private:
    // Part of what is on its way to a rank; the bytes may be on their way to others, too.
    struct Parcel {
        Frame frame;
        std::shared_ptr<const Bytes> bytes;
        size_t size() const { return sizeof frame + bytes->size(); }
    };
    struct Peer {
        Socket socket;
        std::string host;
        Bytes in;  // what has come of a frame
        std::deque<Parcel> out;
        size_t n_sent = 0;  // of the first of these
        bool said_bye = false;
    };
    struct Meeting {
        Frame first;  // that came
        size_t n_come = 0;
        std::vector<Bytes> bytes;  // by member
    };

    void serve();
    bool over() const;
    bool read(int rank);
    bool take(int rank);
    void write(Peer& peer);
    void handle(int rank, const Frame& frame, Bytes bytes);
    void lose(int rank, int error);
    void post(const Frame& frame, Bytes bytes);
    void finish(u64 group, const Meeting& meeting);
    void split(u64 group, const Meeting& meeting);
    void send(int rank, const Frame& frame, std::shared_ptr<const Bytes> bytes);
    void fail(int rank, Exit code, const std::string& text);
    void tell_host(int asker, int rank);

    std::vector<Peer> peers_;     // by rank
    std::map<int, int> rank_of_;  // by descriptor
    Poller poller_;
    std::map<u64, std::vector<int>> groups_;  // ranks of the members
    std::map<std::pair<u64, i64>, Meeting> meetings_;
    u64 n_groups_ = 1;
    size_t n_left_ = 0;
    bool failed_ = false;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace lm::comm
