// SPDX-License-Identifier: Apache-2.0
#include "parts.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/printable.hpp"
#include "base/units.hpp"
#include "cli/terminal.hpp"
#include "cluster/limits.hpp"
#include "io/json.hpp"

namespace lm::shmcheck {
namespace {

using cluster::Segment;
using cluster::SegmentState;

constexpr size_t max_owners = 4;  // owners that a line of text names

struct Dead {
    i64 n = 0;
    i64 bytes = 0;
};

Dead dead_among(const std::vector<Segment>& segments) {
    Dead dead;
    for (const Segment& segment : segments) {
        if (segment.state != SegmentState::dead) continue;
        ++dead.n;
        dead.bytes += segment.bytes;
    }
    return dead;
}

std::vector<const Segment*> shown_segments(const Sample& sample, const Shown& shown) {
    std::vector<const Segment*> result;
    for (const Segment& segment : sample.memory.segments) {
        if (!cluster::selects(shown.selection, sample.filesystem, segment)) continue;
        if (shown.only_removable &&
            !cluster::is_removable(shown.selection, sample.filesystem, segment)) {
            continue;
        }
        result.push_back(&segment);
    }
    return result;
}

std::string percent(double share) {
    return fmt::format("{:.0f}%", 100 * share);
}

std::string summary_of(const std::vector<Segment>& segments) {
    const Dead dead = dead_among(segments);
    std::string text = fmt::format("{}", segments.size());
    if (dead.n > 0) text += fmt::format(", {} dead ({})", dead.n, human_size(dead.bytes));
    return text;
}

std::string owners_text(const Segment& segment) {
    if (segment.state == SegmentState::dead) return "DEAD";
    if (segment.state == SegmentState::unused) return "not open";
    if (segment.state == SegmentState::unknown) return "owner not visible";
    std::vector<std::string> owners;
    for (const cluster::Process& process : segment.owners) {
        if (owners.size() == max_owners) {
            owners.push_back(fmt::format("{} more", segment.owners.size() - max_owners));
            break;
        }
        owners.push_back(fmt::format("{} ({})", process.pid, process.command));
    }
    if (owners.empty()) owners.emplace_back("owner not visible");
    const char* idle = segment.state == SegmentState::idle ? "not attached, created by " : "";
    return fmt::format("{}{}", idle, fmt::join(owners, ", "));
}

io::OrderedJson json_of(const Segment& segment) {
    io::OrderedJson json;
    json["name"] = segment.name;
    json["type"] = segment.system_v ? "sysv" : "posix";
    json["bytes"] = segment.bytes;
    json["state"] = name_in(cluster::segment_states, segment.state);
    json["deleted"] = segment.deleted;
    json["user"] = cluster::user_name(segment.uid);
    json["uid"] = segment.uid;
    io::OrderedJson owners = io::OrderedJson::array();
    for (const cluster::Process& process : segment.owners) {
        owners.push_back({{"pid", process.pid}, {"command", process.command}});
    }
    json["owners"] = owners;
    return json;
}

// The columns of a host's line.
struct HostCells {
    std::string time, host, filesystem, size, used, available, use, inode_use, highest, segments;
};

std::string host_line(const HostCells& cells, const Shown& shown) {
    std::vector<std::string> line;
    if (shown.watching) line.push_back(fmt::format("{:<20}", cells.time));
    line.push_back(fmt::format("{:<12}", cells.host));
    line.push_back(fmt::format("{:<10}", cells.filesystem));
    line.push_back(fmt::format("{:>8}", cells.size));
    line.push_back(fmt::format("{:>8}", cells.used));
    line.push_back(fmt::format("{:>8}", cells.available));
    line.push_back(fmt::format("{:>4}", cells.use));
    line.push_back(fmt::format("{:>6}", cells.inode_use));
    if (shown.watching) line.push_back(fmt::format("{:>9}", cells.highest));
    line.push_back(cells.segments);
    return cli::folded_line(line, shown.width);
}

std::string value_text(const cluster::Limit& limit) {
    if (!limit.value) return "unlimited";
    return limit.is_bytes ? human_size(*limit.value) : fmt::format("{}", *limit.value);
}

}  // namespace

std::string heading_text(const Shown& shown) {
    return host_line({.time = "TIME",
                      .host = "HOST",
                      .filesystem = "FILESYSTEM",
                      .size = "SIZE",
                      .used = "USED",
                      .available = "AVAIL",
                      .use = "USE%",
                      .inode_use = "INODES",
                      .highest = "HIGHEST",
                      .segments = "SEGMENTS"},
                     shown);
}

std::string sample_text(const Sample& sample, const Shown& shown) {
    const io::FilesystemUse& use = sample.memory.use;
    std::string text = host_line({.time = sample.time,
                                  .host = sample.host,
                                  .filesystem = sample.filesystem,
                                  .size = human_size(use.size),
                                  .used = human_size(use.used),
                                  .available = human_size(use.available),
                                  .use = percent(use.use()),
                                  .inode_use = percent(use.inode_use()),
                                  .highest = human_size(sample.highest_used),
                                  .segments = summary_of(sample.memory.segments)},
                                 shown);
    for (const Segment* segment : shown_segments(sample, shown)) {
        text += cli::folded_line(
            {fmt::format("  {:>9}", human_size(segment->bytes)),
             fmt::format("{:<8}", cluster::user_name(segment->uid)),
             segment->name + (segment->deleted ? " (deleted)" : ""), owners_text(*segment)},
            shown.width);
    }
    return text;
}

std::string sample_json(const Sample& sample, const Shown& shown) {
    const io::FilesystemUse& use = sample.memory.use;
    const Dead dead = dead_among(sample.memory.segments);
    io::OrderedJson json;
    json["kind"] = "host";
    json["time"] = sample.time;
    json["host"] = sample.host;
    json["filesystem"] = sample.filesystem;
    json["size"] = use.size;
    json["used"] = use.used;
    json["available"] = use.available;
    json["use"] = use.use();
    json["inodes"] = use.inodes;
    json["inodes_used"] = use.inodes_used;
    if (shown.watching) json["highest_used"] = sample.highest_used;
    json["health"] = name_in(cluster::healths, sample.health);
    json["reason"] = sample.reason;
    json["dead_segments"] = dead.n;
    json["dead_bytes"] = dead.bytes;
    io::OrderedJson segments = io::OrderedJson::array();
    for (const Segment* segment : shown_segments(sample, shown)) {
        segments.push_back(json_of(*segment));
    }
    json["segments"] = segments;
    return io::json_line(json);
}

std::string limits_text() {
    std::string text;
    for (const cluster::Limit& limit : cluster::read_limits()) {
        text += fmt::format("{:<28}  {:>10}\n", limit.what, value_text(limit));
    }
    for (const cluster::Mount& mount : cluster::tmpfs_mounts()) {
        text += fmt::format("{:<28}  {:>10}  used {}\n", "tmpfs " + printable(mount.path),
                            human_size(mount.size), human_size(mount.used));
    }
    return text;
}

std::string limits_json() {
    io::OrderedJson json;
    json["kind"] = "limits";
    for (const cluster::Limit& limit : cluster::read_limits()) {
        json[limit.key] = limit.value ? io::OrderedJson(*limit.value) : io::OrderedJson(nullptr);
    }
    io::OrderedJson mounts = io::OrderedJson::array();
    for (const cluster::Mount& mount : cluster::tmpfs_mounts()) {
        mounts.push_back({{"path", mount.path}, {"size", mount.size}, {"used", mount.used}});
    }
    json["tmpfs"] = mounts;
    return io::json_line(json);
}

std::string stress_text(const cluster::StressResult& result, i64 wanted) {
    return fmt::format("stress: {} of {} allocated and touched in {}\n", human_size(result.touched),
                       human_size(wanted), human_duration(result.seconds));
}

std::string stress_json(const cluster::StressResult& result, i64 wanted) {
    io::OrderedJson json;
    json["kind"] = "stress";
    json["wanted"] = wanted;
    json["allocated"] = result.allocated;
    json["touched"] = result.touched;
    json["seconds"] = result.seconds;
    json["passed"] = result.passed;
    json["reason"] = result.reason;
    return io::json_line(json);
}

}  // namespace lm::shmcheck
