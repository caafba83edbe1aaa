// SPDX-License-Identifier: Apache-2.0
// A group of ranks and its collectives, over views, never byte counts. Backends: one rank alone
// (comm/self), the threads of a process (comm/threads), MPI (comm/mpi), frames over TCP (comm/tcp)
// and NCCL (cuda/nccl).
//
// Order. All members call the same collectives with the same shapes in the same order. One thread
// of a rank uses a group at a time.
//
// Asynchrony. start_*() enqueues an operation and returns at once; the plain forms also wait for
// it. Several operations may be pending. The caller keeps the views of a pending operation alive
// and untouched until Work::wait() has returned or Work::done() has returned true; one of the two
// is called for every Work.
//
// Streams. For device memory an operation is stream-ordered after all work that the compute stream
// was given before start_*(), and work given to it after wait() is ordered after the operation.
// wait() then need not block the host. For host memory wait() blocks until the operation is done.
//
// Determinism. Reductions add in an order that depends only on the size of the group and the shape,
// so the same inputs give the same bits. (NCCL: on the same machines, see cuda/nccl.)
//
// Allocation. Nothing is allocated after the first operations of a run.
//
// Errors. wait(), done() and start_*() throw
// - Error(failure) after a timeout, naming group, operation, its number and the missing ranks;
// - Error(failure) or JointError with the reason when any member has failed or called abort();
// - Error(bug) naming both when the operations of two members do not match. Backends where this
//   check costs time (MPI) make it on request only (LaunchOptions::check_operations).
// A group that has thrown cannot be used again.
#pragma once

#include <memory>
#include <string>

#include "comm/flight_recorder.hpp"
#include "comm/operation.hpp"
#include "device/view.hpp"

namespace lm::comm {

using device::View;

class Group;

// A handle of a pending operation. Copies refer to the same operation; a default one is done.
class Work {
  public:
    Work() = default;
    Work(Group* group, i64 handle) : group_(group), handle_(handle) {}
    // Returns when the operation is done (host memory) or the compute stream is ordered after it
    // (device memory). Throws as described above. A second call returns at once.
    void wait();
    // Returns whether the operation is done. Does not block; drives libraries that make progress
    // inside calls only.
    bool done();
    // Returns whether start_receive() may be given this operation as `after` without a wait: it is
    // done, or the device orders the two.
    bool is_stream_ordered();

  private:
    friend class Group;
    Group* group_ = nullptr;  // nullptr: done
    i64 handle_ = 0;
};

// The operations on device memory for which Group::connect() makes connections.
struct Traffic {
    bool collectives = false;
    bool overlaps_compute = false;  // collectives leave most SMs to kernels that run meanwhile
    std::vector<int> to = {};       // members to which this rank sends messages
    std::vector<int> from = {};
};

class Group {
  public:
    virtual ~Group() = default;
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    const std::string& name() const { return name_; }  // "tensor", for messages and logs
    int rank() const { return rank_; }                 // this process, as a member
    int size() const { return size_; }

    // Reduces x [n] in place over all members. Collective. Types: fp32, fp64, int32, int64; bf16
    // and fp16, which are added in fp32 and rounded. A NaN in any member's element is a NaN in the
    // result, of max too.
    Work start_all_reduce(const View& x, Reduction reduction);
    // Reduces in [size() * n]; part r of the result goes to out [n] of member r. Collective. `out`
    // may be this rank's own part of `in`; the other parts of `in` are undefined afterwards then.
    Work start_reduce_scatter(const View& in, const View& out, Reduction reduction);
    // Gathers in [n] of all members, by rank, in out [size() * n]. Collective. `in` may be this
    // rank's own part of `out`.
    Work start_all_gather(const View& in, const View& out);
    // Copies x [n] of member `root` to x of all. Collective.
    Work start_broadcast(const View& x, int root);
    // Sends x [n] to member `to`, which receives as many elements of the same type. Messages
    // between two members arrive in the order in which they were sent. A send may block in wait()
    // until its receive is started. A message to the rank itself is a bug.
    Work start_send(const View& x, int to);
    // Receives x [n] from member `from`. `after`: an operation of this or another group that still
    // reads `x` and for which is_stream_ordered(); the receive is ordered after it.
    Work start_receive(const View& x, int from, const Work& after = {});
    // Blocks until all members have called it. Collective.
    void barrier();

