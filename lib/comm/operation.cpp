// SPDX-License-Identifier: Apache-2.0
#include "comm/operation.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

namespace lm::comm {

std::string_view name_of(OperationKind kind) {
    constexpr std::string_view names[] = {"all_reduce", "reduce_scatter", "all_gather", "broadcast",
                                          "barrier",    "split",          "send",       "receive"};
    return names[static_cast<size_t>(kind)];
}

std::string_view name_of(Reduction reduction) {
    return reduction == Reduction::sum ? "sum" : "max";
}

i64 Operation::input_bytes(int member, int size) const {
    switch (kind) {
        case OperationKind::all_reduce:
        case OperationKind::all_gather:
        case OperationKind::send:
            return bytes();
        case OperationKind::reduce_scatter:
            return bytes() * size;
        case OperationKind::broadcast:
            return peer == member ? bytes() : 0;
        case OperationKind::barrier:
        case OperationKind::split:
        case OperationKind::receive:
            break;
    }
    return 0;
}

bool Operation::agrees_with(const Operation& other) const {
    if (dtype != other.dtype || n != other.n) return false;
    if (is_message(kind) && is_message(other.kind)) return true;
    return kind == other.kind && reduction == other.reduction && peer == other.peer;
}

std::string Operation::str() const {
    const std::string elements = fmt::format("{} x {}", n, lm::name_of(dtype));
    switch (kind) {
        case OperationKind::all_reduce:
        case OperationKind::reduce_scatter:
            return fmt::format("{}({}, {})", name_of(kind), name_of(reduction), elements);
        case OperationKind::all_gather:
            return fmt::format("all_gather({})", elements);
        case OperationKind::broadcast:
            return fmt::format("broadcast({} from rank {})", elements, peer);
        case OperationKind::send:
            return fmt::format("send({} to rank {})", elements, peer);
        case OperationKind::receive:
            return fmt::format("receive({} from rank {})", elements, peer);
        case OperationKind::barrier:
        case OperationKind::split:
            break;
    }
    return std::string(name_of(kind));
}

std::vector<std::vector<int>> split_members(std::span<const SplitChoice> choices) {
    std::map<i64, std::vector<int>> parts;
    for (size_t i = 0; i < choices.size(); ++i) {
        const auto member = static_cast<int>(i);
        parts[choices[i].color >= 0 ? choices[i].color : -1 - i64{member}].push_back(member);
    }
    std::vector<std::vector<int>> groups;
    for (auto& [color, members] : parts) {
        std::ranges::stable_sort(
            members, {}, [&](int member) { return choices[static_cast<size_t>(member)].key; });
        groups.push_back(std::move(members));
    }
    return groups;
}

std::string ranks_text(const std::vector<int>& ranks, int n_all) {
    constexpr int max_runs = 10;
    std::string text = ranks.size() == 1 ? "rank " : "ranks ";
    int n_runs = 0;
    for (size_t i = 0; i < ranks.size(); ++n_runs) {
        size_t end = i + 1;
        while (end < ranks.size() && ranks[end] == ranks[end - 1] + 1) ++end;
        if (n_runs == max_runs)
            return text + fmt::format(" and {} more of {}", ranks.size() - i, n_all);
        if (n_runs > 0) text += ", ";
        text += std::to_string(ranks[i]);
        if (end - i > 1) text += (end - i > 2 ? "-" : ", ") + std::to_string(ranks[end - 1]);
        i = end;
    }
    return text + fmt::format(" of {}", n_all);
}

}  // namespace lm::comm
