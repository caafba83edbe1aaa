// SPDX-License-Identifier: Apache-2.0
// A group of ranks and its collectives, over views, never byte counts. All members call the same
// collectives with the same shapes in the same order. The same code runs over one rank (self), the
// threads of a process, MPI, and later NCCL.
//
// start_*() begins an operation behind what the device was told before and returns at once; its
// views must not be touched until wait(). The plain forms do both. Reductions add in an order that
// depends on the group's size alone: the same inputs give the same bits. Nothing is allocated after
// the first operations of a run.
//
// A member that does not come: after the timeout every operation throws Error(failure) with the
// operation, its number, and the ranks and hosts that are missing. After abort() by any member all
// operations of the others throw with its reason.
#pragma once

#include <memory>
#include <string>

#include "device/view.hpp"

namespace lm::comm {

using device::View;

enum class Reduction { sum, max };

class Group;

// An operation under way. Copies mean the same operation; a default one is done already.
class Work {
  public:
    Work() = default;
    Work(Group* group, i64 ticket) : group_(group), ticket_(ticket) {}
    void wait();  // what was received may be used by what the device is told next
    bool done();  // does not block; drives progress where the library needs to be called for it

  private:
    Group* group_ = nullptr;
    i64 ticket_ = 0;
};

class Group {
  public:
    virtual ~Group() = default;
    Group() = default;
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

    virtual const std::string& name() const = 0;  // "tensor", for messages and logs
    virtual int rank() const = 0;
    virtual int size() const = 0;

    // In place. sum: fp32, fp64, i32, i64, bf16 and fp16 (added in fp32); max: the same.
    virtual Work start_all_reduce(const View& x, Reduction reduction) = 0;
    // `in` is size() parts of out.numel() elements; part r, reduced, goes to rank r. `out` may be
    // this rank's own part of `in`; the other parts are undefined afterwards in that case.
    virtual Work start_reduce_scatter(const View& in, const View& out, Reduction reduction) = 0;
    // `out` is size() parts of in.numel() elements. `in` may be this rank's own part of `out`.
    virtual Work start_all_gather(const View& in, const View& out) = 0;
    virtual Work start_broadcast(const View& x, int root) = 0;
    // Messages between a pair arrive in the order in which they were sent; send and receive agree
    // on dtype and number of elements. A send to the rank itself is a bug.
    virtual Work start_send(const View& x, int to) = 0;
    virtual Work start_receive(const View& x, int from) = 0;
    virtual void barrier() = 0;

    // Collective: members with the same `color` form a new group, ordered by `key`, then by rank.
    virtual std::unique_ptr<Group> split(int color, int key, std::string name) = 0;

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

  protected:
    friend class Work;
    virtual void wait(i64 ticket) = 0;
    virtual bool done(i64 ticket) = 0;
};

inline void Work::wait() {
    if (group_ != nullptr) group_->wait(ticket_);
    group_ = nullptr;
}

inline bool Work::done() {
    return group_ == nullptr || group_->done(ticket_);
}

// The group of one rank: every operation is a copy or nothing.
std::unique_ptr<Group> self(std::string name);

}  // namespace lm::comm
