// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica_check.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "base/error.hpp"
#include "device/ops.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"

namespace lm::parallel {
namespace {

// One number for each kind of state and each tensor of a rank. The number is the sum of the hashes
// of the elements that the rank holds (device::Fingerprint). The sums of a tensor's parts add up to
// the sum of the tensor, so tensors that are split over data ranks can be compared as well.
using Fingerprints = std::vector<u64>;  // [kind][tensor]

// Adds the fingerprint of the part of `tensor` that `state` holds to `out`, [1] int64.
void add_fingerprint(device::Context& context, const HeldState& state,
                     const spec::LocalTensor& tensor, const device::View& out) {
    i64 at = 0;  // index in state.data of the first element of `range`
    for (const Range& range : state.held) {
        const Range both{std::max(range.begin, tensor.offset), std::min(range.end, tensor.end())};
        if (both.begin < both.end) {
            const i64 first = at + both.begin - range.begin;
            device::fingerprint(context, {.x = state.data.rows(first, first + both.size()),
                                          .first_index = both.begin - tensor.offset,
                                          .out = out});
        }
        at += range.size();
    }
}

// Returns the fingerprints of all members of the group, in their order. Collective.
std::vector<Fingerprints> gather(comm::Group& group, const Fingerprints& own) {
    const auto n = static_cast<i64>(own.size());
    std::vector<u64> mine = own;
    std::vector<u64> all(own.size() * static_cast<size_t>(group.size()));
    group.all_gather({mine.data(), DType::int64, {n}},
                     {all.data(), DType::int64, {n * group.size()}});
    std::vector<Fingerprints> members;
    for (int r = 0; r < group.size(); ++r) {
        const auto first = all.begin() + r * n;
        members.emplace_back(first, first + n);
    }
    return members;
}

// Returns the members whose value differs from the value of the majority. Returns all members when
// no value has a majority.
std::vector<int> outliers(const std::vector<Fingerprints>& members, size_t place) {
    std::map<u64, size_t> votes;
    for (const Fingerprints& member : members) ++votes[member[place]];
    std::vector<int> out;
    if (votes.size() == 1) return out;
    for (size_t r = 0; r < members.size(); ++r) {
        if (2 * votes[members[r][place]] <= members.size()) out.push_back(static_cast<int>(r));
    }
    return out;
}

class Comparison {
  public:
    Comparison(const model::ParamMap& map, const std::vector<HeldState>& state, int n_ranks)
        : map_(map), state_(state), n_ranks_(n_ranks) {}

    // Returns the global rank of a member of the group.
    using RankOf = std::function<i64(int member)>;

    // Compares the members' copies of each tensor for which counts(tensor) is true, in each kind of
    // state for which kinds(state) is true.
    void compare(const std::vector<Fingerprints>& members, std::string_view group,
                 const RankOf& rank_of, const std::function<bool(const spec::LocalTensor&)>& counts,
                 const std::function<bool(const HeldState&)>& kinds) {
        const auto& tensors = map_.layout().tensors;
        for (size_t kind = 0; kind < state_.size(); ++kind) {
            if (!kinds(state_[kind])) continue;
            for (size_t i = 0; i < tensors.size(); ++i) {
                if (!counts(tensors[i])) continue;
                const std::vector<int> out = outliers(members, kind * tensors.size() + i);
                if (!out.empty()) report(kind, tensors[i], group, rank_of, out, members.size());
            }
        }
    }

    bool found() const { return !message_.empty(); }
    // `hosts`: the host names of all ranks.
    void throw_if_any(const std::vector<std::string>& hosts) const {
        if (!found()) return;
        std::set<std::string> names;
        for (const int rank : ranks_) names.insert(hosts[static_cast<size_t>(rank)]);
        throw Error(
            Exit::self_stopped,
            fmt::format("{}: suspect {} ({}): the state became corrupt after the last check: "
                        "resume from an earlier checkpoint, without the hosts in parentheses",
                        message_, comm::ranks_text(ranks_, n_ranks_), fmt::join(names, ", ")));
    }

  private:
    void report(size_t kind, const spec::LocalTensor& tensor, std::string_view group,
                const RankOf& rank_of, const std::vector<int>& out, size_t n_members) {
        if (!message_.empty()) return;
        for (const int member : out) ranks_.push_back(static_cast<int>(rank_of(member)));
        message_ = fmt::format("tensor {} ({}): the copies on {} {} ranks differ",
                               map_.spec_of(tensor).name, state_[kind].kind, n_members, group);
    }

