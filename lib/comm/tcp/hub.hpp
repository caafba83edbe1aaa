// SPDX-License-Identifier: Apache-2.0
// The hub of a job without MPI, through which its ranks exchange small values: a thread of rank 0
// with a connection to every rank, also to rank 0. It accepts the ranks, reports the missing ranks
// at the timeout, computes collectives and forwards messages.
//
// No data member needs a lock. After start(), only the hub's thread changes the data members that
// are not atomic, and other threads read only meeting_, which no longer changes. The hub's thread
// never blocks on one rank, because it queues output that a connection does not accept. Bytes for
// many ranks are stored once. The time of one iteration of the loop is proportional to the number
// of events, not to the number of ranks.
//
// The hub drops connections that do not send a valid hello, or belong to another job. A rank that
// is restarted before all ranks have connected replaces its earlier connection.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.hpp"
#include "comm/tcp/frame.hpp"
#include "comm/tcp/rendezvous.hpp"

namespace lm::comm {

class TcpHub {
  public:
    // Stores the arguments. Ranks must connect within `timeout_s` after start().
    TcpHub(const Meeting& meeting, double timeout_s);
    // Blocks until all ranks have disconnected, or stop() was called.
    ~TcpHub();
    TcpHub(const TcpHub&) = delete;
    TcpHub& operator=(const TcpHub&) = delete;

    // Starts the hub's thread. When start() returns, the hub listens at meeting.port. Throws
    // Error(failure) when the port is not available, or the limit on open files is too low.
    void start();
    int port() const { return meeting_.port; }
    i64 n_accepted() const { return n_accepted_.load(); }  // number of connections so far
    void stop() { stop_.store(true); }                     // ends the thread without waiting

  private:
    using Shared = std::shared_ptr<const FrameBytes>;
    struct Parcel {
        Frame frame;
        Shared bytes;  // other parcels may share these bytes
        size_t size() const { return sizeof frame + bytes->size(); }
    };
    struct Peer {
        Socket socket;
        int rank = -1;      // -1: unidentified, its hello has not been received
        i64 number = 0;     // connections are numbered in the order of accept()
        Deadline hello_by;  // an unidentified peer is dropped at this time
        FrameBytes in;      // received bytes of an incomplete frame
        std::deque<Parcel> out;
        size_t n_sent = 0;  // bytes of the first parcel that were sent
        bool said_bye = false;
    };
    // The contributions of a group's members to one collective.
    struct Posts {
        Frame first;  // the first frame received; the other frames must match this frame
        size_t n_received = 0;
        std::vector<FrameBytes> bytes;  // by member
    };

    void serve();
    bool over() const;

    bool accept_one();
    bool admit(Peer& peer, const Frame& frame, const FrameBytes& bytes);
    void refuse(Peer& peer, const std::string& why);
    void drop_unidentified();
    void stop_accepting();
    std::string missing_text() const;

    bool read(Peer& peer);
    void write(Peer& peer);
    void send(Peer& peer, const Frame& frame, Shared bytes);
    void send_to(int rank, const Frame& frame, Shared bytes);
    void send_to_all(const Frame& frame, const Shared& bytes);
    void drop(Peer& peer, int error);
    void fail(int rank, Exit code, const std::string& text);

    void handle(Peer& peer, const Frame& frame, FrameBytes bytes);
    void ask(const Frame& question);
    void post(const Frame& frame, FrameBytes bytes);
    void finish(const Posts& posts);
    void split(const Posts& posts);

    Meeting meeting_;
    double timeout_s_;
    Deadline deadline_;  // all ranks must connect before this time
    Socket listener_;    // closed when all ranks have connected, or at the timeout
    Poller poller_;
    std::map<int, Peer> peers_;                   // by socket descriptor
    std::map<i64, int> unidentified_;             // descriptors, the oldest connection first
    std::vector<Peer*> ranks_;                    // by rank; nullptr: not connected
    std::vector<std::string> hosts_;              // by rank; kept after the rank has ended
    size_t n_connected_ = 0;                      // number of connected ranks
    std::map<u64, std::vector<int>> groups_;      // by group: the members' world ranks
    std::map<std::pair<u64, i64>, Posts> posts_;  // by group and number of the collective
    u64 n_groups_ = 1;
    bool started_ = false;  // all ranks have connected
    bool failed_ = false;
    std::atomic<i64> n_accepted_{0};
    std::atomic<bool> stop_{false};
    std::thread thread_;
};

}  // namespace lm::comm
