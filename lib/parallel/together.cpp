// SPDX-License-Identifier: Apache-2.0
#include "parallel/together.hpp"

#include <algorithm>
#include <optional>
#include <vector>

#include "base/error.hpp"
#include "base/machine.hpp"

namespace lm::parallel {
namespace {

std::optional<Error> run_and_catch(const std::function<void()>& body) {
    try {
        body();
        return std::nullopt;
    } catch (const std::exception& exception) {
        return error_of(exception);
    }
}

}  // namespace

std::string broadcast_text(comm::Group& group, const std::string& text, int root) {
    i64 size = static_cast<i64>(text.size());
    group.broadcast({&size, DType::int64, {1}}, root);
    std::string result = group.rank() == root ? text : std::string(static_cast<size_t>(size), '\0');
    if (size > 0) group.broadcast({result.data(), DType::uint8, {size}}, root);
    return result;
}

std::string first_text(comm::Group& group, const std::string& text) {
    if (group.size() == 1) return text;
    i64 first = text.empty() ? 0 : group.size() - group.rank();
    group.all_reduce({&first, DType::int64, {1}}, comm::Reduction::max);
    return first == 0 ? "" : broadcast_text(group, text, group.size() - static_cast<int>(first));
}

void together(comm::Group& group, const std::function<void()>& body) {
    if (group.size() == 1) return body();
    const std::optional<Error> own = run_and_catch(body);
    // Lower ranks send larger numbers, which contain the exit code. So one maximum finds the first
    // failed rank and its exit code.
    constexpr i64 codes = 256;
    i64 first = own ? (group.size() - group.rank()) * codes + static_cast<i64>(own->code()) : 0;
    group.all_reduce({&first, DType::int64, {1}}, comm::Reduction::max);
    if (first == 0) return;
    const int rank = group.size() - static_cast<int>(first / codes);
    std::string text;
    if (group.rank() == rank) {
        // All ranks have the same flags, so the message about a wrong flag names no rank.
        const bool of_flags = rank == 0 && own->code() == Exit::usage;
        text = of_flags ? own->what() : fmt::format("{}: {}", own_place(rank), own->what());
    }
    throw JointError(static_cast<Exit>(first % codes), broadcast_text(group, text, rank));
}

}  // namespace lm::parallel
