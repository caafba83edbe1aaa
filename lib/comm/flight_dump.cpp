// SPDX-License-Identifier: Apache-2.0
#include "comm/flight_dump.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "comm/flight_memory.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/lines.hpp"

namespace lm::comm {
namespace {

// After this time, this rank writes the dumps of ranks of its host that have not written their own.
constexpr auto dump_time = std::chrono::milliseconds(700);
// A dump that is older than this, in seconds, belongs to an earlier request.
constexpr double recent_s = 30;
// When a job ends, its stopped ranks continue for a moment before they are killed. A rank counts as
// running again only after it has worked for this time, in seconds.
constexpr double continued_s = 2;
// All ranks write the dumps for one request within this time, in seconds.
constexpr double request_s = 5;

const char* name_of(FlightEvent::What what) {
    constexpr const char* names[] = {"step", "phase", "operation", "wait", "end of wait"};
    return names[static_cast<size_t>(what) % std::size(names)];
}

std::string phase_text(const FlightRing& ring, i64 phase, i64 micro_batch) {
    const std::string name = ring.phase_name(phase);
    return micro_batch < 0 ? name : fmt::format("{} {}", name, micro_batch);
}

io::OrderedJson json_of(const RankDump& dump) {
    io::OrderedJson json;
    json["kind"] = "rank";
    json["version"] = 1;
    json["run"] = dump.run;
    json["rank"] = dump.rank;
    json["ranks"] = dump.size;
    json["host"] = dump.host;
    json["device"] = dump.device;
    json["pid"] = dump.pid;
    json["time"] = dump.at_s;
    json["written_by"] = dump.written_by;
    json["where"] = dump.where;
    if (dump.stopped) json["stopped"] = true;
    if (dump.waits) {
        json["waits"] = {
            {"group", dump.wait_group}, {"number", dump.wait_number}, {"since", dump.wait_s}};
    }
    return json;
}

io::OrderedJson json_of(const RankDump::GroupCounts& group) {
    return {{"kind", "group"},
            {"id", group.id},
            {"name", group.name},
            {"member", group.member},
            {"size", group.size},
            {"collectives", group.n_collectives},
            {"messages", group.n_messages}};
}

io::OrderedJson json_of(const RankDump::Event& event) {
    io::OrderedJson json = {{"kind", "event"},
                            {"time", event.at_s},
                            {"event", event.what},
                            {"step", event.step},
                            {"phase", event.phase}};
    if (event.what == "step" || event.what == "phase") return json;
    json["group"] = event.group;
    if (event.what == "end of wait") return json;
    json["number"] = event.number;
    if (event.what == "wait") return json;
    json["message"] = event.message;
    json["peer"] = event.peer;
    json["operation"] = event.operation;
    json["bytes"] = event.bytes;
    return json;
}

RankDump::GroupCounts group_of(const io::Json& json, const std::string& path) {
    return {.id = io::json_get<u64>(json, "id", path),
            .name = io::json_get<std::string>(json, "name", path),
            .member = io::json_get<int>(json, "member", path),
            .size = io::json_get<int>(json, "size", path),
            .n_collectives = io::json_get<i64>(json, "collectives", path),
            .n_messages = io::json_get<i64>(json, "messages", path)};
}

RankDump::Event event_of(const io::Json& json, const std::string& path) {
    return {.at_s = io::json_get<double>(json, "time", path),
            .what = io::json_get<std::string>(json, "event", path),
            .step = io::json_get<i64>(json, "step", path),
            .phase = io::json_get<std::string>(json, "phase", path),
            .group = io::json_get_or<u64>(json, "group", 0, path),
            .number = io::json_get_or<i64>(json, "number", 0, path),
            .message = io::json_get_or<bool>(json, "message", false, path),
            .peer = io::json_get_or<int>(json, "peer", -1, path),
            .operation = io::json_get_or<std::string>(json, "operation", "", path),
            .bytes = io::json_get_or<i64>(json, "bytes", 0, path)};
}

void set_rank(RankDump& dump, const io::Json& json, const std::string& path) {
    dump.run = io::json_get<i64>(json, "run", path);
    dump.rank = io::json_get<int>(json, "rank", path);
    dump.size = io::json_get<int>(json, "ranks", path);
    constexpr int most_ranks = 10'000'000;
    if (dump.rank < 0 || dump.rank >= dump.size || dump.size > most_ranks) {
        run_error(path, "corrupt: states rank {} of {} ranks", dump.rank, dump.size);
    }
    dump.host = io::json_get<std::string>(json, "host", path);
    dump.device = io::json_get<std::string>(json, "device", path);
    dump.pid = io::json_get<i64>(json, "pid", path);
    dump.at_s = io::json_get<double>(json, "time", path);
    dump.written_by = io::json_get<int>(json, "written_by", path);
    dump.where = io::json_get<std::string>(json, "where", path);
    dump.stopped = io::json_get_or<bool>(json, "stopped", false, path);
    dump.waits = json.contains("waits");
    if (!dump.waits) return;
    const io::Json& waits = json["waits"];
    dump.wait_group = io::json_get<u64>(waits, "group", path);
    dump.wait_number = io::json_get<i64>(waits, "number", path);
    dump.wait_s = io::json_get<double>(waits, "since", path);
}

// Returns whether a signal or the freezer has stopped the process (proc(5), field state of stat).
bool is_stopped(i64 pid) {
    try {
        const std::string stat = io::read_file(fmt::format("/proc/{}/stat", pid));
        const size_t state = stat.rfind(')') + 2;
        return state < stat.size() &&
               std::string_view("TtD").find(stat[state]) != std::string::npos;
    } catch (const Error&) {
        return false;  // the process has ended
    }
}

void write_dump(const FlightRecorder& recorder, const FlightRing& ring) {
    RankDump dump = dump_of(ring, recorder.ring().rank);
    dump.stopped = is_stopped(ring.pid);
    io::write_file(dump_path(recorder.dump_directory(), ring.rank), dump_text(dump),
                   io::Overwrite::yes);
}

// Returns the dump of a rank in `directory` when it is at most `age_s` old.
std::optional<RankDump> find_recent_dump(const std::string& directory, int rank, double age_s) {
    const std::string path = dump_path(directory, rank);
    if (!io::exists(path)) return std::nullopt;
    RankDump dump = read_dump(path);
    if (dump.at_s < unix_time_s() - age_s) return std::nullopt;
    return dump;
}

// Returns the age, in seconds, of the oldest event in `ring` that is newer than `dump`; 0 when
// `ring` has no newer event.
double progress_since(const RankDump& dump, const FlightRing& ring) {
    const i64 now_ns = flight_clock_ns();
    const auto dump_ns = now_ns - static_cast<i64>((unix_time_s() - dump.at_s) * 1e9);
    const u64 n = ring.n_added;
    double longest_s = 0;
    for (u64 i = n > FlightRing::n_events ? n - FlightRing::n_events : 0; i < n; ++i) {
        const std::optional<FlightEvent> event = ring.event(i);
        if (!event || event->at_ns <= dump_ns) continue;
        longest_s = std::max(longest_s, static_cast<double>(now_ns - event->at_ns) * 1e-9);
    }
    return longest_s;
}

// Returns whether another rank wrote a dump of this rank while this rank was stopped, and this rank
// has worked for less than continued_s since then. When a job ends, stopped ranks continue; such a
// rank must not replace the dump that shows where it was stopped.
bool was_dumped_while_stopped(const FlightRecorder& recorder) {
    const FlightRing& own = recorder.ring();
    const auto dump = find_recent_dump(recorder.dump_directory(), own.rank, recent_s);
    return dump && dump->stopped && progress_since(*dump, own) < continued_s;
}

// Returns whether a dump of the present stall exists for the rank of `ring`. That is a dump that
// the rank itself wrote for this request, or a dump after which the rank has worked for less than
// continued_s.
bool is_dumped(const FlightRecorder& recorder, const FlightRing& ring) {
    const auto dump = find_recent_dump(recorder.dump_directory(), ring.rank, recent_s);
    if (!dump) return false;
    if (dump->written_by == ring.rank && dump->at_s > unix_time_s() - request_s) return true;
    return progress_since(*dump, ring) < continued_s;
}

}  // namespace

std::string dump_path(const std::string& directory, int rank) {
    return fmt::format("{}/rank-{}.jsonl", directory, rank);
}

RankDump dump_of(const FlightRing& ring, int written_by) {
    const i64 now_ns = flight_clock_ns();
    const double now_s = unix_time_s();
    const auto unix_s = [&](i64 at_ns) {
        return now_s - static_cast<double>(now_ns - at_ns) * 1e-9;
    };
    const auto id_of = [&](i64 group) {
        return ring.groups[static_cast<size_t>(group) % FlightRing::max_groups].id;
    };
    RankDump dump{.rank = ring.rank,
                  .size = ring.size,
                  .run = ring.run,
                  .written_by = written_by,
                  .host = ring.host,
                  .device = ring.device,
                  .where = ring.where(now_ns),
                  .pid = ring.pid,
                  .at_s = now_s};
    if (const i64 wait_ns = ring.state.wait_ns; wait_ns > 0) {
        dump.waits = true;
        dump.wait_group = id_of(ring.state.wait_group);
        dump.wait_number = ring.state.wait_number;
        dump.wait_s = unix_s(wait_ns);
    }
    for (i64 i = 0; i < ring.n_groups; ++i) {
        const FlightRing::GroupState& group = ring.groups[static_cast<size_t>(i)];
        dump.groups.push_back({group.id, group.name, group.member, group.size, group.n_collectives,
                               group.n_messages});
    }
    const u64 n = ring.n_added;
    for (u64 i = n > FlightRing::n_events ? n - FlightRing::n_events : 0; i < n; ++i) {
        const std::optional<FlightEvent> event = ring.event(i);
        if (!event) continue;
        const bool operation = event->what == FlightEvent::What::operation;
        dump.events.push_back({.at_s = unix_s(event->at_ns),
                               .what = name_of(event->what),
                               .step = event->step,
                               .phase = phase_text(ring, event->phase, event->micro_batch),
                               .group = id_of(event->group),
                               .number = event->number,
                               .message = operation && is_message(event->kind),
                               .peer = event->peer,
                               .operation = operation ? event->operation().str() : "",
                               .bytes = event->operation().bytes()});
    }
    return dump;
}

std::string dump_text(const RankDump& dump) {
    std::string text = io::json_line(json_of(dump));
    for (const RankDump::GroupCounts& group : dump.groups) text += io::json_line(json_of(group));
    for (const RankDump::Event& event : dump.events) text += io::json_line(json_of(event));
    return text;
}

RankDump read_dump(const std::string& path) {
    const std::string text = io::read_file(path);
    RankDump dump;
    bool has_rank = false;
    for (const std::string_view line : io::lines_of(text)) {
        const io::Json json = io::parse_json(line, path);
        const auto kind = io::json_get<std::string>(json, "kind", path);
        if (kind == "rank") set_rank(dump, json, path);
        if (kind == "group") dump.groups.push_back(group_of(json, path));
        if (kind == "event") dump.events.push_back(event_of(json, path));
        has_rank = has_rank || kind == "rank";
    }
    if (!has_rank) {
        run_error(path, "no line of kind \"rank\": give the rank-N.jsonl files of a run");
    }
    return dump;
}

std::string write_dumps(FlightRecorder& recorder) {
    const std::string& directory = recorder.dump_directory();
    if (directory.empty()) return {};
    const FlightRing& own = recorder.ring();
    const std::string path = dump_path(directory, own.rank);
    try {
        io::make_directories(directory);
        if (!was_dumped_while_stopped(recorder)) write_dump(recorder, own);
        recorder.count_dump();
        std::this_thread::sleep_for(dump_time);
        for (const MappedRing& ring : rings_on_host(own.run)) {
            if (ring->rank == own.rank || is_dumped(recorder, *ring)) continue;
            write_dump(recorder, *ring);
        }
    } catch (const Error& error) {
        warn("{}: the flight-recorder dump is not written", error.what());
        return {};
    }
    return path;
}

std::string state_of_silent_rank(const FlightRecorder& recorder, int rank) {
    for (const MappedRing& ring : rings_on_host(recorder.ring().run)) {
        if (ring->rank == rank) return ring->where(flight_clock_ns());
    }
    if (recorder.dump_directory().empty()) return {};
    try {
        const RankDump dump = read_dump(dump_path(recorder.dump_directory(), rank));
        return dump.run == recorder.ring().run ? dump.where : "";
    } catch (const Error&) {
        return {};  // the file of the rank is missing, or is not a dump
    }
}

std::string stopped_ranks_on_host(const FlightRecorder& recorder) {
    std::string text;
    for (const MappedRing& ring : rings_on_host(recorder.ring().run)) {
        if (ring->rank == recorder.ring().rank || !is_stopped(ring->pid)) continue;
        text += fmt::format("{}rank {} on {} does not answer, its recorder shows {}",
                            text.empty() ? "" : "; ", ring->rank, ring->host,
                            ring->where(flight_clock_ns()));
    }
    return text;
}

void finish_dump(const FlightRecorder& recorder, i64 n_dumps_before) {
    if (recorder.dump_directory().empty()) return;
    constexpr double longest_s = 2;
    const Stopwatch watch;
    while (recorder.n_dumps() == n_dumps_before && watch.elapsed_s() < longest_s) {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(500));  // other ranks write their dumps
}

}  // namespace lm::comm
