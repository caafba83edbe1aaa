// SPDX-License-Identifier: Apache-2.0
// Dumps of flight recorders: JSON Lines, one file for each rank, rank-N.jsonl in the directory of
// the run. The first line has the `kind` "rank" and contains the state of the rank. The next lines
// have the kind "group"; each names a group and states the numbers of operations that the rank has
// started in the group. The last lines have the kind "event", oldest first.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/flight_recorder.hpp"

namespace lm::comm {

struct RankDump {
    struct GroupCounts {
        u64 id = 0;
        std::string name;
        int member = 0;
        int size = 1;
        i64 n_collectives = 0;  // collectives that this rank has started
        i64 n_messages = 0;
    };
    struct Event {
        double at_s = 0;   // Unix time
        std::string what;  // "step", "phase", "operation", "wait", "end of wait"
        i64 step = 0;
        std::string phase;  // "backward 3"
        u64 group = 0;
        i64 number = 0;
        bool message = false;
        int peer = -1;          // member
        std::string operation;  // "all_reduce(sum, 100 x fp32)"
        i64 bytes = 0;
    };

    int rank = 0;
    int size = 1;
    i64 run = 0;
    int written_by = 0;  // the rank that wrote this dump; may be another rank
    std::string host, device, where;
    i64 pid = 0;
    double at_s = 0;       // Unix time of the dump
    bool stopped = false;  // a signal or the cgroup freezer had stopped the process
    bool waits = false;
    u64 wait_group = 0;
    i64 wait_number = 0;  // number of the collective, or -1 minus the number of a message
    double wait_s = 0;    // Unix time at which the wait began
    std::vector<GroupCounts> groups;
    std::vector<Event> events;  // oldest first
};

RankDump dump_of(const FlightRing& ring, int written_by);
std::string dump_text(const RankDump& dump);
// Returns the dump in the file `path`. Throws Error(failure) when the file is not a dump.
RankDump read_dump(const std::string& path);
std::string dump_path(const std::string& directory, int rank);

// Writes this rank's dump to recorder.dump_directory(), and after 0.7 s the dumps of the ranks of
// this host that have not written their own dumps, for example because they are stopped. Returns
// the name of this rank's file. Returns an empty text when no directory is set. Warns and returns
// an empty text when a file cannot be written.
std::string write_dumps(FlightRecorder& recorder);

// Returns the state of a rank that does not answer. Reads it from the memory of the rank if the
// rank is on this host, otherwise from the dump that a rank of its host wrote. Returns an empty
// text when the state is not known.
std::string state_of_silent_rank(const FlightRecorder& recorder, int rank);

// Returns "rank 2 on n1 does not answer, its recorder shows ...; ..." for the other ranks of this
// host whose processes are stopped; an empty text when none is stopped.
std::string stopped_ranks_on_host(const FlightRecorder& recorder);

// Blocks until this rank has written more than `n_dumps_before` dumps, at most 2 s, and then
// another 0.5 s, in which other ranks write their dumps. Returns at once when dumps have no
// directory.
void finish_dump(const FlightRecorder& recorder, i64 n_dumps_before);

}  // namespace lm::comm
