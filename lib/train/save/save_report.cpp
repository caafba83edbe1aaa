// SPDX-License-Identifier: Apache-2.0
#include "train/save/save_report.hpp"

#include "base/machine.hpp"
#include "parallel/together.hpp"

namespace lm::train {
namespace {

// Sends the report as one message: [bytes of the text, exit code or 0, rank], then the text.
void send(comm::Group& group, const SaveReport& report, int to) {
    std::string text = report.failure ? report.failure->text : report.text;
    i64 head[] = {std::ssize(text), report.failure ? static_cast<i64>(report.failure->code) : 0,
                  report.failure ? report.failure->rank : 0};
    group.send({head, DType::int64, {3}}, to);
    if (!text.empty()) group.send({text.data(), DType::uint8, {head[0]}}, to);
}

SaveReport receive(comm::Group& group, int from) {
    i64 head[3] = {};
    group.receive({head, DType::int64, {3}}, from);
    std::string text(static_cast<size_t>(head[0]), '\0');
    if (!text.empty()) group.receive({text.data(), DType::uint8, {head[0]}}, from);
    if (head[1] == 0) return {.text = std::move(text)};
    return {.failure = SaveFailure{static_cast<Exit>(head[1]), static_cast<int>(head[2]),
                                   std::move(text)}};
}

}  // namespace

void SaveReport::fail(SaveFailure other) {
    if (!failure || other.rank < failure->rank) failure = std::move(other);
}

void SaveReport::fail(const std::exception_ptr& exception, int rank) {
    try {
        std::rethrow_exception(exception);
    } catch (const std::exception& caught) {
        const Error error = error_of(caught);
        // conclude() adds the place of rank 0 to the text if there are several ranks.
        fail({error.code(), rank,
              rank == 0 ? std::string(error.what())
                        : fmt::format("{}: {}", own_place(rank), error.what())});
    }
}

void SaveReport::add(int rank, const std::function<void()>& body) {
    if (failure) return;
    try {
        body();
    } catch (...) {
        fail(std::current_exception(), rank);
    }
}

void gather_reports(comm::Group& group, SaveReport& own,
                    const std::function<void(int member, const std::string& text)>& accept) {
    if (group.rank() != 0) return send(group, own, 0);
    for (int member = 1; member < group.size(); ++member) {
        const SaveReport report = receive(group, member);
        if (report.failure) own.fail(*report.failure);
        if (!own.failure) accept(member, report.text);
    }
}

void join_reports(comm::Group& group, SaveReport& own) {
    // A binomial tree. In each round, every second remaining member sends its report to the
    // previous remaining member, and does not take part in later rounds.
    for (int distance = 1; distance < group.size(); distance *= 2) {
        if (group.rank() % (2 * distance) != 0) return send(group, own, group.rank() - distance);
        if (group.rank() + distance >= group.size()) continue;
        const SaveReport report = receive(group, group.rank() + distance);
        if (report.failure) own.fail(*report.failure);
        own.text += report.text;
    }
}

void conclude(comm::Group& world, const SaveReport& own) {
    i64 code = own.failure ? static_cast<i64>(own.failure->code) : 0;
    world.broadcast({&code, DType::int64, {1}}, 0);
    if (code == 0) return;
    std::string text = own.failure ? own.failure->text : "";
    if (own.failure && own.failure->rank == 0 && world.rank() == 0 && world.size() > 1) {
        text = fmt::format("{}: {}", own_place(0), text);
    }
    throw JointError(static_cast<Exit>(code), parallel::broadcast_text(world, text));
}

}  // namespace lm::train
