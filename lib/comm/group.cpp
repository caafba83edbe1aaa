// SPDX-License-Identifier: Apache-2.0
#include "comm/group.hpp"

#include <fmt/format.h>

#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"

namespace lm::comm {
namespace {

// Checks that the dtype of x, [n], can be reduced: any dtype but bytes and 16-bit integers.
void check_reducible(const View& x) {
    LM_CHECK(x.dtype != DType::uint8 && x.dtype != DType::uint16,
             "expected a type that can be reduced, got {}", lm::name_of(x.dtype));
}

// Returns the operation. x: [n], any dtype that can be reduced.
Operation all_reduce_of(const View& x, Reduction reduction) {
    check_reducible(x);
    return {OperationKind::all_reduce, reduction, x.dtype, x.numel(), -1, x.data, x.data};
}

// Checks the views of a reduce_scatter or all_gather: whole [size * n], part [n], any dtype.
void check_parts(const View& whole, const View& part, int size) {
    LM_CHECK(whole.dtype == part.dtype, "expected views of one type, got {} and {}",
             lm::name_of(whole.dtype), lm::name_of(part.dtype));
    LM_CHECK(whole.numel() == part.numel() * size,
             "expected a view of {} parts of {} elements, got {} elements", size, part.numel(),
             whole.numel());
}

// Returns the operation. in: [size * n], out: [n], of any dtype that can be reduced.
Operation reduce_scatter_of(const View& in, const View& out, Reduction reduction, int size) {
    check_reducible(in);
    check_parts(in, out, size);
    return {OperationKind::reduce_scatter, reduction, in.dtype, out.numel(), -1, in.data, out.data};
}

// Returns the operation. in: [n], out: [size * n], any dtype.
Operation all_gather_of(const View& in, const View& out, int size) {
    check_parts(out, in, size);
    return {OperationKind::all_gather, Reduction::sum, in.dtype, in.numel(), -1, in.data, out.data};
}

}  // namespace

Work Group::begin(const Operation& operation, const Work& after) {
    LM_CHECK(operation.peer < size_, "expected a member less than {}, got {}", size_,
             operation.peer);
    const i64 number = is_message(operation.kind) ? n_messages_++ : n_collectives_++;
    if (recorder_) recorder_->started(recorded_index_, operation, number);
    const i64 handle = after.group_ == nullptr
                           ? start(operation)
                           : start_after(operation, *after.group_, after.handle_);
    const i64 recorded = is_message(operation.kind) ? -1 - number : number;
    return handle == 0 ? Work() : Work(this, handle, recorded);
}

i64 Group::start_after(const Operation& operation, Group& other, i64 handle) {
    // This backend cannot order a receive after a pending operation, so `other` must have completed
    // the operation.
    LM_CHECK(other.done(handle),
             "{}: expected `after` to be done, got a pending operation of group '{}'",
             operation.str(), other.name());
    return start(operation);
}

void Group::finish(i64 handle, i64 number) {
    if (recorder_) recorder_->waiting(recorded_index_, number);
    wait(handle);
    if (recorder_) recorder_->waited(recorded_index_);
}

void Group::record_to(FlightRecorder* recorder) {
    recorder_ = recorder;
    if (recorder_) recorded_index_ = recorder_->add_group(recorded_id_, name_, rank_, size_);
}

void Group::record_instead_of(Group& wrapped) {
    recorder_ = std::exchange(wrapped.recorder_, nullptr);
    recorded_id_ = wrapped.recorded_id_;
    recorded_index_ = wrapped.recorded_index_;
    n_collectives_ = wrapped.n_collectives_;
    n_messages_ = wrapped.n_messages_;
}

Work Group::start_all_reduce(const View& x, Reduction reduction) {
    return begin(all_reduce_of(x, reduction));
}

Work Group::start_reduce_scatter(const View& in, const View& out, Reduction reduction) {
    return begin(reduce_scatter_of(in, out, reduction, size_));
}

Work Group::start_all_gather(const View& in, const View& out) {
    return begin(all_gather_of(in, out, size_));
}

Work Group::start_broadcast(const View& x, int root) {
    LM_CHECK(root >= 0, "expected a member as root, got {}", root);
    return begin(
        {OperationKind::broadcast, Reduction::sum, x.dtype, x.numel(), root, x.data, x.data});
}

Work Group::start_send(const View& x, int to) {
    LM_CHECK(to >= 0 && to != rank_, "expected a member >= 0 other than {}, got {}", rank_, to);
    return begin({OperationKind::send, Reduction::sum, x.dtype, x.numel(), to, x.data, nullptr});
}

Work Group::start_receive(const View& x, int from, const Work& after) {
    LM_CHECK(from >= 0 && from != rank_, "expected a member >= 0 other than {}, got {}", rank_,
             from);
    return begin(
        {OperationKind::receive, Reduction::sum, x.dtype, x.numel(), from, nullptr, x.data}, after);
}

void Group::warm_up_all_reduce(const View& x, Reduction reduction) {
    warm_up(all_reduce_of(x, reduction));
}

void Group::warm_up_reduce_scatter(const View& in, const View& out, Reduction reduction) {
    warm_up(reduce_scatter_of(in, out, reduction, size_));
}

void Group::warm_up_all_gather(const View& in, const View& out) {
    warm_up(all_gather_of(in, out, size_));
}

void Group::barrier() {
    begin({OperationKind::barrier}).wait();
}

std::string Group::timeout_message(const Operation& operation, i64 number, double waited_s) {
    const std::string which = number < 0 ? "" : fmt::format(", operation {}", number);
    return fmt::format("{}{}: timed out after {:.0f} s", operation.str(), which, waited_s);
}

std::unique_ptr<Group> Group::split(int color, int key, std::string name) {
    const i64 number = n_collectives_++;
    if (recorder_) {
        recorder_->started(recorded_index_, {OperationKind::split}, number);
        recorder_->waiting(recorded_index_, number);
    }
    std::unique_ptr<Group> part = make_part(color, key, std::move(name));
    if (recorder_) recorder_->waited(recorded_index_);
    // A rank with a negative color is alone in its group, whose id contains the rank's number to be
    // unique.
    const u64 numbers[] = {recorded_id_, static_cast<u64>(number),
                           static_cast<u64>(static_cast<i64>(color)),
                           color < 0 ? static_cast<u64>(rank_) : 0};
    part->recorded_id_ = hash64({reinterpret_cast<const char*>(numbers), sizeof numbers});
    part->record_to(recorder_);
    return part;
}

}  // namespace lm::comm
