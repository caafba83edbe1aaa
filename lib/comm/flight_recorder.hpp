// SPDX-License-Identifier: Apache-2.0
// Records a rank's current phase and last events, for the report on a rank that hangs (like
// PyTorch's FlightRecorder). The trainer records steps and phases; groups record operations. Events
// are stored in a ring of fixed size, so recording allocates nothing. Any thread may call any
// member.
#pragma once

#include <array>
#include <mutex>
#include <string>
#include <vector>

#include "comm/operation.hpp"

namespace lm::comm {

class FlightRecorder {
  public:
    static constexpr size_t n_events = 512;

    void step(i64 number);  // training step `number` begins
    // Records that a phase begins, which ends the previous phase: "forward" of micro-batch
    // `number`, "optimizer", "save". `phase` must live as long as this object: pass a literal.
    void enter(const char* phase, i64 number = -1);
    // Groups call these (Group::record_to()): when an operation was started, and when the rank's
    // thread begins and ends to wait for one.
    void started(const std::string& group, const Operation& operation, i64 number);
    void waiting(const std::string& group);
    void waited(const std::string& group);

    // Returns what the rank does now: "forward 3 of step 12 for 61 s, waiting in group 'tensor' for
    // 60 s, last started group 'tensor': all_reduce(sum, 100 x fp32), operation 1234, 400 bytes".
    // Before the first event: "not started yet".
    std::string where() const;
    // Returns the last events, oldest first, one line each, with their age.
    std::vector<std::string> events() const;
    // Returns the time of the last event, in monotonic_s(). Before the first event: the time of
    // construction.
    double last_event_s() const;

  private:
    enum class What : u8 { step, phase, operation, wait, end_of_wait };
    struct Event {
        double at_s = 0;
        What what = What::step;
        const char* phase = nullptr;
        i64 number = 0;       // step, micro-batch or operation
        Operation operation;  // its pointers are not read: the memory may be freed
        char group[24] = "";  // shortened; a string would allocate
    };

    Event& add(What what);
    static std::string describe(const Event& event);

    mutable std::mutex mutex_;  // guards all members that follow
    std::array<Event, n_events> ring_;
    size_t n_added_ = 0;
    double created_s_ = now_s();
    Event step_, phase_, operation_, wait_;  // the last event of each kind; at_s 0: none
    static double now_s();
};

}  // namespace lm::comm
