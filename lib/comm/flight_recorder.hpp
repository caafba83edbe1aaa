// SPDX-License-Identifier: Apache-2.0
// What a rank does and did last, for the moment when something hangs: the trainer tells its phases,
// the groups their operations, into a ring of the last events that allocates nothing. Any thread
// may read it at any time.
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

    void step(i64 number);  // a training step begins
    // A phase begins and the former ends: "forward" of a micro-batch, "optimizer", "save". `phase`
    // must live as long as this object: a literal.
    void enter(const char* phase, i64 number = -1);
    // What groups record by themselves (Group::record_to).
    void started(const std::string& group, const Operation& operation, i64 number);
    void waiting(const std::string& group);
    void waited(const std::string& group);

    // "forward 3 of step 12 for 61 s, waiting in group 'tensor' for 60 s, which last started
    // all_reduce(sum, 100 x fp32), operation 1234"; "not started yet".
    std::string where() const;
    // The last events, oldest first, each a line with how long ago it was.
    std::vector<std::string> events() const;
    double last_event_s() const;  // monotonic_s() of it; of the construction when there is none

  private:
    enum class What : u8 { step, phase, operation, wait, end_of_wait };
    struct Event {
        double at_s = 0;
        What what = What::step;
        const char* phase = nullptr;
        i64 number = 0;
        Operation operation;
        char group[24] = "";
    };

    Event& add(What what);
    static std::string describe(const Event& event);

    mutable std::mutex mutex_;
    std::array<Event, n_events> ring_;
    size_t n_added_ = 0;
    double created_s_ = now_s();
    Event step_, phase_, operation_, wait_;  // the latest of each; at_s 0: none
    static double now_s();
};

}  // namespace lm::comm
