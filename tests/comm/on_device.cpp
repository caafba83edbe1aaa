// SPDX-License-Identifier: Apache-2.0
#include "on_device.hpp"

namespace lm::test {
namespace {

using comm::Operation;
using comm::OperationKind;
using device::View;

// Returns the number of elements of the larger of the operation's two views.
i64 whole(const Operation& o, int size) {
    return o.kind == OperationKind::reduce_scatter || o.kind == OperationKind::all_gather
               ? o.n * size
               : o.n;
}

}  // namespace

OnDevice::OnDevice(std::unique_ptr<comm::Group> group, device::Device& device)
    : Group(group->name(), group->rank(), group->size()),
      group_(std::move(group)),
      device_(device) {
    std::vector<int> others;
    for (int other = 0; other < size(); ++other) {
        if (other != rank()) others.push_back(other);
    }
    group_->connect({.collectives = true, .to = others, .from = others});
}

i64 OnDevice::start(const Operation& o) {
    if (o.kind == OperationKind::barrier) {
        group_->barrier();
        return 0;
    }
    const i64 handle = pending_.open();
    Started& started = *pending_.find(handle);
    started.operation = o;
    const i64 n = whole(o, size());
    // The memory has the larger view, followed by the smaller one where the two do not overlap.
    started.memory = device_.allocate((n + o.n + 1) * size_of(o.dtype), "a test");
    const View large = started.memory.view(0, o.dtype, {n});
    const View own = large.rows(n == o.n ? 0 : rank() * o.n, (n == o.n ? 0 : rank() * o.n) + o.n);
    const View apart = started.memory.view(n * size_of(o.dtype), o.dtype, {o.n});
    const auto* const large_host =
        static_cast<const std::byte*>(o.kind == OperationKind::all_gather ? o.out : o.in);
    const auto* const small_host =
        static_cast<const std::byte*>(o.kind == OperationKind::all_gather ? o.in : o.out);
    const bool in_place = small_host == large_host + rank() * o.bytes();
    const View small = in_place ? own : apart;
    const auto to_device = [this](const View& view, const void* host) {
        if (view.numel() > 0) device_.copy_from_host(view, host);
    };
    switch (o.kind) {
        case OperationKind::all_reduce:
            to_device(large, o.in);
            started.result = large;
            started.work = group_->start_all_reduce(large, o.reduction);
            break;
        case OperationKind::broadcast:
            to_device(large, o.in);
            started.result = large;
            started.work = group_->start_broadcast(large, o.peer);
            break;
        case OperationKind::reduce_scatter:
            to_device(large, o.in);
            started.result = small;
            started.work = group_->start_reduce_scatter(large, small, o.reduction);
            break;
        case OperationKind::all_gather:
            to_device(small, o.in);
            started.result = large;
            started.work = group_->start_all_gather(small, large);
            break;
        case OperationKind::send:
            to_device(large, o.in);
            started.work = group_->start_send(large, o.peer);
            break;
        case OperationKind::receive:
            started.result = large;
            started.work = group_->start_receive(large, o.peer);
            break;
        case OperationKind::barrier:
        case OperationKind::split:
            break;
    }
    return handle;
}

void OnDevice::finish(i64 handle, Started& started) {
    if (started.result && started.result.numel() > 0) {
        device_.copy_to_host(started.operation.out, started.result);
    }
    device_.synchronize();
    started = {};
    pending_.close(handle);
}

void OnDevice::wait(i64 handle) {
    Started* const started = pending_.find(handle);
    if (started == nullptr) return;
    started->work.wait();
    finish(handle, *started);
}

bool OnDevice::done(i64 handle) {
    Started* const started = pending_.find(handle);
    if (started == nullptr) return true;
    if (!started->work.done()) return false;
    finish(handle, *started);
    return true;
}

std::unique_ptr<comm::Group> OnDevice::make_part(int color, int key, std::string part_name) {
    return std::make_unique<OnDevice>(group_->split(color, key, std::move(part_name)), device_);
}

}  // namespace lm::test
