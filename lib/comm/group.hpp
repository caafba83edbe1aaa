// SPDX-License-Identifier: Apache-2.0
// A group of ranks and its collectives, whose arguments are views. Backends: one rank alone
// (comm/self), MPI (comm/mpi), frames over TCP (comm/tcp), NCCL (cuda/nccl) and, for tests, the
// threads of a process (tests/comm/threads).
//
// Order. All members call the same collectives with the same shapes in the same order. One thread
// of a rank uses a group at a time.
//
// Asynchrony. start_*() enqueues an operation and returns at once; the blocking forms, such as
// all_reduce(), also wait for the operation. Several operations may be pending. The caller keeps
// the views of a pending operation alive and untouched until Work::wait() has returned or
// Work::done() has returned true. The caller must call wait() or done() for every Work.
//
// Streams. An operation on device memory runs after all work that was enqueued in the compute
// stream before start_*(). Work that is enqueued after wait() runs after the operation, so wait()
// need not block the host. For host memory, wait() blocks until the operation is done.
//
// Determinism. The order of additions depends only on the size of the group and the shape, so the
// same inputs give the same bits. (With NCCL, the bits are equal only on the same machines, see
// cuda/nccl.)
//
// Allocation. After the first operations of a run, only groups over TCP allocate memory.
//
// Errors. wait(), done() and start_*() throw
// - Error(failure) after a timeout, naming group, operation, its number and the missing ranks;
// - Error(failure) or JointError with the reason when any member has failed or called abort();
// - Error(bug) when the operations of two members do not match; the message names both. Backends in
//   which this check costs time (MPI) check only on request (LaunchOptions::check_operations).
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

// A handle of a pending operation. Copies refer to the same operation. The operation of a
// default-constructed handle counts as done.
class Work {
  public:
    Work() = default;
    // `number` is the number of a collective in the flight recorder, or -1 - n for message n.
    Work(Group* group, i64 handle, i64 number = 0)
        : group_(group), handle_(handle), number_(number) {}
    // Returns when the operation on host memory is done, or when the compute stream is ordered
    // after the operation on device memory. Throws as described at the top of this file. A second
    // call returns at once.
    void wait();
    // Returns whether the operation is done. Does not block. A library that makes progress only
    // when it is called (MPI) makes progress in this call.
    bool done();
    // Returns whether start_receive() accepts this operation as `after` without an earlier wait():
    // the operation is done, or the device can order the receive after it.
    bool is_stream_ordered();

  private:
    friend class Group;
    Group* group_ = nullptr;  // nullptr: the operation is done
    i64 handle_ = 0;
    i64 number_ = 0;
};

// The operations on device memory for which Group::connect() makes connections.
struct Traffic {
    bool collectives = false;
    bool overlaps_compute = false;  // collectives leave most SMs to concurrent compute kernels
    i64 max_sms = 0;                // SMs that collectives may occupy; 0: overlaps_compute decides
    std::vector<int> to = {};       // members to which this rank sends messages
    std::vector<int> from = {};
};

class Group {
  public:
    virtual ~Group() = default;
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    const std::string& name() const { return name_; }  // "tensor", for messages and logs
    int rank() const { return rank_; }                 // number of this rank among the members
    int size() const { return size_; }

    // Reduces x in place over all members; as in all collectives, the views of all members have the
    // same shape and dtype. x: [n] fp32, fp64, int32, int64, bf16 or fp16. Sums of bf16 and fp16
    // are added in fp32 and rounded once, except over MPI and NCCL. MPI rounds each partial sum to
    // 16 bits. NCCL rounds to 16 bits at every hop of its rings and trees, because it adds pairs of
    // 16-bit numbers (__hadd2); the switches of NVLS add in fp32 and round once. A NaN in an
    // element of any member gives NaN in the result. Exception: the maximum that NCCL computes on
    // device memory drops NaN. Collective.
    Work start_all_reduce(const View& x, Reduction reduction);
    // Reduces `in` over all members, and writes part r of the result to `out` of member r. in:
    // [size() * n], out: [n], of any dtype that start_all_reduce() accepts. `out` may be this
    // rank's own part of `in`; the operation then leaves the other parts of `in` undefined.
    // Collective.
    Work start_reduce_scatter(const View& in, const View& out, Reduction reduction);
    // Gathers `in` of all members into `out`, ordered by rank. in: [n], out: [size() * n], of any
    // dtype. `in` may be this rank's own part of `out`. Collective.
    Work start_all_gather(const View& in, const View& out);
    // Copies x of member `root` to x of all members. x: [n] of any dtype. Collective.
    Work start_broadcast(const View& x, int root);
    // Sends x, [n] of any dtype, to member `to`, which receives n elements of the same type.
    // Messages between two members arrive in the order in which they were sent. wait() may block
    // until the receive is started. A rank must not send to itself.
    Work start_send(const View& x, int to);
    // Receives x, [n] of any dtype, from member `from`, ordered after the operation `after`.
    // `after` is an operation of this or another group that still reads `x`; its
    // is_stream_ordered() must be true.
    Work start_receive(const View& x, int from, const Work& after = {});
    // Blocks until all members have called barrier(). Collective.
    void barrier();

