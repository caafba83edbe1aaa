// SPDX-License-Identifier: Apache-2.0
// The middle of the star over which ranks without MPI tell each other small things: a thread of
// rank 0, with a connection to every rank, that puts collectives together and passes messages on.
// It never waits for one rank with what it has for another.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "comm/tcp_frame.hpp"

namespace lm::comm {

class TcpHub {
  public:
    // Ranks connect to port() and begin with `secret`, as long as this one.
    TcpHub(int n_ranks, std::string secret);
    // Waits until all ranks have said bye, or have gone.
    ~TcpHub();
    TcpHub(const TcpHub&) = delete;
    TcpHub& operator=(const TcpHub&) = delete;

    // Waits for nobody any more.
    void stop() { stop_.store(true); }

    int port() const { return port_of(listener_); }

  private:
    struct Peer {
        Socket socket;
        int rank = -1;  // not known yet
        std::string host;
        Bytes in;  // what has come of a frame
        std::deque<Bytes> out;
        size_t n_sent = 0;  // of the first of these
        bool said_bye = false;
    };
    struct Meeting {
        std::map<int, Frame> posts;  // by member
        std::map<int, Bytes> bytes;
    };

    void serve();
    bool over() const;
    void accept_one();
    bool read(Peer& peer);
    bool write(Peer& peer);
    bool take(Peer& peer);
    void handle(Peer& peer, const Frame& frame, Bytes bytes);
    void greet(Peer& peer, const Frame& frame, const Bytes& bytes);
    void lose(Peer& peer);
    void post(const Frame& frame, Bytes bytes);
    void finish(u64 group, Meeting& meeting);
    void split(u64 group, const Meeting& meeting);
    void send(int rank, Frame frame, const Bytes& bytes);
    void fail(Exit code, const std::string& text);

    int n_ranks_;
    std::string secret_;
    Socket listener_;
    std::deque<Peer> peers_;
    std::map<int, Peer*> by_rank_;
    std::map<u64, std::vector<int>> groups_;  // ranks of the members
    std::map<std::pair<u64, i64>, Meeting> meetings_;
    u64 n_groups_ = 1;
    int n_left_ = 0;
    bool failed_ = false;
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace lm::comm
