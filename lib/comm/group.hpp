// SPDX-License-Identifier: Apache-2.0
// A group of ranks and its collectives, over views, never byte counts. All members call the same
// collectives with the same shapes in the same order. The same code runs over one rank (self), the
// threads of a process, MPI, and NCCL. A group is used by one thread of its rank at a time.
//
// start_*() begins an operation behind what the device was told before and returns at once; its
// views must not be touched until wait(). The plain forms do both. Several may be under way; each
// is waited for, or seen done, in the end. Reductions add in an order that depends on the group's
// size and the shape alone: the same inputs give the same bits. Nothing is allocated after the
// first operations of a run.
//
// A member that does not come: after the timeout the operation throws Error(failure) with its
// name, its number, and the ranks that are missing. After a failure or abort() of any member the
// operations of all others throw with its reason. Members whose operations do not match each other:
// Error(bug) naming both; backends where that costs something (MPI) look for it on request only.
#pragma once

#include <memory>
#include <string>

#include "comm/flight_recorder.hpp"
#include "comm/operation.hpp"
#include "device/view.hpp"

namespace lm::comm {

using device::View;

class Group;

// An operation under way. Copies mean the same operation; a default one is done already.
class Work {
  public:
    Work() = default;
    Work(Group* group, i64 handle) : group_(group), handle_(handle) {}
    void wait();  // what was received may be used by what the device is told next
    bool done();  // does not block; drives progress where the library needs to be called for it
    // A receive can be told to begin behind this operation, and this rank need not wait for either:
    // it is done, or its device orders the two.
    bool is_stream_ordered();

  private:
    friend class Group;
    Group* group_ = nullptr;
    i64 handle_ = 0;
};

// What a group is going to carry between devices.
struct Traffic {
    bool collectives = false;
    bool overlaps_compute = false;  // those leave most of the devices to what is computed meanwhile
    std::vector<int> to = {};       // the members to which this rank sends messages
    std::vector<int> from = {};
};

class Group {
  public:
    virtual ~Group() = default;
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    const std::string& name() const { return name_; }  // "tensor", for messages and logs
    int rank() const { return rank_; }
    int size() const { return size_; }

    // In place. sum: fp32, fp64, i32, i64, bf16 and fp16 (added in fp32); max: the same; a NaN in
    // any member's element is a NaN in the result.
    Work start_all_reduce(const View& x, Reduction reduction);
    // `in` is size() parts of out.numel() elements. Part r, reduced, goes to rank r. `out` may be
    // this rank's own part of `in`; the other parts are undefined afterwards in that case.
    Work start_reduce_scatter(const View& in, const View& out, Reduction reduction);
    // `out` is size() parts of in.numel() elements. `in` may be this rank's own part of `out`.
    Work start_all_gather(const View& in, const View& out);
    Work start_broadcast(const View& x, int root);
    // Messages between a pair arrive in the order in which they were sent; send and receive agree
    // on dtype and number of elements. A send may wait for its receive. A send to the rank itself
    // is a bug.
    Work start_send(const View& x, int to);
    // `behind`: an operation of this or another group that still reads `x`, which
    // is_stream_ordered(); or none.
    Work start_receive(const View& x, int from, const Work& behind = {});
    void barrier();

    // Collective: members with the same `color` form a new group, ordered by `key`, then by rank.
    // A negative color: the group of this rank alone.
    std::unique_ptr<Group> split(int color, int key, std::string name);

    // Makes the connections for what goes between devices, before the work in whose middle they
    // would be made otherwise; nothing else is carried there. Collective.
    virtual void connect(const Traffic&) {}
    // The same for collectives like this one of all sizes up to it, done in its memory, which holds
    // zeros before and afterwards. connect() comes first. Collective.
    void warm_up_all_reduce(const View& x, Reduction reduction);
    void warm_up_reduce_scatter(const View& in, const View& out, Reduction reduction);
    void warm_up_all_gather(const View& in, const View& out);

    // Operations are recorded there from now on, those of parts cut from now on too; nullptr:
    // nowhere. The recorder outlives the groups.
    void record_to(FlightRecorder* recorder) { recorder_ = recorder; }

    // Ends the operations of all members with Error(failure): this rank gives up, because `reason`.
    virtual void abort(const std::string& reason) noexcept = 0;

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

    // For a group whose operations on a device another library carries beside this one: both count
    // their collectives in one sequence; the number of the one that begins.
    virtual i64 next_collective_number() { return n_counted_++; }
    // What is said of an operation of such a group that was waited for in vain: "all_reduce(sum,
    // 100 x fp32), operation 3: rank 2 of 4 did not come within 60 s; ...", as much of it as this
    // group can find out. `number` -1: a message. For any thread, one at a time.
    virtual std::string timeout_message(const Operation& operation, i64 number, double waited_s);

  protected:
    friend class Work;
    Group(std::string name, int rank, int size)
        : name_(std::move(name)), rank_(rank), size_(size) {}

    // Begins an operation whose arguments were checked; a handle for wait() and done(), 0 when it
    // is done already. Both take a handle again that is finished.
    virtual i64 start(const Operation& operation) = 0;
    virtual void wait(i64 handle) = 0;
    virtual bool done(i64 handle) = 0;
    // Groups whose device orders operations: whether it does for this one, and a receive behind it.
    virtual bool is_stream_ordered(i64 handle) { return done(handle); }
    virtual i64 start_after(const Operation& operation, Group& other, i64 handle);
    virtual std::unique_ptr<Group> make_part(int color, int key, std::string name) = 0;

    virtual void warm_up(const Operation&) {}

    // For groups that hand operations on to another one.
    static Work forward_to(Group& to, const Operation& operation) { return to.begin(operation); }

  private:
    Work begin(const Operation& operation, const Work& behind = {});
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
