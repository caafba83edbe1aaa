// SPDX-License-Identifier: Apache-2.0
#include "comm/hang_story.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/error.hpp"

namespace lm::comm {
namespace {

// A shorter wait is not a hang, because the ranks of a healthy run wait for each other in every
// step.
constexpr double least_hang_s = 2;

struct Members {
    std::string name;
    int size = 1;
    std::map<int, int> rank_of;  // by member
};

// The ranks that wait for the same operation.
struct Wait {
    std::vector<int> ranks;
    std::vector<int> awaited;  // empty: all members have started the operation
    std::string what;          // "all_reduce(sum, 100 x fp32), operation 12 of group 'data'"
    double since_s = 0;        // Unix time at which the first rank began to wait
    double longest_s = 0;
};

class Story {
  public:
    explicit Story(const std::vector<RankDump>& dumps);
    HangStory tell();

  private:
    bool is_stale(int rank) const;
    bool is_silent(int rank) const;
    int rank_of(u64 group, int member) const;
    const RankDump::Event* find_operation(const RankDump& dump) const;
    std::vector<int> awaited_by(const RankDump& dump) const;
    void collect_waits();
    std::vector<int> find_diverged() const;
    std::string place_of(int rank) const;
    std::string heading() const;
    std::string mismatches() const;

