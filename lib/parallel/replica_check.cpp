// SPDX-License-Identifier: Apache-2.0
#include "parallel/replica_check.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <map>
#include <set>

#include "base/error.hpp"
#include "base/threads.hpp"
#include "parallel/hosts.hpp"
#include "parallel/together.hpp"

namespace lm::parallel {
namespace {

using device::View;

// One number for each kind of state and each tensor of a rank: the sum, modulo 2^64, of hash(index
// in the tensor, bits) over the elements that the rank holds. The sums of a tensor's parts add up
// to the sum of the tensor, so tensors that are split over data ranks can be compared as well.
using Fingerprints = std::vector<u64>;  // [kind][tensor]

// Returns the hash of one element. Both factors are odd, and each step can be inverted, so elements
// with other bits at one index always have another hash.
inline u64 element_hash(u64 index, u64 bits) {
    u64 x = (index * 0x9E3779B97F4A7C15ULL) ^ (bits * 0xC2B2AE3D27D4EB4FULL);
    x = (x ^ (x >> 32)) * 0xBF58476D1CE4E5B9ULL;
    return x ^ (x >> 29);
}

template <typename Bits>
u64 sum_of_hashes(const std::byte* data, i64 n, i64 first_index) {
    u64 sum = 0;
    for (i64 i = 0; i < n; ++i) {
        Bits bits = 0;
        std::memcpy(&bits, data + static_cast<size_t>(i) * sizeof bits, sizeof bits);
        sum += element_hash(static_cast<u64>(first_index + i), bits);
    }
    return sum;
}

// Computes fingerprints on the host. The data of a GPU are copied in pieces of 16 MiB.
class Hasher {
  public:
    Hasher(device::Device& device, int n_threads) : device_(device), pool_(n_threads) {}

    // Returns the fingerprint of the part of a tensor that `state` holds.
    u64 fingerprint(const HeldState& state, const spec::LocalTensor& tensor) {
        u64 sum = 0;
        i64 at = 0;  // index in state.data of the first element of `range`
        for (const Range& range : state.held) {
            const Range both{std::max(range.begin, tensor.offset),
                             std::min(range.end, tensor.end())};
            if (both.begin < both.end) {
                const i64 first = at + both.begin - range.begin;
                sum += of(state.data.rows(first, first + both.size()), both.begin - tensor.offset);
            }
            at += range.size();
        }
        return sum;
    }

  private:
    // Returns the sum of hashes of `data`, [n] of any dtype of 2 or 4 bytes, whose first element
    // has the index first_index in its tensor.
    u64 of(const View& data, i64 first_index) {
        LM_CHECK(size_of(data.dtype) == 2 || size_of(data.dtype) == 4,
                 "expected a dtype of 2 or 4 bytes, got {}", size_of(data.dtype));
        if (device_.is_host()) {
            return of_bytes(static_cast<const std::byte*>(data.data), data, first_index);
        }
        constexpr i64 piece = i64{1} << 22;
        host_.resize(4 * piece);
        u64 sum = 0;
        for (i64 begin = 0; begin < data.numel(); begin += piece) {
            const View part = data.rows(begin, std::min(begin + piece, data.numel()));
            device_.copy_to_host(host_.data(), part);
            sum += of_bytes(host_.data(), part, first_index + begin);
        }
        return sum;
    }

    // As of(), with the elements of `data`, [n] of any dtype of 2 or 4 bytes, at `bytes` on the
    // host.
    u64 of_bytes(const std::byte* bytes, const View& data, i64 first_index) {
        const bool half = size_of(data.dtype) == 2;
        const auto hashes = [&](i64 begin, i64 end) {
            const std::byte* const from = bytes + begin * static_cast<i64>(size_of(data.dtype));
            return half ? sum_of_hashes<u16>(from, end - begin, first_index + begin)
                        : sum_of_hashes<u32>(from, end - begin, first_index + begin);
        };
        constexpr i64 grain = 1 << 17;
        if (data.numel() <= grain) return hashes(0, data.numel());
        std::atomic<u64> sum = 0;
        pool_.run_ranges(data.numel(), grain,
                         [&](i64 begin, i64 end, int) { sum += hashes(begin, end); });
        return sum;
    }

    device::Device& device_;
    ThreadPool pool_;
    std::vector<std::byte> host_;
};

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
            fmt::format("{}: see {} ({}): the state became corrupt after the last check: "
                        "resume from an earlier checkpoint, without that machine",
                        message_, comm::ranks_text(ranks_, n_ranks_), fmt::join(names, ", ")));
    }

  private:
    void report(size_t kind, const spec::LocalTensor& tensor, std::string_view group,
                const RankOf& rank_of, const std::vector<int>& out, size_t n_members) {
        if (!message_.empty()) return;
        for (const int member : out) ranks_.push_back(static_cast<int>(rank_of(member)));
        message_ = fmt::format("tensor {} ({}): its copies on {} {} ranks differ",
                               map_.spec_of(tensor).name, state_[kind].kind, n_members, group);
    }

    const model::ParamMap& map_;
    const std::vector<HeldState>& state_;
    int n_ranks_;
    std::string message_;
    std::vector<int> ranks_;  // that differ from the majority
};

// Returns whether another rank has a copy of this state of the tensor.
bool has_copies(const Grid& grid, const model::ParamMap& map, const HeldState& kind,
                const spec::LocalTensor& tensor) {
    return (grid.data->size() > 1 && kind.whole) ||
           (grid.tensor->size() > 1 && tensor.replicated) ||
           (grid.embedding->size() > 1 && map.spec_of(tensor).tied_head);
}

}  // namespace

void check_replicas(const model::ParamMap& map, Grid& grid, device::Device& device, int n_threads,
                    const std::vector<HeldState>& state) {
    const auto& tensors = map.layout().tensors;
    Hasher hasher(device, n_threads);
    Fingerprints own;
    for (const HeldState& kind : state) {
        for (const spec::LocalTensor& tensor : tensors) {
            own.push_back(has_copies(grid, map, kind, tensor) ? hasher.fingerprint(kind, tensor)
                                                              : 0);
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
    double found = comparison.found() ? 1 : 0;
    grid.world->all_reduce({&found, DType::fp64, {1}}, comm::Reduction::max);
    if (found == 0) return;
    const std::vector<std::string> hosts = hosts_of(*grid.world);
    together(*grid.world, [&] { comparison.throw_if_any(hosts); });
}

}  // namespace lm::parallel
