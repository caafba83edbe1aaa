// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica_check.hpp"

#include <algorithm>
#include <cstring>
#include <functional>
#include <map>
#include <span>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "parallel/together.hpp"

namespace lm::parallel {
namespace {

using device::View;

// One number for each kind of state and each tensor of a rank: the sum, modulo 2^64, of hash(index
// in the tensor, bits) over the elements that the rank holds. The sums of a tensor's parts add up
// to the sum of the tensor, so tensors that are split over data ranks can be compared as well.
using Fingerprints = std::vector<u64>;  // [kind][tensor]

u64 fingerprint(device::Device& device, const View& data, i64 first_place) {
    constexpr i64 piece = 1 << 14;
    std::array<std::byte, 4 * piece> host;  // NOLINT(cppcoreguidelines-pro-type-member-init)
    const auto size = static_cast<size_t>(size_of(data.dtype));
    LM_CHECK(size <= 4, "expected a dtype of at most 4 bytes, got {}", size);
    u64 sum = 0;
    for (i64 begin = 0; begin < data.numel(); begin += piece) {
        const i64 end = std::min(begin + piece, data.numel());
        device.copy_to_host(host.data(), data.rows(begin, end));
        for (i64 i = begin; i < end; ++i) {
            u64 bits = 0;
            std::memcpy(&bits, host.data() + static_cast<size_t>(i - begin) * size, size);
            sum += mix(static_cast<u64>(first_place + i), bits);
        }
    }
    return sum;
}

// Returns the fingerprint of the part of a tensor that `state` holds.
u64 fingerprint(device::Device& device, const HeldState& state, const spec::LocalTensor& tensor) {
    u64 sum = 0;
    i64 at = 0;  // index in state.data of the first element of `range`
    for (const Range& range : state.held) {
        const Range both{std::max(range.begin, tensor.offset), std::min(range.end, tensor.end())};
        if (both.begin < both.end) {
            const i64 first = at + both.begin - range.begin;
            sum += fingerprint(device, state.data.rows(first, first + both.size()),
                               both.begin - tensor.offset);
        }
        at += range.size();
    }
    return sum;
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

    void throw_if_any() const {
        if (!message_.empty()) throw Error(Exit::self_stopped, message_);
    }

  private:
    void report(size_t kind, const spec::LocalTensor& tensor, std::string_view group,
                const RankOf& rank_of, const std::vector<int>& out, size_t n_members) {
        if (!message_.empty()) return;
        std::vector<int> ranks;
        for (const int member : out) ranks.push_back(static_cast<int>(rank_of(member)));
        message_ = fmt::format(
            "tensor {} ({}): its copies on {} {} ranks differ: see {}: the state became corrupt "
            "after the last check: resume from an earlier checkpoint, without that machine",
            map_.spec_of(tensor).name, state_[kind].kind, n_members, group,
            comm::ranks_text(ranks, n_ranks_));
    }

    const model::ParamMap& map_;
    const std::vector<HeldState>& state_;
    int n_ranks_;
    std::string message_;
};

}  // namespace

void check_replicas(const model::ParamMap& map, Grid& grid, device::Device& device,
                    const std::vector<HeldState>& state) {
    const auto& tensors = map.layout().tensors;
    Fingerprints own;
    for (const HeldState& kind : state) {
        for (const spec::LocalTensor& tensor : tensors) {
            own.push_back(fingerprint(device, kind, tensor));
        }
    }
    Comparison comparison(map, state, grid.world->size());
    const auto rank_along = [&grid](i64 Coordinates::*axis) {
        return [&grid, axis](int member) {
            Coordinates at = grid.at;
            at.*axis = member;
            return rank_of(grid.parallel, at);
        };
    };
    const std::vector<Fingerprints> replicas = gather(*grid.data, own);
    comparison.compare(
        replicas, "data", rank_along(&Coordinates::dp), [](const auto&) { return true; },
        [](const HeldState& kind) { return kind.whole; });
    // For the comparisons over tensor ranks and stages, adds up the fingerprints of the parts of
    // state that is split over data ranks.
    for (size_t place = 0; place < own.size(); ++place) {
        if (state[place / tensors.size()].whole) continue;
        own[place] = 0;
        for (const Fingerprints& part : replicas) own[place] += part[place];
    }
    const auto any_kind = [](const HeldState&) { return true; };
    comparison.compare(
        gather(*grid.tensor, own), "tensor", rank_along(&Coordinates::tp),
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
                Coordinates at = grid.at;
                at.pp = member == 0 ? 0 : grid.parallel.pp - 1;
                return rank_of(grid.parallel, at);
            },
            is_shared, any_kind);
    }
    together(*grid.world, [&comparison] { comparison.throw_if_any(); });
}

}  // namespace lm::parallel