    std::map<int, const RankDump*> dumps_;
    std::map<u64, Members> groups_;
    std::vector<Wait> waits_;
    int size_ = 1;
    double hang_s_ = 0;  // Unix time at which the hang began; 0: no rank hangs
};

Story::Story(const std::vector<RankDump>& dumps) {
    if (dumps.empty()) usage_error("--explain", "no dumps: give the rank-N.jsonl files of a run");
    size_ = dumps.front().size;
    for (const RankDump& dump : dumps) {
        if (dump.run != dumps.front().run) {
            usage_error("--explain", "dumps of different runs: give the files of one directory");
        }
        if (!dumps_.emplace(dump.rank, &dump).second) {
            usage_error("--explain", "two dumps of rank {}: give one file for each rank",
                        dump.rank);
        }
        for (const RankDump::GroupCounts& group : dump.groups) {
            Members& members = groups_[group.id];
            members.name = group.name;
            members.size = group.size;
            members.rank_of[group.member] = dump.rank;
        }
    }
    double newest_s = 0;
    for (const RankDump& dump : dumps) {
        // Ignores a dump that another rank wrote for a stopped rank. The stopped rank may have
        // continued briefly before it was killed, so its dump may show a wait that began after the
        // hang.
        if (!dump.waits || dump.at_s <= newest_s || dump.written_by != dump.rank) continue;
        newest_s = dump.at_s;
        hang_s_ = dump.at_s - dump.wait_s < least_hang_s ? 0 : dump.wait_s;
    }
}

// Returns whether the rank's dump is older than the start of the hang (hang_s_). Each timeout and
// each SIGUSR2 overwrites the dump of a rank, so a rank that no longer answers may have left a dump
// of an earlier timeout or signal.
bool Story::is_stale(int rank) const {
    const auto dump = dumps_.find(rank);
    return dump != dumps_.end() && dump->second->at_s < hang_s_;
}

// Returns whether the rank has not written a dump of this hang itself.
bool Story::is_silent(int rank) const {
    const auto dump = dumps_.find(rank);
    return dump == dumps_.end() || dump->second->written_by != rank || is_stale(rank);
}

// Returns the global rank of a member; -1: not known. In a grid, the global ranks of a group have
// equal distances, so two known ranks determine all others.
int Story::rank_of(u64 group, int member) const {
    const auto found = groups_.find(group);
    if (found == groups_.end() || member < 0) return -1;
    const std::map<int, int>& known = found->second.rank_of;
    if (const auto exact = known.find(member); exact != known.end()) return exact->second;
    if (known.size() >= 2) {
        const auto [member0, rank0] = *known.begin();
        const auto [member1, rank1] = *std::next(known.begin());
        const int distance = (rank1 - rank0) / (member1 - member0);
        const int rank = rank0 + (member - member0) * distance;
        if (!dumps_.contains(rank) && rank >= 0 && rank < size_) return rank;
    }
    if (static_cast<int>(dumps_.size()) != size_ - 1) return -1;
    for (int rank = 0; rank < size_; ++rank) {
        if (!dumps_.contains(rank)) return rank;
    }
    return -1;
}

// Returns the event that started the operation for which the rank waits; nullptr when the ring has
// overwritten the event.
const RankDump::Event* Story::find_operation(const RankDump& dump) const {
    const bool message = dump.wait_number < 0;
    const i64 number = message ? -1 - dump.wait_number : dump.wait_number;
    for (auto event = dump.events.rbegin(); event != dump.events.rend(); ++event) {
        if (event->what == "operation" && event->group == dump.wait_group &&
            event->message == message && event->number == number) {
            return &*event;
        }
    }
    return nullptr;
}

std::vector<int> Story::awaited_by(const RankDump& dump) const {
    std::set<int> awaited;
    if (dump.wait_number < 0) {
        const RankDump::Event* const message = find_operation(dump);
        if (message != nullptr) awaited.insert(rank_of(dump.wait_group, message->peer));
        return {awaited.begin(), awaited.end()};
    }
    const auto group = groups_.find(dump.wait_group);
    if (group == groups_.end()) return {};
    for (int member = 0; member < group->second.size; ++member) {
        const int rank = rank_of(dump.wait_group, member);
        if (rank == dump.rank) continue;
        const auto other = dumps_.find(rank);
        i64 n_started = 0;
        if (other != dumps_.end()) {
            for (const RankDump::GroupCounts& theirs : other->second->groups) {
                if (theirs.id == dump.wait_group) n_started = theirs.n_collectives;
            }
        }
        if (is_silent(rank) || n_started <= dump.wait_number) awaited.insert(rank);
    }
    return {awaited.begin(), awaited.end()};
}

void Story::collect_waits() {
    for (const auto& [rank, dump] : dumps_) {
        if (!dump->waits || is_silent(rank)) continue;
        const bool message = dump->wait_number < 0;
        const RankDump::Event* const operation = find_operation(*dump);
        Wait wait{{rank},
                  awaited_by(*dump),
                  fmt::format("{}, {} {} of group '{}'",
                              operation ? operation->operation : "an operation",
                              message ? "message" : "operation",
                              message ? -1 - dump->wait_number : dump->wait_number,
                              groups_[dump->wait_group].name),
                  dump->wait_s,
                  dump->at_s - dump->wait_s};
        const auto same = std::ranges::find_if(waits_, [&](const Wait& other) {
            return other.what == wait.what && other.awaited == wait.awaited;
        });
        if (same == waits_.end()) {
            waits_.push_back(wait);
            continue;
        }
        same->ranks.push_back(rank);
        same->since_s = std::min(same->since_s, wait.since_s);
        same->longest_s = std::max(same->longest_s, wait.longest_s);
    }
    std::ranges::sort(waits_, {}, &Wait::since_s);
}

// Returns the awaited ranks that do not wait themselves. When some awaited ranks are silent,
// returns only the silent ones.
std::vector<int> Story::find_diverged() const {
    std::set<int> silent;
    std::set<int> busy;
    for (const Wait& wait : waits_) {
        for (const int rank : wait.awaited) {
            if (rank < 0) continue;
            if (is_silent(rank)) {
                silent.insert(rank);
            } else if (!dumps_.at(rank)->waits) {
                busy.insert(rank);
            }
        }
    }
    const std::set<int>& found = silent.empty() ? busy : silent;
    return {found.begin(), found.end()};
}

std::string Story::place_of(int rank) const {
    const auto dump = dumps_.find(rank);
    if (dump == dumps_.end()) return fmt::format("rank {}", rank);
    const std::string& device = dump->second->device;
    return fmt::format("rank {} on {}{}", rank, dump->second->host,
                       device.empty() ? "" : " (" + device + ")");
}

std::string Story::heading() const {
    std::string text = fmt::format("{} of {} ranks have a dump\n", dumps_.size(), size_);
    for (const auto& [rank, dump] : dumps_) {
        if (is_stale(rank)) {
            text += fmt::format(
                "{} did not write a dump of this hang: its dump is {:.0f} s older than the hang\n",
                place_of(rank), hang_s_ - dump->at_s);
        } else if (is_silent(rank)) {
            text += fmt::format("{} did not write its dump; rank {} wrote it\n", place_of(rank),
                                dump->written_by);
        }
    }
    std::vector<int> missing;
    for (int rank = 0; rank < size_; ++rank) {
        if (!dumps_.contains(rank)) missing.push_back(rank);
    }
    if (!missing.empty()) text += fmt::format("no dump of {}\n", ranks_text(missing, size_));
    return text;
}

// Returns one line for each group whose members describe a collective differently. The line names
// the first such collective.
std::string Story::mismatches() const {
    std::map<u64, std::map<i64, std::map<std::string, std::vector<int>>>> seen;
    for (const auto& [rank, dump] : dumps_) {
        for (const RankDump::Event& event : dump->events) {
            if (event.what != "operation" || event.message) continue;
            seen[event.group][event.number][event.operation].push_back(rank);
        }
    }
    std::string text;
    for (const auto& [group, operations] : seen) {
        for (const auto& [number, by_text] : operations) {
            if (by_text.size() < 2) continue;
            std::string calls;
            for (const auto& [operation, ranks] : by_text) {
                calls += fmt::format("{}{}: {}", calls.empty() ? "" : "; ",
                                     ranks_text(ranks, size_), operation);
            }
            text +=
                fmt::format("group '{}': the members disagree, beginning with operation {}: {}\n",
                            groups_.at(group).name, number, calls);
            break;
        }
    }
    return text;
}

HangStory Story::tell() {
    collect_waits();
    HangStory story{{}, heading()};
    story.text += mismatches();
    const bool hangs = std::ranges::any_of(
        waits_, [](const Wait& wait) { return wait.longest_s >= least_hang_s; });
    if (!waits_.empty() && !hangs) {
        story.text += fmt::format("no hang: no rank has waited {} s or longer\n", least_hang_s);
        return story;
    }
    story.diverged = find_diverged();
    for (const int rank : story.diverged) {
        const auto first = std::ranges::find_if(waits_, [rank](const Wait& wait) {
            return std::ranges::count(wait.awaited, rank) > 0;
        });
        const auto dump = dumps_.find(rank);
        story.text += fmt::format(
            "{} diverged first: {} for {}; the diverged rank was in {}\n", place_of(rank),
            ranks_text(first->ranks, size_) + (first->ranks.size() == 1 ? " waits" : " wait"),
            first->what, dump == dumps_.end() ? "an unknown state" : dump->second->where);
        if (is_stale(rank)) story.text += "  (this state is from a dump before the hang)\n";
    }
    for (const Wait& wait : waits_) {
        const std::string whom = wait.awaited.empty() ? "the transport: all members have started"
                                 : wait.awaited.front() < 0 ? "ranks without a dump:"
                                                            : ranks_text(wait.awaited, size_) + ":";
        story.text +=
            fmt::format("{} {} waited {:.0f} s for {} {}\n", ranks_text(wait.ranks, size_),
                        wait.ranks.size() == 1 ? "has" : "have", wait.longest_s, whom, wait.what);
    }
    if (waits_.empty()) story.text += "no rank waits for another rank\n";
    if (!waits_.empty() && story.diverged.empty()) {
        story.text +=
            "all awaited ranks wait themselves: the ranks wait in a cycle, or the "
            "transport lost data\n";
    }
    return story;
}

}  // namespace

HangStory explain_hang(const std::vector<RankDump>& dumps) {
    return Story(dumps).tell();
}

}  // namespace lm::comm
