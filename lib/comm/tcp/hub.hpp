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
// The hub drops connections that do not send a valid hello and a valid proof
// (comm/tcp/proof.hpp). A rank that is restarted before all ranks have connected replaces its
// earlier connection. The hub checks every frame of a rank before it stores the bytes that follow
// (comm/tcp/frame_check.hpp). An invalid frame, like the end of a rank's process, ends that rank's
// connection and so the job, because the other ranks cannot continue without this rank. The error
// names the rank. An exception in the hub's thread ends the job, too.
//
// Why not a library. The hub serves the jobs that have no MPI: under torchrun and a plain srun. Its
// requirements are a join that names the missing ranks, authentication, collectives of small values
// among 10,000 processes, the first error of the job with its exit code at all ranks, and hosts and
// status of the ranks that a timeout names.
// - PMIx is a client of the launcher's server, and those launchers have none. Where there is one
//   (srun --mpi=pmix), MPI can start, and the hub is not used.
// - MPI without a launcher (singletons and MPI_Comm_connect) needs a name server that the user
//   starts, has no authentication, and ends all processes when one is lost.
// - Gloo (Debian: libgloo-dev) has collectives over TCP. It connects each rank to each other, which
//   are 10,000 descriptors in every one of 10,000 processes, needs a store for the addresses that
//   we would have to serve and protect, and authenticates only by TLS with certificates that the
//   user makes. After an error it throws "connection closed by peer", without rank, host and exit
//   code.
// - UCX carries messages between addresses that were exchanged before. It has neither the exchange
//   nor the collectives.
// - NCCL carries the tensors, but needs its first id from somewhere, has no timeouts that name
//   ranks, and lm-shmcheck --node also runs on CPUs.
// In each case the join, the authentication and the errors remain, about three quarters of
// comm/tcp, and the code that connects them to the library is added. The rules of operations are
// shared with the groups of threads: comm/operation.hpp and comm/reduce.hpp.
#pragma once

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "comm/tcp/proof.hpp"
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

    // Starts the hub's thread. When start() returns, the hub listens at port(), on the address of
    // meeting.host, and rank 0 has joined. Throws Error(failure) when the port is not available, or
    // the limit on open files is too low.
    void start();
    int port() const { return port_; }
    // Returns the connection of rank 0, which is a pair of sockets in this process: no other
    // process can take this rank's place. Call it once, after start().
    Socket connection_of_rank0() { return std::move(rank0_); }
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
        int rank = -1;              // -1: unidentified, its proof has not been received
        i64 number = 0;             // connections are numbered in the order of accept()
        Deadline proof_by;          // an unidentified peer is dropped at this time
        FrameBytes in;              // received bytes of an incomplete frame
        std::optional<Frame> head;  // the valid frame whose bytes are incomplete
        // The hello of an unidentified peer, the rank that it claims, and the proof that it must
        // send.
        std::optional<Hello> hello;
        int claimed = -1;
        Proof expected{};
        std::deque<Parcel> out;
        size_t n_sent = 0;  // bytes of the first parcel that were sent
        bool said_bye = false;
    };
    // The contributions of a group's members to one collective.
    struct Posts {
        Frame first;  // the first frame received; the other frames must match this frame
        size_t n_received = 0;
        std::vector<std::optional<FrameBytes>> bytes;  // by member; nullopt: not received
    };

    void serve() noexcept;
    void serve_once();
    bool over() const;

    bool accept_one(int listener);
    Peer& add(Socket socket);
    bool identify(Peer& peer, const Frame& frame, const FrameBytes& bytes);
    bool challenge(Peer& peer, int rank, const Hello& hello);
    bool admit(Peer& peer);
    void place(Peer& peer, int rank, std::string host);
    void refuse(Peer& peer, const std::string& why);
    void drop_unidentified();
    void stop_accepting();
    std::string missing_text() const;

    bool read(Peer& peer);
    bool is_acceptable(const Peer& peer, const Frame& frame);
    void write(Peer& peer);
    void send(Peer& peer, const Frame& frame, Shared bytes);
    void send_to(int rank, const Frame& frame, Shared bytes);
    void send_to_all(const Frame& frame, const Shared& bytes);
    void drop(Peer& peer, int error);
    void fail(int rank, Exit code, const std::string& text);

    void handle(Peer& peer, const Frame& frame, FrameBytes bytes);
    void fail_invalid(int rank, const std::string& problem);
    void ask(const Frame& question);
    void post(const Frame& frame, FrameBytes bytes);
    void finish(const Posts& posts);
    void split(const Posts& posts);

    Meeting meeting_;
    double timeout_s_;
    Deadline deadline_;              // all ranks must connect before this time
    std::vector<Socket> listeners_;  // closed when all ranks have connected, or at the timeout
    int port_ = 0;
    Socket rank0_;
    Poller poller_;
    std::map<int, Peer> peers_;  // by socket descriptor
    // Descriptors by whether the peer has sent its hello, and by its number. So the first one is
    // the oldest connection without a hello.
    std::map<std::pair<bool, i64>, int> unidentified_;
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
