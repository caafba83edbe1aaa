// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl/nccl_group.hpp"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>
#include <future>
#include <thread>
#include <tuple>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "cost/nccl.hpp"
#include "cuda/nccl/nccl_library.hpp"

namespace lm::cuda {

using comm::Operation;
using comm::OperationKind;

namespace {

constexpr double end_s = 30;  // longest wait for the destruction of communicators

ncclUniqueId new_id(const std::string& name) {
    ncclUniqueId id{};
    if (nccl().GetUniqueId(&id) != ncclSuccess) {
        run_error(fmt::format("group '{}'", name), "ncclGetUniqueId: {}",
                  nccl().GetLastError(nullptr));
    }
    return id;
}

// Returns the bytes of `id`, [128] uint8.
device::View view_of(ncclUniqueId& id) {
    return {&id, DType::uint8, {static_cast<i64>(sizeof id)}};
}

// Returns the number of ids (bootstrap roots) for n_ranks ranks: one for every
// LM_NCCL_RANKS_PER_ROOT ranks, by default for every 128 ranks, like PyTorch. Returns 1 if the NCCL
// library does not support several ids.
int n_roots(int n_ranks) {
    constexpr int usual = 128;
    const char* const text = std::getenv("LM_NCCL_RANKS_PER_ROOT");
    const int wanted = text != nullptr ? std::atoi(text) : usual;
    const int ranks_each = wanted > 0 ? wanted : usual;
    return nccl().CommInitRankScalable == nullptr ? 1
                                                  : static_cast<int>(ceil_div(n_ranks, ranks_each));
}

// Returns the first rank of part `part`. NCCL divides the ranks into n_parts contiguous parts; the
// first n_ranks % n_parts parts have one rank more than the others (bootstrap.cc, rootIdFromRank).
// The first rank of a part creates the id of the part.
int first_of_part(int n_ranks, int n_parts, int part) {
    return part * (n_ranks / n_parts) + std::min(part, n_ranks % n_parts);
}

}  // namespace

NcclGroup::NcclGroup(std::shared_ptr<NcclWorld> world, std::shared_ptr<comm::Group> host,
                     std::string name)
    : Group(std::move(name), host->rank(), host->size()),
      world_(std::move(world)),
      host_(std::move(host)),
      exceptions_at_start_(std::uncaught_exceptions()) {}

std::unique_ptr<NcclGroup> NcclGroup::create(std::shared_ptr<NcclWorld> world,
                                             std::shared_ptr<comm::Group> host, std::string name) {
    std::unique_ptr<NcclGroup> group(
        new NcclGroup(std::move(world), std::move(host), std::move(name)));
    group->record_instead_of(*group->host_);
    if (group->size() > 1) group->ids_ = group->host_->split(0, group->rank(), group->name());
    return group;
}

// When this rank fails (an exception destroys the group), the communicators are aborted, because
// other ranks may never take part in an orderly end.
NcclGroup::~NcclGroup() {
    bool failing = world_->failed() || std::uncaught_exceptions() > exceptions_at_start_;
    try {
        if (!failing) end();
    } catch (const std::exception& error) {
        warn("{}", error.what());
        failing = true;
    }
    if (failing) world_->fail("this rank stopped with an error");
}

// Waits for all operations of the group, then destroys its communicators.
void NcclGroup::end() {
    std::vector<std::shared_ptr<NcclChannel>> channels;
    if (channel_) channels.push_back(channel_);
    for (const auto& [key, link] : links_) channels.push_back(link);
    if (channels.empty()) return;
    // ncclCommDestroy must not run while operations are pending.
    for (const auto& channel : channels) {
        world_->until([&] { return channel->idle(); });
    }
    Communicators comms;
    {
        const std::lock_guard lock(world_->mutex());
        for (const auto& channel : channels) channel->move_communicators(comms);
    }
    // A detached thread destroys the communicators. This rank waits for the thread for a limited
    // time, because a dead rank must not block this rank.
    std::packaged_task<void()> task([comms, device = world_->device().index()] {
        cudaSetDevice(device);
        end_together(comms);
    });
    const std::future<void> ended = task.get_future();
    start_thread(std::move(task)).detach();
    const std::chrono::duration<double> limit(end_s);
    if (ended.wait_for(limit) == std::future_status::timeout) {
        warn("group '{}': ncclCommDestroy not finished after {:.0f} s: ignored", name(), end_s);
    }
}

// ---- Forming -----------------------------------------------------------------------------------

// The order of links is the same on all ranks, so that no two ranks wait for each other. Links from
// even ranks come first, so that disjoint pairs form their links at the same time.
void NcclGroup::connect(const comm::Traffic& traffic) {
    if (size() == 1) return;
    world_->require_healthy();
    if (traffic.collectives) form_collectives(traffic);
    std::vector<std::pair<int, int>> links;
    for (const int to : traffic.to) links.emplace_back(rank(), to);
    for (const int from : traffic.from) links.emplace_back(from, rank());
    std::ranges::sort(links, {}, [](const auto& link) {
        return std::tuple(link.first % 2, link.first, link.second);
    });
    for (const auto& [from, to] : links) form_link(from, to);
}

void NcclGroup::form_collectives(const comm::Traffic& traffic) {
    LM_CHECK(!channel_, "group '{}': connect() was called twice", name());
    // The host group sends the ids of the roots, because no communicator exists yet. A group of
    // many ranks has several roots, because a single root would serve all ranks in sequence.
    std::vector<ncclUniqueId> ids(static_cast<size_t>(n_roots(size())));
    for (size_t i = 0; i < ids.size(); ++i) {
        const int root = first_of_part(size(), static_cast<int>(ids.size()), static_cast<int>(i));
        if (rank() == root) ids[i] = new_id(name());
        ids_->broadcast(view_of(ids[i]), root);
    }
    int max_blocks = traffic.overlaps_compute ? cost::nccl_overlap_channels : 0;
    if (traffic.max_sms > 0) max_blocks = static_cast<int>(traffic.max_sms);
    channel_ = NcclChannel::open(world_->device(), name(), host_, rank(), size(), -1, max_blocks);
    world_->form(channel_, ids);
}

void NcclGroup::form_link(int from, int to) {
    const bool sends = from == rank();
    const int peer = sends ? to : from;
    std::shared_ptr<NcclChannel>& link =
        links_[{peer, sends ? OperationKind::send : OperationKind::receive}];
    LM_CHECK(!link && peer != rank(),
             "group '{}': rank {}: expected a first link to another rank, got {} to {}", name(),
             rank(), link ? "a second link" : "a link", peer);
    ncclUniqueId id{};
    if (sends) {
        id = new_id(name());
        ids_->send(view_of(id), peer);
    } else {
        ids_->receive(view_of(id), peer);
    }
    // The link has a communicator of two ranks: the sender is rank 0, the receiver rank 1.
    link = NcclChannel::open(world_->device(), name(), ids_, sends ? 0 : 1, 2, peer,
                             cost::nccl_link_channels);
    world_->form(link, {id});
}

// Warms up collectives only, because the connections of messages do not depend on their size.
void NcclGroup::warm_up(const Operation& largest) {
    if (size() == 1 || largest.n == 0) return;
    LM_CHECK(on_device(largest) && !comm::is_message(largest.kind),
             "expected a collective in device memory, got {}", largest.str());
    world_->warm_up(channel_for(largest), largest);
}

void NcclGroup::abort(const std::string& reason) noexcept {
    world_->fail(reason);
    host_->abort(reason);
}

// ---- Operations --------------------------------------------------------------------------------

bool NcclGroup::on_device(const Operation& operation) const {
    const CudaDevice& device = world_->device();
    const void* const data = operation.in != nullptr ? operation.in : operation.out;
    const bool here = data != nullptr && device.holds(data);
    const bool both = operation.in == nullptr || operation.out == nullptr ||
                      device.holds(operation.in) == device.holds(operation.out);
    LM_CHECK(both, "{}: expected in and out both on the device or both on the host",
             operation.str());
    return here;
}

i64 NcclGroup::start(const Operation& operation) {
    world_->require_healthy();
    if (on_device(operation)) return start_on_device(operation, nullptr);
    const comm::Work work = forward_to(*host_, operation);  // host memory goes over MPI or TCP
    const i64 handle = pending_.open();
    *pending_.find(handle) = {.on_host = work};
    return handle;
}

bool NcclGroup::is_stream_ordered(i64 handle) {
    const Started* const started = pending_.find(handle);
    return (started != nullptr && started->channel != nullptr) || done(handle);
}

i64 NcclGroup::start_after(const Operation& operation, Group& other, i64 handle) {
    auto* const group = dynamic_cast<NcclGroup*>(&other);
    const Started* const previous = group != nullptr ? group->pending_.find(handle) : nullptr;
    if (previous == nullptr || previous->channel == nullptr) {
        return Group::start_after(operation, other, handle);
    }
    world_->require_healthy();
    LM_CHECK(on_device(operation), "{}: expected device memory, got host memory", operation.str());
    return start_on_device(operation, previous->on_device);
}

i64 NcclGroup::start_on_device(const Operation& operation, const ChannelOperation* after) {
    const i64 number = comm::is_message(operation.kind) ? -1 : host_->next_collective_number();
    if (operation.n == 0) return 0;  // handle 0 stands for a complete operation
    if (size() == 1) {
        copy(operation);
        return 0;
    }
    const std::shared_ptr<NcclChannel>& channel = channel_for(operation);
    ChannelOperation* const started = world_->start(channel, operation, number, after);
    const i64 handle = pending_.open();
    *pending_.find(handle) = {.on_host = {}, .channel = channel.get(), .on_device = started};
    return handle;
}

const std::shared_ptr<NcclChannel>& NcclGroup::channel_for(const Operation& operation) const {
    if (comm::is_message(operation.kind)) {
        const auto link = links_.find({operation.peer, operation.kind});
        LM_CHECK(link != links_.end(), "{}: expected a link that connect() formed, got none",
                 operation.str());
        return link->second;
    }
    LM_CHECK(channel_ != nullptr, "{}: expected a channel that connect() formed, got none",
             operation.str());
    return channel_;
}

// Performs a collective of a group that has only one rank.
void NcclGroup::copy(const Operation& operation) {
    if (operation.in == operation.out) return;
    CudaDevice& device = world_->device();
    device.check(cudaMemcpyAsync(operation.out, operation.in,
                                 static_cast<size_t>(operation.bytes()), cudaMemcpyDeviceToDevice,
                                 device.stream()));
}

// For an operation on the device, the CPU does not block. The compute stream waits for the end of
// the operation, so that later work sees the result. The operation's record and its events may be
// reused at once, because cudaStreamWaitEvent() captures the state of the event at the time of the
// call.
void NcclGroup::wait(i64 handle) {
    Started* const started = pending_.find(handle);
    if (started == nullptr) return;
    world_->require_healthy();
    if (started->channel == nullptr) {
        started->on_host.wait();
    } else {
        CudaDevice& device = world_->device();
        device.check(cudaStreamWaitEvent(device.stream(), started->on_device->end));
        const std::lock_guard lock(world_->mutex());
        started->channel->release(*started->on_device);
    }
    pending_.close(handle);
}

bool NcclGroup::done(i64 handle) {
    Started* const started = pending_.find(handle);
    if (started == nullptr) return true;
    world_->require_healthy();
    if (started->channel == nullptr) {
        if (!started->on_host.done()) return false;
    } else {
        const std::lock_guard lock(world_->mutex());
        if (!started->channel->done(*started->on_device)) return false;
        started->channel->release(*started->on_device);
    }
    pending_.close(handle);
    return true;
}

// ---- Parts -------------------------------------------------------------------------------------

std::unique_ptr<comm::Group> NcclGroup::make_part(int color, int key, std::string part_name) {
    world_->require_healthy();
    std::shared_ptr<comm::Group> host = host_->split(color, key, part_name);
    return create(world_, std::move(host), std::move(part_name));
}

}  // namespace lm::cuda
