// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/world.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "comm/tcp/group.hpp"

namespace lm::comm {
namespace {

constexpr double forever_s = 1e9;  // the other side's end wakes a thread that waits so long
constexpr double answer_time_s = 2;
// How long a rank may compute on after the job has failed before it is ended.
constexpr auto ignored = std::chrono::seconds(20);

}  // namespace

TcpWorld::TcpWorld(const Meeting& meeting, const LaunchOptions& options)
    : meeting_(meeting),
      options_(options),
      exceptions_at_start_(std::uncaught_exceptions()),
      host_(host_name()) {
    join();
    tell({.kind = FrameKind::hello}, bytes_of_text(host_));
    std::vector<int> all(static_cast<size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    group_ = std::make_unique<TcpGroup>(*this, 0, std::move(all), rank(), "world");
    group_->record_to(options_.recorder);
    thread_ = std::thread([this] { read(); });
    try {
        group_->barrier();  // the hub knows all from here on
    } catch (...) {
        leave(true);
        throw;
    }
}

// The connections by which the ranks met stay; rank 0 is connected to its hub like the others.
void TcpWorld::join() {
    if (rank() != 0) {
        (void)receive_from_host(meeting_, options_.timeout_s, &socket_);
        socket_.tune();
        return;
    }
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends) != 0) {
        run_error("socketpair", "{}", std::strerror(errno));
    }
    socket_ = Socket(ends[0]);
    Socket other_end(ends[1]);
    std::vector<Socket> connections = RendezvousHost(meeting_).hand_out({}, options_.timeout_s);
    connections[0] = std::move(other_end);
    hub_ = std::make_unique<TcpHub>(std::move(connections));
}

TcpWorld::~TcpWorld() {
    bool failing = failed_ || std::uncaught_exceptions() > exceptions_at_start_;
    try {
        if (!failing) group_->barrier();
    } catch (const JointError&) {
        failing = true;
    } catch (const Error& error) {
        warn("{}", error.what());
        failing = true;
    }
    leave(failing);
    group_.reset();
}

void TcpWorld::leave(bool failing) {
    // The hub knows what came first, so an error of all ranks has been told to it.
    {
        const std::lock_guard lock(mutex_);
        leaving_ = true;
        changed_.notify_all();
    }
    // Without a bye the hub tells the others that this process has ended.
    if (!failing) tell({.kind = FrameKind::bye}, {});
    shutdown(socket_.fd(), failing ? SHUT_RDWR : SHUT_WR);
    thread_.join();
    socket_.reset();
    if (!failing || !hub_) return;
    sleep(1);  // the hub tells the others; it does not wait for them
    hub_->stop();
}

std::string TcpWorld::describe() const {
    return fmt::format("{} ranks, met at {}:{}", size(), meeting_.host, meeting_.port);
}

// ---- Telling and taking in ---------------------------------------------------------------------

void TcpWorld::tell(Frame frame, const Bytes& bytes) {
    frame.from = rank();
    frame.n_bytes = static_cast<u32>(bytes.size());
    const std::lock_guard lock(sending_);
    const Deadline deadline(options_.timeout_s);
    const bool sent = socket_.send_all(std::as_bytes(std::span(&frame, 1)), deadline) &&
                      socket_.send_all(bytes, deadline);
    if (!sent) lose_hub();
}

void TcpWorld::read() {
    while (true) {
        Frame frame;
        const Deadline deadline(forever_s);
        Bytes bytes;
        bool here = socket_.receive_all(std::as_writable_bytes(std::span(&frame, 1)), deadline);
        if (here) {
            bytes.resize(frame.n_bytes);
            here = socket_.receive_all(bytes, deadline);
        }
        if (!here) break;
        handle(frame, std::move(bytes));
    }
    lose_hub();
    // The rank's own thread throws at its next operation. One that never comes to it is ended.
    std::unique_lock lock(mutex_);
    const bool over = changed_.wait_for(lock, ignored, [this] { return told_ || leaving_; });
    if (over) return;
    if (tells_of_failure()) warn("{}", reason_);
    std::_Exit(static_cast<int>(code_));
}

