// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/world.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <exception>

#include "base/log.hpp"
#include "base/threads.hpp"
#include "comm/flight_dump.hpp"
#include "comm/tcp/proof.hpp"
#include "comm/tcp/token_file.hpp"

namespace lm::comm {
namespace {

constexpr double forever_s = 1e9;  // a closed connection ends the wait
constexpr double answer_time_s = 2;
// A rank may continue to compute for this time after the job has failed. Then its reading thread
// ends the process.
constexpr auto time_to_notice = std::chrono::seconds(20);

std::chrono::duration<double> duration(double seconds) {
    return std::chrono::duration<double>(seconds);
}

}  // namespace

TcpWorld::TcpWorld(const Meeting& meeting, const LaunchOptions& options)
    : meeting_(meeting), options_(options), exceptions_at_start_(std::uncaught_exceptions()) {}

void TcpWorld::join() {
    const Deadline deadline(options_.timeout_s, options_.stop_signal);
    if (rank() == 0) {
        start_hub(deadline);
    } else {
        socket_ = join_hub(meeting_, deadline);
    }
    group_ = tcp_group(*this);
    group_->record_to(options_.recorder);
    thread_ = start_thread([this] { read(); });
}

void TcpWorld::start_hub(const Deadline& deadline) {
    TokenFile file(meeting_.token_file);  // until all ranks have joined
    if (meeting_.token.empty()) meeting_.token = random_token();
    if (!meeting_.token_file.empty()) file.write(meeting_.token);
    hub_ = std::make_unique<TcpHub>(meeting_, options_.timeout_s);
    hub_->start();
    socket_ = hub_->connection_of_rank0();
    try {
        publish(meeting_, hub_->port(), deadline);
        if (wait_for_welcome(socket_, meeting_, deadline)) return;
        run_error(place_of(meeting_), "the hub of rank 0 has ended");
    } catch (...) {
        hub_->stop();  // the hub has already sent the reason to the other ranks
        throw;
    }
}

TcpWorld::~TcpWorld() {
    if (!thread_.joinable()) return;  // join() was not called, or has failed
    // In an orderly end, all ranks meet in a barrier, so that rank 0 does not end while other ranks
    // still need its hub.
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

// Ends the connection to the hub. `failing`: this rank has failed, and abort() has already sent its
// error to the hub.
void TcpWorld::leave(bool failing) {
    {
        const std::lock_guard lock(mutex_);
        leaving_ = true;
        changed_.notify_all();
    }
    // After a bye, SHUT_WR lets the hub close the connection, which ends read(). Without a bye, the
    // hub reports to the other ranks that this process has ended.
    if (!failing) send({.kind = FrameKind::bye}, {});
    shutdown(socket_.fd(), failing ? SHUT_RDWR : SHUT_WR);
    thread_.join();
    socket_.reset();
    if (!failing || !hub_) return;
    std::this_thread::sleep_for(duration(1));  // the hub still sends the failure to other ranks
    hub_->stop();
}

std::string TcpWorld::describe() const {
    return fmt::format("{} ranks, met at {}:{}", size(), meeting_.host, meeting_.port);
}

// ---- Sending and receiving ---------------------------------------------------------------------

void TcpWorld::send(Frame frame, const FrameBytes& bytes) {
    frame.from = rank();
    frame.n_bytes = static_cast<u32>(bytes.size());
    const std::lock_guard lock(sending_);  // frames of several threads must not mix
    const Deadline deadline(options_.timeout_s);
    const bool sent = socket_.send_all(std::as_bytes(std::span(&frame, 1)), deadline) &&
                      socket_.send_all(bytes, deadline);
    if (!sent) lose_hub();
}

void TcpWorld::read() {
    const Deadline deadline(forever_s);
    Frame frame;
    FrameBytes bytes;
    while (socket_.receive_all(std::as_writable_bytes(std::span(&frame, 1)), deadline) &&
           frame.n_bytes <= max_frame_bytes) {
        bytes.resize(frame.n_bytes);
        if (!socket_.receive_all(bytes, deadline)) break;
        handle(frame, std::move(bytes));
    }
    lose_hub();  // does not replace the reason of an earlier failure
    // The rank's own thread throws at its next operation. If it starts no operation in time, this
    // thread ends the process.
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, time_to_notice, [this] { return noticed_ || leaving_; })) return;
    if (reports_failure()) warn("{}", reason_);
    std::_Exit(static_cast<int>(code_));
}

void TcpWorld::handle(const Frame& frame, FrameBytes bytes) {
    if (frame.kind == FrameKind::question) return answer(frame);
    if (frame.kind == FrameKind::failure) {
        const std::string text = text_of_bytes(bytes);
        {
            const std::lock_guard lock(mutex_);
            hub_failed_ = true;
            first_failed_ = frame.from;
            first_code_ = static_cast<Exit>(frame.code);
            first_reason_ = text;
        }
        fail(static_cast<Exit>(frame.code), text);
        shutdown(socket_.fd(), SHUT_RD);  // ends read(), because later frames are not needed
        return;
    }
    const std::lock_guard lock(mutex_);
    if (frame.kind == FrameKind::result) {
        arrived_[{frame.group, -1, frame.number}] = std::move(bytes);
    } else if (frame.kind == FrameKind::message) {
        arrived_[{frame.group, frame.member, frame.number}] = std::move(bytes);
    } else if (frame.kind == FrameKind::host) {
        statuses_.push_back({.rank = frame.from, .host = text_of_bytes(bytes)});
    } else if (frame.kind == FrameKind::answer) {
        const auto status = std::ranges::find(statuses_, frame.from, &RankStatus::rank);
        if (status == statuses_.end()) return;  // an answer to an earlier question
        status->answered = true;
        status->n_started = frame.number;
        status->where = text_of_bytes(bytes);
        ++n_answers_;
    }
    changed_.notify_all();
}