    // Forms new groups: members with the same `color` are together, ordered by `key`, then by rank.
    // A negative color gives a group of this rank alone. Blocks. Collective.
    std::unique_ptr<Group> split(int color, int key, std::string name);

    // Makes the connections for operations on device memory, so that no step makes them; without
    // it none may be started. Nothing to do for groups on hosts. Blocks. Collective.
    virtual void connect(const Traffic&) {}
    // Warms up collectives like this one, of all sizes up to it, in its own memory, which must hold
    // zeros and holds zeros afterwards: libraries make connections and choose algorithms when an
    // operation of a size is first used. After connect(). Blocks. Collective.
    void warm_up_all_reduce(const View& x, Reduction reduction);
    void warm_up_reduce_scatter(const View& in, const View& out, Reduction reduction);
    void warm_up_all_gather(const View& in, const View& out);

    // Records all later operations in `recorder`, also those of groups that are split off later;
    // nullptr: in none. The recorder must outlive the groups.
    void record_to(FlightRecorder* recorder) { recorder_ = recorder; }

    // This rank gives up for `reason`: pending and later operations of all members throw. Does not
    // wait for the others. May be called by any thread.
    virtual void abort(const std::string& reason) noexcept = 0;

    // The blocking forms.
    void all_reduce(const View& x, Reduction reduction = Reduction::sum) {
        start_all_reduce(x, reduction).wait();
    }
    void reduce_scatter(const View& in, const View& out, Reduction reduction = Reduction::sum) {
        start_reduce_scatter(in, out, reduction).wait();
    }
    void all_gather(const View& in, const View& out) { start_all_gather(in, out).wait(); }
    void broadcast(const View& x, int root) { start_broadcast(x, root).wait(); }
    void send(const View& x, int to) { start_send(x, to).wait(); }
    void receive(const View& x, int from) { start_receive(x, from).wait(); }

    // For a group on devices that wraps this one on hosts: both number their collectives in one
    // sequence. Returns the number of the collective that starts.
    virtual i64 next_collective_number() { return n_counted_++; }
    // Returns the report on an operation that timed out, as much of it as this group can find out:
    // "all_reduce(sum, 100 x fp32), operation 3: timed out after 60 s waiting for rank 2 of 4; ..."
    // `number` -1: a message. Blocks for a few seconds while it asks the other ranks where they
    // are. Any thread may call it, one at a time.
    virtual std::string timeout_message(const Operation& operation, i64 number, double waited_s);

  protected:
    friend class Work;
    Group(std::string name, int rank, int size)
        : name_(std::move(name)), rank_(rank), size_(size) {}

    // Starts an operation whose arguments were checked. Returns its handle for wait() and done(),
    // or 0 when it is done already. Both accept the handle of an operation that is done.
    virtual i64 start(const Operation& operation) = 0;
    virtual void wait(i64 handle) = 0;
    virtual bool done(i64 handle) = 0;
    // Backends with streams: whether the device orders a receive after this operation.
    virtual bool is_stream_ordered(i64 handle) { return done(handle); }
    // start(), ordered after operation `handle` of `other`.
    virtual i64 start_after(const Operation& operation, Group& other, i64 handle);
    virtual std::unique_ptr<Group> make_part(int color, int key, std::string name) = 0;
    // `largest`: the operation that is warmed up, in all sizes up to its own.
    virtual void warm_up(const Operation& /*largest*/) {}

    // For groups that wrap another one: starts an operation there.
    static Work forward_to(Group& to, const Operation& operation) { return to.begin(operation); }

  private:
    Work begin(const Operation& operation, const Work& after = {});
    void finish(i64 handle);

    std::string name_;
    int rank_;
    int size_;
    i64 n_collectives_ = 0;
    i64 n_messages_ = 0;
    i64 n_counted_ = 0;
    FlightRecorder* recorder_ = nullptr;
};

inline void Work::wait() {
    if (group_ != nullptr) group_->finish(handle_);
    group_ = nullptr;
}

inline bool Work::done() {
    return group_ == nullptr || group_->done(handle_);
}

inline bool Work::is_stream_ordered() {
    return group_ == nullptr || group_->is_stream_ordered(handle_);
}

}  // namespace lm::comm