void TcpWorld::handle(const Frame& frame, Bytes bytes) {
    if (frame.kind == FrameKind::question) return answer(frame);
    if (frame.kind == FrameKind::failure) {
        const std::string text = text_of_bytes(bytes);
        {
            const std::lock_guard lock(mutex_);
            first_failed_ = frame.peer;
            first_reason_ = text;
            changed_.notify_all();
        }
        fail(static_cast<Exit>(frame.code), text);
        shutdown(socket_.fd(), SHUT_RD);
        return;
    }
    const std::lock_guard lock(mutex_);
    if (frame.kind == FrameKind::result) {
        come_[{frame.group, -1, frame.number}] = std::move(bytes);
    } else if (frame.kind == FrameKind::message) {
        come_[{frame.group, frame.from, frame.number}] = std::move(bytes);
    } else if (frame.kind == FrameKind::answer) {
        const std::string text = text_of_bytes(bytes);  // "HOST WHERE"
        const size_t blank = text.find(' ');
        statuses_[frame.from] = {frame.from, true, frame.number, text.substr(0, blank),
                                 text.substr(blank + 1)};
        ++n_answers_;
    } else if (frame.kind == FrameKind::host) {
        statuses_[frame.from] = {.rank = frame.from, .host = text_of_bytes(bytes)};
    }
    changed_.notify_all();
}

void TcpWorld::answer(const Frame& question) {
    Frame frame{.kind = FrameKind::answer};
    frame.to = question.from;
    {
        const std::lock_guard lock(mutex_);
        const auto group = groups_.find(question.group);
        frame.number = group == groups_.end() ? -1 : group->second->load();
    }
    const std::string where = options_.recorder ? options_.recorder->where() : "";
    tell(frame, bytes_of_text(host_ + " " + where));
}

void TcpWorld::fail(Exit code, const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (failed_ || leaving_) return;
    failed_ = true;
    code_ = code;
    reason_ = text;
    changed_.notify_all();
}

// Unless the hub has told why before.
void TcpWorld::lose_hub() {
    {
        const std::lock_guard lock(mutex_);
        without_hub_ = first_failed_ < 0;
        changed_.notify_all();
    }
    fail(Exit::failure,
         fmt::format("lost the connection to rank 0 at {}: its process or its host has ended",
                     meeting_.host));
}

// Rank 0 tells what it knows. When it is gone itself, a few others do that are most probably not on
// its host.
bool TcpWorld::tells_of_failure() const {
    if (!without_hub_) return rank() == 0;
    int power = 1;
    while (power < rank()) power *= 8;
    return power == rank();
}

void TcpWorld::require_whole() {
    const std::lock_guard lock(mutex_);
    if (!failed_) return;
    told_ = true;
    changed_.notify_all();
    if (without_hub_ && tells_of_failure()) throw Error(code_, reason_);
    throw JointError(code_, reason_);
}

std::optional<std::string> TcpWorld::ended_before(const std::string& reason) noexcept {
    try {
        {
            const std::lock_guard lock(mutex_);
            if (without_hub_) return std::nullopt;
        }
        abort(reason);
        std::unique_lock lock(mutex_);
        told_ = true;
        changed_.wait_for(lock, std::chrono::duration<double>(answer_time_s),
                          [this] { return first_failed_ >= 0 || without_hub_; });
        if (first_failed_ < 0 || first_failed_ == rank()) return std::nullopt;
        return first_reason_;
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

bool TcpWorld::has_come(const Key& key) {
    require_whole();
    const std::lock_guard lock(mutex_);
    return come_.contains(key);
}

std::optional<Bytes> TcpWorld::take(const Key& key, double seconds) {
    std::optional<Bytes> bytes;
    {
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, std::chrono::duration<double>(seconds),
                          [&] { return failed_ || come_.contains(key); });
        if (const auto found = come_.find(key); found != come_.end()) {
            bytes = std::move(found->second);
            come_.erase(found);
        }
    }
    if (!bytes) require_whole();
    return bytes;
}

void TcpWorld::abort(const std::string& reason) noexcept {
    try {
        tell({.kind = FrameKind::failure}, bytes_of_text(reason));
        fail(Exit::failure, reason);
    } catch (...) {  // the end of this process says it too
    }
}

// ---- Who is missing ----------------------------------------------------------------------------

void TcpWorld::add_group(u64 id, const std::atomic<i64>& n_started) {
    const std::lock_guard lock(mutex_);
    groups_[id] = &n_started;
}

void TcpWorld::remove_group(u64 id) {
    const std::lock_guard lock(mutex_);
    groups_.erase(id);
}

std::vector<RankStatus> TcpWorld::ask(const std::vector<int>& ranks, u64 group) {
    const std::lock_guard asking(asking_);
    {
        const std::lock_guard lock(mutex_);
        statuses_.clear();
        n_answers_ = 0;
    }
    const auto asked = std::as_bytes(std::span(ranks));
    Frame question{.kind = FrameKind::question};
    question.group = group;
    tell(question, {asked.begin(), asked.end()});
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(answer_time_s),
                      [&] { return failed_ || n_answers_ >= ranks.size(); });
    std::vector<RankStatus> seen;
    for (const int rank : ranks) {
        const auto found = statuses_.find(rank);
        seen.push_back(found != statuses_.end() ? found->second : RankStatus{.rank = rank});
    }
    return seen;
}

}  // namespace lm::comm
