// SPDX-License-Identifier: Apache-2.0
// The operations of one group of rank threads. Internal to the threads backend.
//
// Collectives: each member posts its views. The member that posts last divides the work into pieces
// and makes the collective ready. Every waiting member then computes pieces, which it reserves by
// incrementing next_piece, until no piece is left. A single waiting member can compute all pieces,
// so no order of waits can deadlock.
//
// Order of the writes: a member writes its `posts`, `inputs` and `splits` under mutex_, before
// ready is set. These three fields do not change after that. n_pieces and parts are written before
// ready is set. The thread that reserved a piece writes the output of the piece, and then adds to
// pieces_done. A collective is reused when all members have called finish().
//
// Messages: the side that posts second copies the data and completes both sides.
//
// Reductions read the inputs in the order of the members, and write an element after they have read
// that element of all inputs. So in-place operation is safe, and the order of additions does not
// depend on threads.
#pragma once

#include <algorithm>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "comm/operation.hpp"
#include "comm/threads/virtual_time.hpp"
#include "comm/threads/world.hpp"

namespace lm::comm {

class Hub;

// A first-in first-out queue, in a ring that grows but never shrinks.
template <typename T>
class Fifo {
  public:
    bool empty() const { return n_ == 0; }
    size_t size() const { return n_; }
    T& operator[](size_t i) { return items_[(head_ + i) % items_.size()]; }
    void push(T item) {
        if (n_ == items_.size()) reserve(std::max<size_t>(8, 2 * n_));
        items_[(head_ + n_++) % items_.size()] = item;
    }
    T pop() {
        T item = items_[head_];
        head_ = (head_ + 1) % items_.size();
        --n_;
        return item;
    }

    void reserve(size_t n) {
        if (n <= items_.size()) return;
        std::vector<T> larger(n);
        for (size_t i = 0; i < n_; ++i) larger[i] = (*this)[i];
        items_ = std::move(larger);
        head_ = 0;
    }

  private:
    std::vector<T> items_;
    size_t head_ = 0;
    size_t n_ = 0;
};

// The arguments that one member passes to a split.
struct SplitRequest {
    SplitChoice choice;
    std::string name;
};

// A collective that is pending, or free for reuse.
struct Collective {
    i64 number = 0;                   // counted in the group, from 0
    std::vector<Operation> posts;     // by member
    std::vector<const void*> inputs;  // Operation::in of the posts, in the form that reduce() takes
    std::vector<SplitRequest> splits;                         // by member
    std::vector<std::pair<std::shared_ptr<Hub>, int>> parts;  // a split's result, by member
    int first = 0;                                            // the member that posted first
    int n_posted = 0;
    int n_unfinished = 0;    // members that have not called finish()
    double latest_post = 0;  // virtual time of the last post
    double finished_at = 0;  // virtual time of the end
    i64 n_pieces = 0;
    std::atomic<bool> ready{false};
    std::atomic<i64> next_piece{0};
    std::atomic<i64> pieces_done{0};

    bool complete() const { return ready.load() && pieces_done.load() == n_pieces; }
};

// One side of a message.
struct Message {
    Operation operation;
    int member = 0;
    double posted_at = 0;  // virtual time of the post
    double finished_at = 0;
    std::atomic<bool> complete{false};
    Message* next = nullptr;  // next message of its queue
};

// A first-in first-out queue. The queue links the messages by their `next` and allocates nothing.
class MessageQueue {
  public:
    bool empty() const { return first_ == nullptr; }
    void push(Message* message) {
        message->next = nullptr;
        (first_ ? last_->next : first_) = message;
        last_ = message;
    }
    Message* pop() { return std::exchange(first_, first_->next); }

  private:
    Message* first_ = nullptr;
    Message* last_ = nullptr;
};

class Hub {
  public:
    Hub(ThreadsWorld& world, VirtualTime* time, std::string name, std::vector<int> members);

    const std::string& name() const { return name_; }
    int size() const { return static_cast<int>(members_.size()); }
    ThreadsWorld& world() { return world_; }
    int world_rank(int member) const { return members_[static_cast<size_t>(member)]; }

    // Posts the next collective of this member. `split` is used only by a split. Throws Error(bug)
    // when the collective does not match those that the other members posted.
    Collective* post(int member, const Operation& operation, SplitRequest split = {});
    void wait(int member, Collective& collective);
    bool done(Collective& collective);                // computes pieces, if any are left
    void finish(int member, Collective* collective);  // each member calls it once, at the end

    Message* post_message(int member, const Operation& operation);
    void wait(int member, Message& message);
    void finish(int member, Message* message);

    // Returns whether the member's virtual clock has reached `time`; true without virtual time.
    bool has_passed(int member, double time) const { return !time_ || now(member) >= time; }

  private:
    // The messages from one member to another. One of the two queues is always empty, because a
    // message is delivered as soon as both of its sides are posted.
    struct Channel {
        MessageQueue sends;
        MessageQueue receives;
        double free_at = 0;  // virtual time at which the channel is free
    };

    void add_collective();
    void add_message();
    Collective& open(i64 number);
    void check_agreement(const Collective& collective, int member) const;
    void make_ready(Collective& collective);
    void make_parts(Collective& collective);
    void work(Collective& collective);
    void do_piece(Collective& collective, i64 piece);
    void do_block(Collective& collective, i64 part, i64 begin, i64 n);
    void ring_all();
    void deliver(Message& send, Message& receive, int poster);
    std::vector<int> missing(const Collective& collective, bool ended_only);
    std::string describe(const Operation& operation) const;
    double now(int member) const;
    void advance(int member, double time);

    ThreadsWorld& world_;
    VirtualTime* time_;  // nullptr: real time
    std::string name_;
    std::vector<int> members_;   // world ranks of the members
    std::mutex mutex_;           // guards all members that follow
    std::vector<i64> n_posted_;  // by member
    Fifo<Collective*> open_;     // collectives that not all members have posted, oldest first
    i64 first_open_ = 0;         // number of the oldest collective in open_
    double free_at_ = 0;         // virtual time at which the group's channel is free
    std::vector<Channel> channels_;
    std::vector<std::unique_ptr<Collective>> collectives_;
    std::vector<Collective*> free_collectives_;
    std::vector<std::unique_ptr<Message>> messages_;
    std::vector<Message*> free_messages_;
};

}  // namespace lm::comm
