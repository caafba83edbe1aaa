// SPDX-License-Identifier: Apache-2.0
#include "comm/flight_ring.hpp"

#include <fmt/format.h>

#include <bit>
#include <chrono>

namespace lm::comm {
namespace {

using Words = std::array<u64, sizeof(FlightEvent) / sizeof(u64)>;

std::string numbered(const char* phase, i64 number) {
    return number < 0 ? phase : fmt::format("{} {}", phase, number);
}

double seconds(i64 from_ns, i64 to_ns) {
    return static_cast<double>(to_ns - from_ns) * 1e-9;
}

}  // namespace

i64 flight_clock_ns() {
    const auto now = std::chrono::steady_clock::now().time_since_epoch();
    return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

void FlightRing::add(const FlightEvent& event) {
    const u64 index = n_added.fetch_add(1, std::memory_order_relaxed);
    Slot& slot = slots[index % n_events];
    slot.sequence.store(0, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_release);
    const auto words = std::bit_cast<Words>(event);
    for (size_t i = 0; i < words.size(); ++i) {
        slot.words[i].store(words[i], std::memory_order_relaxed);
    }
    slot.sequence.store(index + 1, std::memory_order_release);
}

std::optional<FlightEvent> FlightRing::event(u64 index) const {
    const Slot& slot = slots[index % n_events];
    if (slot.sequence.load(std::memory_order_acquire) != index + 1) return std::nullopt;
    Words words{};
    for (size_t i = 0; i < words.size(); ++i) {
        words[i] = slot.words[i].load(std::memory_order_relaxed);
    }
    std::atomic_thread_fence(std::memory_order_acquire);
    if (slot.sequence.load(std::memory_order_relaxed) != index + 1) return std::nullopt;
    return std::bit_cast<FlightEvent>(words);
}

const char* FlightRing::phase_name(i64 phase) const {
    return phases[static_cast<size_t>(phase) % max_phases].name;
}

std::string FlightRing::describe(const FlightEvent& event) const {
    const char* const group = groups[event.group % max_groups].name;
    switch (event.what) {
        case FlightEvent::What::step:
            return fmt::format("step {}", event.step);
        case FlightEvent::What::phase:
            return numbered(phase_name(event.phase), event.micro_batch);
        case FlightEvent::What::operation:
            return fmt::format("group '{}': {}, {} {}, {} bytes", group, event.operation().str(),
                               is_message(event.kind) ? "message" : "operation", event.number,
                               event.operation().bytes());
        case FlightEvent::What::wait:
            return fmt::format("group '{}': waits", group);
        case FlightEvent::What::end_of_wait:
            return fmt::format("group '{}': continues", group);
    }
    return "";
}

std::string FlightRing::where(i64 now_ns) const {
    std::string text;
    const auto add_part = [&](const std::string& part) {
        if (!text.empty()) text += ", ";
        text += part;
    };
    const i64 step_ns = state.step_ns;
    if (const i64 phase_ns = state.phase_ns; phase_ns > 0) {
        const std::string step = step_ns > 0 ? fmt::format(" of step {}", state.step.load()) : "";
        add_part(fmt::format("{}{} for {:.0f} s",
                             numbered(phase_name(state.phase), state.micro_batch), step,
                             seconds(phase_ns, now_ns)));
    } else if (step_ns > 0) {
        add_part(fmt::format("step {} for {:.0f} s", state.step.load(), seconds(step_ns, now_ns)));
    }
    if (const i64 wait_ns = state.wait_ns; wait_ns > 0) {
        const auto group = static_cast<size_t>(state.wait_group) % max_groups;
        add_part(fmt::format("waiting in group '{}' for {:.0f} s", groups[group].name,
                             seconds(wait_ns, now_ns)));
    }
    if (const auto last = static_cast<u64>(state.last_operation.load()); last > 0) {
        if (const auto found = event(last - 1)) add_part("last started " + describe(*found));
    }
    return text.empty() ? "not started yet" : text;
}

}  // namespace lm::comm
