// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp_world.hpp"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <numeric>

#include "base/clock.hpp"
#include "base/joint_error.hpp"
#include "base/log.hpp"

namespace lm::comm {
namespace {

constexpr double forever_s = 1e9;  // the other side's end wakes a thread that waits so long
constexpr double answer_time_s = 2;
constexpr double ask_apart_s = 0.05;
constexpr double ask_latest_s = 10;
// How long a rank may compute on after the job has failed before it is ended.
constexpr auto ignored = std::chrono::seconds(20);

std::string host_name() {
    char name[256] = "";
    gethostname(name, sizeof name - 1);
    return name;
}

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
    group_->watch(options_.watch);
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
        sightings_.push_back(
            {frame.from, true, frame.number, text.substr(0, blank), text.substr(blank + 1)});
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
    const std::string where = options_.watch ? options_.watch->where() : "";
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

std::vector<Sighting> TcpWorld::ask(const std::vector<int>& ranks, u64 group) {
    const std::lock_guard asking(asking_);
    {
        const std::lock_guard lock(mutex_);
        sightings_.clear();
    }
    const auto asked = std::as_bytes(std::span(ranks));
    Frame question{.kind = FrameKind::question};
    question.group = group;
    tell(question, {asked.begin(), asked.end()});
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, std::chrono::duration<double>(answer_time_s),
                      [&] { return failed_ || sightings_.size() >= ranks.size(); });
    std::vector<Sighting> seen;
    for (const int rank : ranks) {
        const auto found = std::ranges::find(sightings_, rank, &Sighting::rank);
        seen.push_back(found != sightings_.end() ? *found : Sighting{.rank = rank});
    }
    return seen;
}

// ---- Groups ------------------------------------------------------------------------------------

TcpGroup::TcpGroup(TcpWorld& world, u64 id, std::vector<int> ranks, int rank, std::string name)
    : Group(std::move(name), rank, static_cast<int>(ranks.size())),
      world_(world),
      id_(id),
      ranks_(std::move(ranks)) {
    world_.add_group(id_, n_started_);
}

TcpGroup::~TcpGroup() {
    world_.remove_group(id_);
}

std::string TcpGroup::missing(const Operation& operation, i64 number, double waited_s) {
    std::vector<int> asked;
    for (int member = 0; member < size(); ++member) {
        const bool counts = number >= 0 ? member != rank() : member == operation.peer;
        if (counts) asked.push_back(ranks_[static_cast<size_t>(member)]);
    }
    Operation named = operation;
    if (named.peer >= 0) named.peer = ranks_[static_cast<size_t>(named.peer)];
    return missing_text(named.str(), number, world_.ask(asked, id_), world_.size(), waited_s);
}

Frame TcpGroup::frame_of(const Operation& o, i64 number) const {
    Frame frame{.kind = is_message(o.kind) ? FrameKind::message : FrameKind::post};
    frame.to = rank();
    frame.peer = o.peer;
    frame.group = id_;
    frame.number = number;
    frame.n = o.n;
    frame.operation = static_cast<u8>(o.kind);
    frame.reduction = static_cast<u8>(o.reduction);
    frame.dtype = static_cast<u8>(o.dtype);
    return frame;
}

i64 TcpGroup::start(const Operation& o) {
    world_.require_whole();
    const auto* const data = static_cast<const std::byte*>(o.in);
    const i64 n_bytes = o.kind == Kind::reduce_scatter ? o.bytes() * size() : o.bytes();
    Bytes bytes;
    const bool gives = o.kind != Kind::broadcast || o.peer == rank();
    if (data != nullptr && gives) bytes.assign(data, data + n_bytes);
    if (o.kind == Kind::send) {
        world_.tell(frame_of(o, n_sent_[o.peer]++), bytes);
        return 0;  // the hub keeps it until it is wanted
    }
    Started started{o, {}};
    if (o.kind == Kind::receive) {
        const int from = ranks_[static_cast<size_t>(o.peer)];
        started.key = {id_, from, n_received_[o.peer]++};
    } else {
        started.key = {id_, -1, count_collective()};
        world_.tell(frame_of(o, started.key.number), bytes);
    }
    const i64 ticket = under_way_.open();
    *under_way_.find(ticket) = started;
    return ticket;
}

Bytes TcpGroup::wait_for(const Started& started) {
    // One after another, so that a large job is not flooded.
    const double timeout_s =
        world_.options().timeout_s + std::min(rank() * ask_apart_s, ask_latest_s);
    if (auto bytes = world_.take(started.key, timeout_s)) return std::move(*bytes);
    const i64 number = started.key.member < 0 ? started.key.number : -1;
    const std::string text = missing(started.operation, number, timeout_s);
    world_.abort(fmt::format("group '{}': {}", name(), text));
    run_error(fmt::format("group '{}'", name()), "{}", text);
}

void TcpGroup::finish(i64 ticket, const Started& started, const Bytes& bytes) {
    const Operation& o = started.operation;
    const i64 wanted = o.kind == Kind::all_gather ? o.bytes() * size() : o.bytes();
    if (o.out != nullptr && static_cast<i64>(bytes.size()) != wanted) {
        fail(Exit::bug, fmt::format("group '{}'", name()), "{}: the message has {} bytes", o.str(),
             bytes.size());
    }
    if (o.out != nullptr && wanted > 0) std::memcpy(o.out, bytes.data(), bytes.size());
    under_way_.close(ticket);
}

void TcpGroup::wait(i64 ticket) {
    const Started* const started = under_way_.find(ticket);
    if (started != nullptr) finish(ticket, *started, wait_for(*started));
}

bool TcpGroup::done(i64 ticket) {
    const Started* const started = under_way_.find(ticket);
    if (started == nullptr) return true;
    if (!world_.has_come(started->key)) return false;
    wait(ticket);
    return true;
}

std::unique_ptr<Group> TcpGroup::make_part(int color, int key, std::string part_name) {
    const Started started{{Kind::split}, {id_, -1, count_collective()}};
    const i64 told[] = {color, key};
    const auto bytes = std::as_bytes(std::span(told));
    world_.tell(frame_of({Kind::split}, started.key.number), {bytes.begin(), bytes.end()});
    const Bytes answer = wait_for(started);
    auto [id, ranks] = part_of_bytes(answer);
    const auto own = std::ranges::find(ranks, world_.rank()) - ranks.begin();
    return std::make_unique<TcpGroup>(world_, id, std::move(ranks), static_cast<int>(own),
                                      std::move(part_name));
}

}  // namespace lm::comm
