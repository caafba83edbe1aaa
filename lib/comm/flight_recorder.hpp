// SPDX-License-Identifier: Apache-2.0
// Records a rank's current phase and last events, for the report on a rank that hangs (like
// PyTorch's FlightRecorder). The trainer records steps and phases; groups record operations. Events
// are stored in a ring of fixed size, so recording allocates nothing. Recording takes a lock only
// when a phase or group is new. Any thread may call any member except
// set_dump_directory().
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "comm/flight_ring.hpp"
#include "comm/operation.hpp"

namespace lm::comm {

class FlightRecorder {
  public:
    static constexpr size_t n_events = FlightRing::n_events;

    FlightRecorder();
    // Returns a recorder whose memory other processes of the same user on this host can read, also
    // while this process is stopped: an anonymous file (memfd_create(2)), which the system frees
    // when the process ends. Uses private memory when the system refuses the file.
    static FlightRecorder shared();

    void step(i64 number);  // training step `number` begins
    // Records that a phase begins, such as "forward" of micro-batch `number`, "optimizer" or
    // "save". The previous phase ends. `phase` must live as long as this object, so pass a literal.
    void enter(const char* phase, i64 number = -1);
    // Groups call add_group(), started(), waiting() and waited() after Group::record_to().
    // add_group() returns the index that the other three functions expect as `group`. `id` is equal
    // on all members.
    u8 add_group(u64 id, const std::string& name, int member, int size);
    void started(u8 group, const Operation& operation, i64 number);
    // Record that the rank's thread begins (waiting) or ends (waited) a wait. `number` is the
    // number of a collective, or -1 - n for message n.
    void waiting(u8 group, i64 number);
    void waited(u8 group);

    // Returns a text that states what the rank does now: "forward 3 of step 12 for 61 s, waiting in
    // group 'tensor' for 60 s, last started group 'tensor': all_reduce(sum, 100 x fp32), operation
    // 1234, 400 bytes". Before the first event: "not started yet".
    std::string where() const { return ring_->where(flight_clock_ns()); }
    // Returns the last events, oldest first, one line each, with their age.
    std::vector<std::string> events() const;
    // Returns the time of the last event, in monotonic_s(). Before the first event: the time of
    // construction.
    double last_event_s() const;

    // Sets the number of this rank and the number of all ranks. `run` is equal on all ranks of the
    // run and differs between runs.
    void identify(int rank, int size, i64 run);
    void set_device(const std::string& device);

    // Functions for dumps (comm/flight_dump.hpp), which a thread of this rank writes on request
    // (comm/watchdog). With an empty `directory` no dump is written. Call set_dump_directory()
    // before other threads run.
    void set_dump_directory(std::string directory) { dump_directory_ = std::move(directory); }
    const std::string& dump_directory() const { return dump_directory_; }
    void request_dump() { dump_requested_ = true; }
    bool consume_dump_request() { return dump_requested_.exchange(false); }
    void count_dump() { ++n_dumps_; }
    i64 n_dumps() const { return n_dumps_; }

    const FlightRing& ring() const { return *ring_; }

  private:
    struct Free {
        bool mapped = false;
        void operator()(FlightRing* ring) const;
    };
    explicit FlightRecorder(std::unique_ptr<FlightRing, Free> ring);
    FlightEvent event(FlightEvent::What what) const;
    u8 phase_index(const char* phase);

    std::unique_ptr<FlightRing, Free> ring_;
    std::array<std::atomic<const char*>, FlightRing::max_phases> phase_names_{};
    std::mutex names_;  // guards additions to phases and groups
    std::string dump_directory_;
    std::atomic<bool> dump_requested_ = false;
    std::atomic<i64> n_dumps_ = 0;
};

}  // namespace lm::comm
