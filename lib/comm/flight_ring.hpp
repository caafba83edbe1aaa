// SPDX-License-Identifier: Apache-2.0
// The memory of a flight recorder: a ring of events, the names that the events refer to, and the
// rank's current state. The memory contains no pointers, so that another process can map and read
// it while this process is stopped.
//
// Any thread may write and read at any time, without a lock. A writer reserves the next slot with
// one atomic addition, sets the slot's sequence number to 0, stores the event, then stores the
// sequence number. A reader copies the event, and drops the copy unless the slot has the expected
// sequence number both before and after the copy (a seqlock; H. Boehm, "Can seqlocks get along with
// programming language memory models?", MSPC 2012).
#pragma once

#include <array>
#include <atomic>
#include <optional>
#include <string>

#include "comm/operation.hpp"

namespace lm::comm {

struct FlightEvent {
    enum class What : u8 { step, phase, operation, wait, end_of_wait };

    i64 at_ns = 0;         // monotonic clock of the host
    i64 step = 0;          // the training step; 0: before the first
    i64 number = 0;        // number of the operation; collectives and messages have separate counts
    i64 n = 0;             // elements of the operation
    i32 peer = -1;         // member of the group; -1: none
    i32 micro_batch = -1;  // micro-batch of the phase; -1: none
    What what = What::step;
    OperationKind kind = OperationKind::barrier;
    Reduction reduction = Reduction::sum;
    DType dtype = DType::uint8;
    u8 phase = 0;  // index in FlightRing::phases
    u8 group = 0;  // index in FlightRing::groups
    u8 unused[2] = {};

    Operation operation() const { return {kind, reduction, dtype, n, peer}; }
};
static_assert(sizeof(FlightEvent) == 48);

struct FlightRing {
    static constexpr size_t n_events = 1024;
    static constexpr size_t max_phases = 64;
    static constexpr size_t max_groups = 64;
    static constexpr u64 expected_magic = 0x31676e697274'6c66;  // "fltring1", little-endian

    struct Phase {
        char name[32];
    };
    struct GroupState {
        u64 id;         // equal on all members, differs between groups
        char name[24];  // shortened name
        i32 member;     // number of this rank among the members
        i32 size;
        std::atomic<i64> n_collectives;  // collectives that this rank has started
        std::atomic<i64> n_messages;
    };
    // The current state. It is stored separately from the events, because the ring may have
    // overwritten the event that began the state. A time of 0: the event has not happened yet.
    struct State {
        std::atomic<i64> step, step_ns;
        std::atomic<i64> phase, micro_batch, phase_ns;
        std::atomic<i64> wait_group, wait_number, wait_ns;  // wait_number -1 - n: message n
        std::atomic<i64> last_operation;                    // index of the event + 1; 0: none
    };
    struct Slot {
        std::atomic<u64> sequence;  // index of the event + 1; 0: unused, or being written
        std::array<std::atomic<u64>, sizeof(FlightEvent) / sizeof(u64)> words;
        u64 unused;
    };

    std::atomic<u64> magic;
    std::atomic<i64> run;  // equal on all ranks of a run; 0: not known yet
    i64 pid;
    i64 created_ns;
    i32 rank;
    i32 size;
    char host[64];
    char device[64];
    std::atomic<i64> n_phases, n_groups;
    std::array<Phase, max_phases> phases;
    std::array<GroupState, max_groups>
        groups;  // the last entry stands for all groups that have no entry of their own
    State state;
    std::atomic<u64> n_added;
    std::array<Slot, n_events> slots;

    void add(const FlightEvent& event);
    // Returns event `index`, counted from 0 over the whole run; nullopt when it was overwritten or
    // is being written.
    std::optional<FlightEvent> event(u64 index) const;
    const char* phase_name(i64 phase) const;
    // Returns "group 'tensor': all_reduce(sum, 100 x fp32), operation 1234, 400 bytes".
    std::string describe(const FlightEvent& event) const;
    // Returns a text that states what the rank does at `now_ns`; see FlightRecorder::where().
    std::string where(i64 now_ns) const;
};

// Returns the monotonic clock, which all processes of a host share.
i64 flight_clock_ns();

}  // namespace lm::comm