    // Forms new groups. Members with the same `color` form a group, ordered by `key`, then by rank.
    // A negative color gives a group of this rank alone. Blocks. Collective.
    std::unique_ptr<Group> split(int color, int key, std::string name);

    // Makes the connections for operations on device memory, so that no step has to make
    // connections. Call it before such operations. Groups on hosts need no connections. Blocks.
    // Collective.
    virtual void connect(const Traffic&) {}
    // Each function warms up one kind of collective, for the dtype of the views and for all sizes
    // up to the size of the views. Without this, a library connects and chooses its algorithm at
    // the first operation of each size. The views must hold zeros, and hold zeros afterwards. Call
    // it after connect(). x, in and out: [n] and [size() * n], of any dtype, as for the start_*()
    // functions. Blocks. Collective.
    void warm_up_all_reduce(const View& x, Reduction reduction);
    void warm_up_reduce_scatter(const View& in, const View& out, Reduction reduction);
    void warm_up_all_gather(const View& in, const View& out);

    // Records all later operations of this group, and of groups that split() forms later, in
    // `recorder`. nullptr: records nothing. The recorder must outlive these groups.
    void record_to(FlightRecorder* recorder);

    // Ends the group: pending and later operations of all members throw with `reason`. Does not
    // wait for the other members. Any thread may call it.
    virtual void abort(const std::string& reason) noexcept = 0;

    // Blocking forms of the start_*() functions, with the same x, in and out, [n] or [size() * n]
    // of any dtype.
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

    // Returns whether messages between two members pass through a third member. If so, their speed
    // is not the speed of the network between the two members.
    virtual bool relays_messages() const { return false; }

    // Returns the number of the next collective, and increments it. A device group that wraps this
    // host group calls this function, too, so that both number their collectives in one sequence.
    virtual i64 next_collective_number() { return n_counted_++; }
    // Returns the report on an operation that timed out: "all_reduce(sum, 100 x fp32), operation 3:
    // timed out after 60 s waiting for rank 2 of 4; ..." The backend determines the details of the
    // report. `number`: the collective's number; -1: a message. Asks the other ranks for their
    // status, and blocks for 14 s at most. Any thread may call it, but only one thread at a time.
    virtual std::string timeout_message(const Operation& operation, i64 number, double waited_s);

  protected:
    friend class Work;
    Group(std::string name, int rank, int size)
        : name_(std::move(name)), rank_(rank), size_(size) {}

    // Starts an operation whose arguments were checked. Returns its handle for wait() and done(),
    // or 0 when the operation is already done. wait() and done() also accept the handle of an
    // operation that is done.
    virtual i64 start(const Operation& operation) = 0;
    virtual void wait(i64 handle) = 0;
    virtual bool done(i64 handle) = 0;
    // Returns whether the device orders a receive after this operation. Backends with streams
    // override this function.
    virtual bool is_stream_ordered(i64 handle) { return done(handle); }
    // Starts an operation that is ordered after operation `handle` of `other`.
    virtual i64 start_after(const Operation& operation, Group& other, i64 handle);
    virtual std::unique_ptr<Group> make_part(int color, int key, std::string name) = 0;
    // Warms up operations of the kind and dtype of `largest`, for all sizes up to the size of
    // `largest`.
    virtual void warm_up(const Operation& /*largest*/) {}

    // For a group that wraps the group `wrapped`: after this call, this group records the
    // operations of both groups, and `wrapped` records nothing.
    void record_instead_of(Group& wrapped);
    // For a group that wraps the group `to`: starts `operation` in `to`.
    static Work forward_to(Group& to, const Operation& operation) { return to.begin(operation); }

  private:
    Work begin(const Operation& operation, const Work& after = {});
    void finish(i64 handle, i64 number);

    std::string name_;
    int rank_;
    int size_;
    i64 n_collectives_ = 0;
    i64 n_messages_ = 0;
    i64 n_counted_ = 0;
    FlightRecorder* recorder_ = nullptr;
    u64 recorded_id_ = 1;    // equal on all members, differs between groups; 1: the world
    u8 recorded_index_ = 0;  // result of FlightRecorder::add_group()
};

inline void Work::wait() {
    if (group_ != nullptr) group_->finish(handle_, number_);
    group_ = nullptr;
}

inline bool Work::done() {
    return group_ == nullptr || group_->done(handle_);
}

inline bool Work::is_stream_ordered() {
    return group_ == nullptr || group_->is_stream_ordered(handle_);
}

}  // namespace lm::comm