void TcpWorld::answer(const Frame& question) {
    Frame frame{.kind = FrameKind::answer, .peer = question.from, .number = -1};
    {
        const std::lock_guard lock(mutex_);
        const auto group = groups_.find(question.group);
        if (group != groups_.end()) frame.number = group->second->load();
    }
    if (options_.recorder) options_.recorder->request_dump();
    send(frame, bytes_of_text(options_.recorder ? options_.recorder->where() : ""));
}

bool TcpWorld::has_arrived(const Key& key) {
    check_failure();
    const std::lock_guard lock(mutex_);
    return arrived_.contains(key);
}

std::optional<FrameBytes> TcpWorld::wait_for(const Key& key, double seconds) {
    std::optional<FrameBytes> bytes;
    {  // frames that arrived before a failure are still returned
        std::unique_lock lock(mutex_);
        changed_.wait_for(lock, duration(seconds),
                          [&] { return failed_ || arrived_.contains(key); });
        if (const auto found = arrived_.find(key); found != arrived_.end()) {
            bytes = std::move(found->second);
            arrived_.erase(found);
        }
    }
    if (!bytes) check_failure();
    return bytes;
}

// ---- Failing -----------------------------------------------------------------------------------

// Records the failure that later operations of this rank throw. Ignores further failures. Also
// ignores failures while the rank leaves without an error, because the hub then closes the
// connection.
void TcpWorld::fail(Exit code, const std::string& text) {
    const std::lock_guard lock(mutex_);
    if (!failed_ && !leaving_) {
        failed_ = true;
        code_ = code;
        reason_ = text;
    }
    changed_.notify_all();
}

void TcpWorld::lose_hub() {
    {
        const std::lock_guard lock(mutex_);
        hub_lost_ = !hub_failed_;
    }
    fail(Exit::failure,
         fmt::format("lost the connection to rank 0 at {}: its process or its host has ended",
                     meeting_.host));
}

// Returns whether this rank prints the failure. Only a few of thousands of ranks print it. Usually
// rank 0 alone reports it. When the connection to rank 0 is lost, the host of rank 0 may be down,
// so ranks 1, 8, 64, ... report the loss; most of these ranks run on other hosts.
bool TcpWorld::reports_failure() const {
    if (!hub_lost_) return rank() == 0;
    int power = 1;
    while (power < rank()) power *= 8;
    return power == rank();
}

// Throws the failure, if there is one. A rank that reports the loss of rank 0 throws an Error; any
// other rank throws a JointError, which only rank 0 prints. Both have the exit code of the failure.
void TcpWorld::check_failure() {
    const std::lock_guard lock(mutex_);
    if (!failed_) return;
    noticed_ = true;
    changed_.notify_all();
    if (hub_lost_ && reports_failure()) throw Error(code_, reason_);
    throw JointError(code_, reason_);
}

std::optional<Error> TcpWorld::ended_before(const Error& own) noexcept {
    try {
        {
            const std::lock_guard lock(mutex_);
            if (hub_lost_) return std::nullopt;
        }
        // The hub answers with the first failure of the job: this error, or an earlier error of
        // another rank.
        abort(own.code(), own.what());
        std::unique_lock lock(mutex_);
        noticed_ = true;
        changed_.wait_for(lock, duration(answer_time_s),
                          [this] { return hub_failed_ || hub_lost_; });
        if (!hub_failed_ || first_failed_ == rank()) return std::nullopt;
        return Error(first_code_, first_reason_);
    } catch (const std::exception&) {
        return std::nullopt;
    }
}

void TcpWorld::abort(Exit code, const std::string& reason) noexcept {
    try {
        send({.kind = FrameKind::failure, .code = static_cast<u8>(code)}, bytes_of_text(reason));
        fail(code, reason);
    } catch (...) {  // the job also ends when this process ends
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

std::vector<RankStatus> TcpWorld::ask(u64 group, int member, size_t n_asked) {
    const std::lock_guard asking(asking_);
    {
        const std::lock_guard lock(mutex_);
        statuses_.clear();
        n_answers_ = 0;
    }
    FlightRecorder* const recorder = options_.recorder;
    const i64 n_dumps = recorder ? recorder->n_dumps() : 0;
    if (recorder) recorder->request_dump();
    send({.kind = FrameKind::question, .peer = member, .group = group}, {});
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, duration(answer_time_s),
                      [&] { return failed_ || n_answers_ >= n_asked; });
    // The hub itself sends a status for each asked rank. If statuses are missing, rank 0, which
    // runs the hub, is stopped.
    std::vector<RankStatus> statuses = statuses_;
    if (statuses.size() < n_asked) statuses = {{.rank = 0, .host = meeting_.host}};
    lock.unlock();
    if (!recorder) return statuses;
    finish_dump(*recorder, n_dumps);
    for (RankStatus& status : statuses) {
        if (!status.answered) status.where = state_of_silent_rank(*recorder, status.rank);
    }
    return statuses;
}

}  // namespace lm::comm
