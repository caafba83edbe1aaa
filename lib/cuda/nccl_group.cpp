// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl_group.hpp"

#include <exception>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"

namespace lm::cuda {

using comm::Kind;
using comm::Operation;

namespace {

constexpr double end_s = 30;  // for a communicator's orderly end

}  // namespace

NcclGroup::NcclGroup(std::shared_ptr<NcclWorld> world, std::shared_ptr<comm::Group> host,
                     std::shared_ptr<Channel> channel, std::string name)
    : Group(std::move(name), host->rank(), host->size()),
      world_(std::move(world)),
      host_(std::move(host)),
      channel_(std::move(channel)),
      exceptions_at_start_(std::uncaught_exceptions()) {
    host_->watch(nullptr);  // this group tells of both
    if (size() > 1) ids_ = host_->split(0, rank(), this->name());
}

NcclGroup::~NcclGroup() {
    bool failing = world_->failed() || std::uncaught_exceptions() > exceptions_at_start_;
    try {
        if (!failing) end();
    } catch (const std::exception& error) {
        warn("{}", error.what());
        failing = true;
    }
    if (failing) world_->fail("the rank fails");
}

// Each step on all channels before the next, since no two ranks need have theirs in the same order.
void NcclGroup::end() {
    std::vector<std::shared_ptr<Channel>> channels;
    if (channel_) channels.push_back(channel_);
    for (const auto& [key, link] : links_) channels.push_back(link);
    for (const auto& channel : channels) {
        world_->until([&] { return channel->idle(); });
    }
    {
        const std::lock_guard lock(world_->mutex());
        for (const auto& channel : channels) channel->begin_end();
    }
    const Stopwatch watch;
    for (const auto& channel : channels) {
        world_->until([&] { return channel->ended() || watch.elapsed_s() > end_s; });
    }
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
    LM_CHECK(both, "an operation between host and device memory");
    return here;
}

i64 NcclGroup::start(const Operation& operation) {
    world_->require_whole();
    if (on_device(operation)) return start_on_device(operation);
    const comm::Work work = hand_on(*host_, operation);
    const i64 ticket = under_way_.open();
    *under_way_.find(ticket) = {.on_host = work};
    return ticket;
}

i64 NcclGroup::start_on_device(const Operation& operation) {
    const bool message = comm::is_message(operation.kind);
    const i64 number = message ? -1 : host_->count_collective();
    if (operation.n == 0) return 0;
    if (!channel_) {
        copy(operation);
        return 0;
    }
    const std::lock_guard lock(world_->mutex());
    Channel& channel = message ? channel_of_message(operation) : *channel_;
    const i64 ticket = under_way_.open();
    *under_way_.find(ticket) = {.channel = &channel, .flight = channel.start(operation, number)};
    return ticket;
}

// A group of one rank.
void NcclGroup::copy(const Operation& operation) {
    if (operation.in == operation.out) return;
    CudaDevice& device = world_->device();
    device.check(cudaMemcpyAsync(operation.out, operation.in,
                                 static_cast<size_t>(operation.bytes()), cudaMemcpyDeviceToDevice,
                                 device.stream()));
}

Channel& NcclGroup::channel_of_message(const Operation& operation) {
    std::shared_ptr<Channel>& link = links_[{operation.peer, operation.kind}];
    if (link) return *link;
    const bool sends = operation.kind == Kind::send;
    link = std::make_shared<Channel>(world_->device(), name(), ids_, sends ? 0 : 1, 2);
    world_->add(link);
    auto id = std::make_unique<ncclUniqueId>();
    if (sends && ncclGetUniqueId(id.get()) != ncclSuccess) {
        run_error(fmt::format("group '{}'", name()), "ncclGetUniqueId: {}",
                  ncclGetLastError(nullptr));
    }
    const device::View view{id.get(), DType::uint8, {static_cast<i64>(sizeof *id)}};
    link->join_after(
        sends ? ids_->start_send(view, operation.peer) : ids_->start_receive(view, operation.peer),
        std::move(id));
    return *link;
}

void NcclGroup::wait(i64 ticket) {
    Started* const started = under_way_.find(ticket);
    if (started == nullptr) return;
    world_->require_whole();
    if (started->channel == nullptr) {
        started->on_host.wait();
    } else {
        world_->until([&] {
            started->channel->advance();
            return started->flight->recorded;
        });
        CudaDevice& device = world_->device();
        device.check(cudaStreamWaitEvent(device.stream(), started->flight->end));
        const std::lock_guard lock(world_->mutex());
        started->channel->release(*started->flight);
    }
    under_way_.close(ticket);
}

bool NcclGroup::done(i64 ticket) {
    Started* const started = under_way_.find(ticket);
    if (started == nullptr) return true;
    world_->require_whole();
    if (started->channel == nullptr) {
        if (!started->on_host.done()) return false;
    } else {
        const std::lock_guard lock(world_->mutex());
        started->channel->advance();
        if (!started->channel->done(*started->flight)) return false;
        started->channel->release(*started->flight);
    }
    under_way_.close(ticket);
    return true;
}

// ---- Parts -------------------------------------------------------------------------------------

std::unique_ptr<comm::Group> NcclGroup::make_part(int color, int key, std::string part_name) {
    world_->require_whole();
    std::shared_ptr<comm::Group> host = host_->split(color, key, part_name);  // all have come
    std::shared_ptr<Channel> part;
    if (channel_) {
        world_->until([&] {
            channel_->advance();
            return !channel_->advances() && channel_->settled();
        });
        part = std::make_shared<Channel>(world_->device(), part_name, host, host->rank(),
                                         host->size());
        {
            const std::lock_guard lock(world_->mutex());
            world_->add(part);
            part->join_part(*channel_, color < 0 ? NCCL_SPLIT_NOCOLOR : color, key);
        }
        const Stopwatch watch;
        world_->until([&] {
            if (part->formed()) return true;
            if (watch.elapsed_s() < world_->timeout_s()) return false;
            run_error(
                fmt::format("group '{}'", part_name),
                "NCCL did not form its communicator within {:.0f} s: NCCL_DEBUG=INFO tells more",
                world_->timeout_s());
        });
        if (color < 0) part = nullptr;
    }
    return std::make_unique<NcclGroup>(world_, std::move(host), std::move(part),
                                       std::move(part_name));
}

}  // namespace lm::cuda
