// SPDX-License-Identifier: Apache-2.0
#include "parallel/same_facts.hpp"

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/machine.hpp"
#include "base/problem_list.hpp"
#include "parallel/together.hpp"

namespace lm::parallel {
namespace {

constexpr size_t most_problems = 8;
constexpr char end_of_text = '\x1f';

std::string joined(const std::vector<std::string>& texts) {
    std::string all;
    for (const std::string& text : texts) all += text + end_of_text;
    return all;
}

std::vector<std::string> separated(std::string_view all) {
    std::vector<std::string> texts;
    while (!all.empty()) {
        const size_t end = std::min(all.find(end_of_text), all.size() - 1);
        texts.emplace_back(all.substr(0, end));
        all.remove_prefix(end + 1);
    }
    return texts;
}

i64 digest_of(const FactGroup& group) {
    std::vector<std::string> texts;
    for (const Fact& fact : group.facts) texts.insert(texts.end(), {fact.name, fact.value});
    return std::bit_cast<i64>(hash64(joined(texts)));
}

// Returns whether each group differs between ranks. Collective.
std::vector<bool> differing(comm::Group& world, const std::vector<FactGroup>& groups) {
    const auto n = static_cast<i64>(groups.size());
    std::vector<i64> extremes;  // of each digest d, the maximum of d and of ~d = -1 - d
    for (const FactGroup& group : groups) {
        const i64 digest = digest_of(group);
        extremes.insert(extremes.end(), {digest, ~digest});
    }
    world.all_reduce({extremes.data(), DType::int64, {2 * n}}, comm::Reduction::max);
    std::vector<bool> result;
    for (size_t k = 0; k < groups.size(); ++k)
        result.push_back(extremes[2 * k] != ~extremes[2 * k + 1]);
    return result;
}

// Returns the part of `text` in which it differs from `other`, if the text is long.
std::string shortened(const std::string& text, const std::string& other) {
    constexpr size_t longest = 240;
    if (text.empty()) return "not given";
    if (text.size() <= longest) return text;
    const auto same = static_cast<size_t>(std::ranges::mismatch(text, other).in1 - text.begin());
    const size_t begin = same > longest / 4 ? same - longest / 4 : 0;
    const bool ends = begin + longest >= text.size();
    return (begin > 0 ? "..." : "") + text.substr(begin, longest) + (ends ? "" : "...");
}

// The facts of a rank as texts: its place, then name, value and shown text of each fact.
std::vector<std::string> texts_of(const FactGroup& group, int rank) {
    std::vector<std::string> texts{own_place(rank)};
    for (const Fact& fact : group.facts) {
        texts.insert(texts.end(),
                     {fact.name, fact.value, fact.shown.empty() ? fact.value : fact.shown});
    }
    return texts;
}

// Returns a problem for each fact that differs between `odd`, which the message names first, and
// `other`; both are results of texts_of().
std::vector<std::string> problems_between(const std::vector<std::string>& odd,
                                          const std::vector<std::string>& other) {
    std::vector<std::string> problems;
    const auto text = [](const std::vector<std::string>& texts, size_t at) {
        return at < texts.size() ? texts[at] : std::string();
    };
    for (size_t at = 1; at < std::max(odd.size(), other.size()); at += 3) {
        if (text(odd, at + 1) == text(other, at + 1)) continue;
        const std::string a = text(odd, at + 2), b = text(other, at + 2);
        problems.push_back(fmt::format("{}: is {} on {}, but {} on {}",
                                       at < odd.size() ? odd[at] : other[at], shortened(a, b),
                                       odd.front(), shortened(b, a), other.front()));
    }
    return problems;
}

// Throws the error about a group that differs. Collective.
[[noreturn]] void report(comm::Group& world, const FactGroup& group) {
    const std::vector<std::string> own = texts_of(group, world.rank());
    const std::vector<std::string> first = separated(broadcast_text(world, joined(own)));
    std::vector<std::string> problems = problems_between(own, first);
    i64 n_differ = problems.empty() ? 0 : 1;
    world.all_reduce({&n_differ, DType::int64, {1}});
    // When most ranks differ from rank 0, rank 0 is the odd one.
    if (2 * n_differ > world.size() && !problems.empty()) problems = problems_between(first, own);
    std::string text;
    if (!problems.empty()) {
        const size_t n_more = problems.size() - std::min(problems.size(), most_problems);
        problems.resize(problems.size() - n_more);
        for (std::string& problem : problems) {
            problem += fmt::format(" ({} of {} ranks differ{} from rank 0): {}", n_differ,
                                   world.size(), n_differ == 1 ? "s" : "", group.remedy);
        }
        if (n_more > 0) problems.back() += fmt::format("; {} more values differ", n_more);
        text = text_of_problems(problems);
    }
    throw JointError(Exit::usage, first_text(world, text));
}

}  // namespace

void require_same(comm::Group& world, const std::vector<FactGroup>& groups) {
    if (world.size() == 1) return;
    const std::vector<bool> differ = differing(world, groups);
    const auto found = std::ranges::find(differ, true);
    if (found != differ.end()) report(world, groups[static_cast<size_t>(found - differ.begin())]);
}

}  // namespace lm::parallel
