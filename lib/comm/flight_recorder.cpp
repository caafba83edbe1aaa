// SPDX-License-Identifier: Apache-2.0
#include "comm/flight_recorder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "base/clock.hpp"

namespace lm::comm {
namespace {

std::string numbered(const char* phase, i64 number) {
    return number < 0 ? phase : fmt::format("{} {}", phase, number);
}

template <size_t n>
void put(char (&target)[n], const std::string& text) {
    const size_t length = std::min(text.size(), n - 1);
    std::memcpy(target, text.data(), length);
    target[length] = 0;
}

}  // namespace

double FlightRecorder::now_s() {
    return monotonic_s();
}

FlightRecorder::Event& FlightRecorder::add(What what) {
    Event& event = ring_[n_added_++ % n_events];
    event.at_s = now_s();
    event.what = what;
    return event;
}

void FlightRecorder::step(i64 number) {
    const std::lock_guard lock(mutex_);
    Event& event = add(What::step);
    event.number = number;
    step_ = event;
}

void FlightRecorder::enter(const char* phase, i64 number) {
    const std::lock_guard lock(mutex_);
    Event& event = add(What::phase);
    event.phase = phase;
    event.number = number;
    phase_ = event;
}

void FlightRecorder::started(const std::string& group, const Operation& operation, i64 number) {
    const std::lock_guard lock(mutex_);
    Event& event = add(What::operation);
    put(event.group, group);
    event.operation = operation;
    event.number = number;
    operation_ = event;
}

void FlightRecorder::waiting(const std::string& group) {
    const std::lock_guard lock(mutex_);
    Event& event = add(What::wait);
    put(event.group, group);
    wait_ = event;
}

void FlightRecorder::waited(const std::string& group) {
    const std::lock_guard lock(mutex_);
    put(add(What::end_of_wait).group, group);
    wait_.at_s = 0;
}

std::string FlightRecorder::describe(const Event& event) {
    switch (event.what) {
        case What::step:
            return fmt::format("step {}", event.number);
        case What::phase:
            return numbered(event.phase, event.number);
        case What::operation:
            return fmt::format("group '{}': {}, {} {}, {} bytes", event.group,
                               event.operation.str(),
                               is_message(event.operation.kind) ? "message" : "operation",
                               event.number, event.operation.bytes());
        case What::wait:
            return fmt::format("group '{}': waits", event.group);
        case What::end_of_wait:
            return fmt::format("group '{}': continues", event.group);
    }
    return "";
}

std::string FlightRecorder::where() const {
    const std::lock_guard lock(mutex_);
    const double now = now_s();
    std::string text;
    const auto add_part = [&](const std::string& part) {
        if (!text.empty()) text += ", ";
        text += part;
    };
    if (phase_.at_s > 0) {
        const std::string step = step_.at_s > 0 ? fmt::format(" of step {}", step_.number) : "";
        add_part(fmt::format("{}{} for {:.0f} s", numbered(phase_.phase, phase_.number), step,
                             now - phase_.at_s));
    } else if (step_.at_s > 0) {
        add_part(fmt::format("step {} for {:.0f} s", step_.number, now - step_.at_s));
    }
    if (wait_.at_s > 0) {
        add_part(fmt::format("waiting in group '{}' for {:.0f} s", wait_.group, now - wait_.at_s));
    }
    if (operation_.at_s > 0) add_part("last started " + describe(operation_));
    return text.empty() ? "not started yet" : text;
}

std::vector<std::string> FlightRecorder::events() const {
    const std::lock_guard lock(mutex_);
    const double now = now_s();
    std::vector<std::string> lines;
    for (size_t i = n_added_ > n_events ? n_added_ - n_events : 0; i < n_added_; ++i) {
        const Event& event = ring_[i % n_events];
        lines.push_back(fmt::format("{:.3f} s ago: {}", now - event.at_s, describe(event)));
    }
    return lines;
}

double FlightRecorder::last_event_s() const {
    const std::lock_guard lock(mutex_);
    return n_added_ == 0 ? created_s_ : ring_[(n_added_ - 1) % n_events].at_s;
}

}  // namespace lm::comm
