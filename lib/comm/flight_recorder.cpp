// SPDX-License-Identifier: Apache-2.0
#include "comm/flight_recorder.hpp"

#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <new>

#include "base/machine.hpp"
#include "comm/flight_memory.hpp"

namespace lm::comm {
namespace {

template <size_t n>
void put(char (&target)[n], const std::string& text) {
    const size_t length = std::min(text.size(), n - 1);
    std::memcpy(target, text.data(), length);
    target[length] = 0;
}

}  // namespace

FlightRecorder::FlightRecorder() : FlightRecorder({new FlightRing(), Free{}}) {}

FlightRecorder::FlightRecorder(std::unique_ptr<FlightRing, Free> ring) : ring_(std::move(ring)) {
    ring_->pid = getpid();
    ring_->created_ns = flight_clock_ns();
    put(ring_->host, host_name());
    ring_->magic = FlightRing::expected_magic;
}

FlightRecorder FlightRecorder::shared() {
    void* const memory = map_new_ring();
    if (memory == nullptr) return {};
    return FlightRecorder({new (memory) FlightRing(), Free{true}});
}

void FlightRecorder::Free::operator()(FlightRing* ring) const {
    if (mapped) {
        munmap(ring, sizeof(FlightRing));
    } else {
        delete ring;
    }
}

FlightEvent FlightRecorder::event(FlightEvent::What what) const {
    FlightEvent event;
    event.at_ns = flight_clock_ns();
    event.what = what;
    event.step = ring_->state.step.load(std::memory_order_relaxed);
    event.phase = static_cast<u8>(ring_->state.phase.load(std::memory_order_relaxed));
    event.micro_batch = static_cast<i32>(ring_->state.micro_batch.load(std::memory_order_relaxed));
    return event;
}

void FlightRecorder::step(i64 number) {
    ring_->state.step.store(number, std::memory_order_relaxed);
    const FlightEvent step = event(FlightEvent::What::step);
    ring_->state.step_ns.store(step.at_ns, std::memory_order_relaxed);
    ring_->add(step);
}

// The address of a phase's text identifies the phase, because texts are literals. The search is
// linear, because a run has about ten phases.
u8 FlightRecorder::phase_index(const char* phase) {
    const auto find = [&](size_t n) {
        size_t i = 0;
        while (i < n && phase_names_[i].load(std::memory_order_relaxed) != phase) ++i;
        return i;
    };
    auto n = static_cast<size_t>(ring_->n_phases.load(std::memory_order_acquire));
    if (const size_t i = find(n); i < n) return static_cast<u8>(i);
    const std::lock_guard lock(names_);
    n = static_cast<size_t>(ring_->n_phases.load());
    if (const size_t i = find(n); i < n) return static_cast<u8>(i);
    if (n == FlightRing::max_phases) return FlightRing::max_phases - 1;
    put(ring_->phases[n].name, phase);
    phase_names_[n].store(phase, std::memory_order_relaxed);
    ring_->n_phases.store(static_cast<i64>(n) + 1, std::memory_order_release);
    return static_cast<u8>(n);
}

void FlightRecorder::enter(const char* phase, i64 number) {
    FlightRing::State& state = ring_->state;
    state.phase.store(phase_index(phase), std::memory_order_relaxed);
    state.micro_batch.store(number, std::memory_order_relaxed);
    const FlightEvent entered = event(FlightEvent::What::phase);
    state.phase_ns.store(entered.at_ns, std::memory_order_relaxed);
    ring_->add(entered);
}

u8 FlightRecorder::add_group(u64 id, const std::string& name, int member, int size) {
    const std::lock_guard lock(names_);
    const auto n = static_cast<size_t>(ring_->n_groups.load());
    for (size_t i = 0; i < n; ++i) {
        if (ring_->groups[i].id == id && id != 0) return static_cast<u8>(i);
    }
    if (n == FlightRing::max_groups) return FlightRing::max_groups - 1;
    FlightRing::GroupState& group = ring_->groups[n];
    const bool last = n == FlightRing::max_groups - 1;
    group.id = last ? 0 : id;
    put(group.name, last ? "other groups" : name);
    group.member = member;
    group.size = size;
    ring_->n_groups.store(static_cast<i64>(n) + 1, std::memory_order_release);
    return static_cast<u8>(n);
}

void FlightRecorder::started(u8 group, const Operation& operation, i64 number) {
    FlightEvent started = event(FlightEvent::What::operation);
    started.group = group;
    started.kind = operation.kind;
    started.reduction = operation.reduction;
    started.dtype = operation.dtype;
    started.n = operation.n;
    started.peer = operation.peer;
    started.number = number;
    FlightRing::GroupState& counted = ring_->groups[group];
    (is_message(operation.kind) ? counted.n_messages : counted.n_collectives)
        .store(number + 1, std::memory_order_relaxed);
    ring_->add(started);
    ring_->state.last_operation.store(static_cast<i64>(ring_->n_added.load()),
                                      std::memory_order_relaxed);
}

void FlightRecorder::waiting(u8 group, i64 number) {
    FlightEvent wait = event(FlightEvent::What::wait);
    wait.group = group;
    wait.number = number;
    FlightRing::State& state = ring_->state;
    state.wait_group.store(group, std::memory_order_relaxed);
    state.wait_number.store(number, std::memory_order_relaxed);
    state.wait_ns.store(wait.at_ns, std::memory_order_relaxed);
    ring_->add(wait);
}

void FlightRecorder::waited(u8 group) {
    FlightEvent end = event(FlightEvent::What::end_of_wait);
    end.group = group;
    ring_->state.wait_ns.store(0, std::memory_order_relaxed);
    ring_->add(end);
}

std::vector<std::string> FlightRecorder::events() const {
    const i64 now = flight_clock_ns();
    const u64 n = ring_->n_added;
    std::vector<std::string> lines;
    for (u64 i = n > n_events ? n - n_events : 0; i < n; ++i) {
        const std::optional<FlightEvent> event = ring_->event(i);
        if (!event) continue;
        lines.push_back(fmt::format("{:.3f} s ago: {}",
                                    static_cast<double>(now - event->at_ns) * 1e-9,
                                    ring_->describe(*event)));
    }
    return lines;
}

double FlightRecorder::last_event_s() const {
    const u64 n = ring_->n_added;
    const std::optional<FlightEvent> last = n == 0 ? std::nullopt : ring_->event(n - 1);
    if (n > 0 && !last) return static_cast<double>(flight_clock_ns()) * 1e-9;  // being written now
    return static_cast<double>(last ? last->at_ns : ring_->created_ns) * 1e-9;
}

void FlightRecorder::identify(int rank, int size, i64 run) {
    ring_->rank = rank;
    ring_->size = size;
    ring_->run = run;
}

void FlightRecorder::set_device(const std::string& device) {
    put(ring_->device, device);
}

}  // namespace lm::comm