    const model::ParamMap& map_;
    const std::vector<HeldState>& state_;
    int n_ranks_;
    std::string message_;
    std::vector<int> ranks_;  // ranks whose copies differ from the majority
};

// Returns whether another rank has a copy of this state of the tensor.
bool has_copies(const Grid& grid, const model::ParamMap& map, const HeldState& kind,
                const spec::LocalTensor& tensor) {
    return (grid.data->size() > 1 && kind.whole) ||
           (grid.tensor->size() > 1 && tensor.replicated) ||
           (grid.embedding->size() > 1 && map.spec_of(tensor).tied_head);
}

// Returns the fingerprints of this rank's state; 0 for state without a copy on another rank. The
// device computes as many of them at a time as fit into its workspace.
Fingerprints fingerprints_of(const model::ParamMap& map, const Grid& grid, device::Context& context,
                             const std::vector<HeldState>& state) {
    const auto& tensors = map.layout().tensors;
    const auto n_all = static_cast<i64>(state.size() * tensors.size());
    const i64 most = context.workspace.numel() / static_cast<i64>(sizeof(u64));
    LM_CHECK(most > 0, "expected a workspace of at least 8 bytes, got {}",
             context.workspace.numel());
    Fingerprints all(static_cast<size_t>(n_all), 0);
    for (i64 begin = 0; begin < n_all; begin += most) {
        const i64 end = std::min(begin + most, n_all);
        const device::View sums{context.workspace.data, DType::int64, {end - begin}};
        context.device.copy_from_host(sums, &all[static_cast<size_t>(begin)]);
        for (i64 place = begin; place < end; ++place) {
            const auto n = static_cast<i64>(tensors.size());
            const HeldState& kind = state[static_cast<size_t>(place / n)];
            const spec::LocalTensor& tensor = tensors[static_cast<size_t>(place % n)];
            if (!has_copies(grid, map, kind, tensor)) continue;
            add_fingerprint(context, kind, tensor, sums.rows(place - begin, place - begin + 1));
        }
        context.device.copy_to_host(&all[static_cast<size_t>(begin)], sums);
    }
    return all;
}

}  // namespace

void check_replicas(const model::ParamMap& map, Grid& grid, device::Context& context,
                    const std::vector<HeldState>& state) {
    const auto& tensors = map.layout().tensors;
    Fingerprints own = fingerprints_of(map, grid, context, state);
    Comparison comparison(map, state, grid.world->size());
    const auto rank_along = [&grid](i64 spec::Coordinates::*axis) {
        return [&grid, axis](int member) {
            spec::Coordinates at = grid.at;
            at.*axis = member;
            return rank_of(grid.parallel, at);
        };
    };
    const std::vector<Fingerprints> replicas = gather(*grid.data, own);
    comparison.compare(
        replicas, "data", rank_along(&spec::Coordinates::dp), [](const auto&) { return true; },
        [](const HeldState& kind) { return kind.whole; });
    // Tensor ranks and stages are compared by the fingerprints of whole tensors. So the
    // fingerprints of the parts are added up for state that is split over data ranks.
    for (size_t place = 0; place < own.size(); ++place) {
        if (state[place / tensors.size()].whole) continue;
        own[place] = 0;
        for (const Fingerprints& part : replicas) own[place] += part[place];
    }
    const auto any_kind = [](const HeldState&) { return true; };
    comparison.compare(
        gather(*grid.tensor, own), "tensor", rank_along(&spec::Coordinates::tp),
        [](const spec::LocalTensor& tensor) { return tensor.replicated; }, any_kind);
    if (grid.embedding->size() > 1) {
        // The first and the last stage also hold different tensors, so only the fingerprints of the
        // tied word embedding matrix are exchanged.
        const auto is_shared = [&](const spec::LocalTensor& tensor) {
            return map.spec_of(tensor).tied_head;
        };
        const auto shared = std::ranges::find_if(tensors, is_shared);
        Fingerprints table(state.size());
        for (size_t kind = 0; kind < state.size() && shared != tensors.end(); ++kind) {
            table[kind] =
                own[kind * tensors.size() + static_cast<size_t>(shared - tensors.begin())];
        }
        const std::vector<Fingerprints> ends = gather(*grid.embedding, table);
        std::vector<Fingerprints> spread(ends.size(), Fingerprints(own.size()));
        for (size_t end = 0; end < ends.size(); ++end) {
            for (size_t place = 0; place < own.size(); ++place) {
                spread[end][place] = ends[end][place / tensors.size()];
            }
        }
        comparison.compare(
            spread, "embedding",
            [&grid](int member) {
                spec::Coordinates at = grid.at;
                at.pp = member == 0 ? 0 : grid.parallel.pp - 1;
                return rank_of(grid.parallel, at);
            },
            is_shared, any_kind);
    }
    double found = comparison.found() ? 1 : 0;
    grid.world->all_reduce({&found, DType::fp64, {1}}, comm::Reduction::max);
    if (found == 0) return;
    const std::vector<std::string> hosts = hosts_of(*grid.world);
    together(*grid.world, [&] { comparison.throw_if_any(hosts); });
}

}  // namespace lm::parallel
