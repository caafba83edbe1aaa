// SPDX-License-Identifier: Apache-2.0
#include "cluster/file_rendezvous.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <thread>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::cluster {
namespace {

constexpr double longest_pause_s = 0.2;
constexpr double leave_s = 10;
constexpr double check_s = 0.5;

void pause(double* seconds) {
    std::this_thread::sleep_for(std::chrono::duration<double>(*seconds));
    *seconds = std::min(longest_pause_s, *seconds * 1.5);
}

std::string draw_number() {
    std::random_device device;
    const std::string text =
        fmt::format("{} {} {} {}", device(), device(), ::getpid(), monotonic_s());
    return fmt::format("{:016x}", hash64(text));
}

// The text of a small file, or "" while it is not there.
std::string read_if_there(const std::string& path) {
    try {
        return io::exists(path) ? io::read_file(path) : std::string();
    } catch (const Error&) {
        return {};  // removed in between
    }
}

// Of a rank that was first to fail.
struct Failure {
    std::string who;  // "rank R on HOST"
    std::string why;

    std::string to_text() const { return who + "\n" + why; }
    static Failure parse(const std::string& text) {
        const size_t end = text.find('\n');
        if (end == text.npos) return {"another rank", "stopped"};  // its word has gone
        return {text.substr(0, end), text.substr(end + 1)};
    }
};

}  // namespace

struct FileRendezvous::State {
    std::string directory;
    Launched launched;
    std::string start;  // the same in all processes of it
    double patience_s;
    std::string session;
    std::thread heart;
    std::mutex mutex;
    std::condition_variable stopped;
    bool stop = false;
    std::atomic<double> next_check_s{0};
    std::mutex beats_mutex;
    std::vector<std::pair<std::string, double>> beats;  // of each rank: the last one, seen when
    std::mutex cause_mutex;
    std::optional<Failure> cause;  // why this rank stops, and who was first to

    std::string file(std::string_view phase, int rank) const {
        return fmt::format("{}/{}-{}-{}", directory, phase, session, rank);
    }
    std::string join_file(int rank) const {
        return fmt::format("{}/join-{}-{}", directory, start, rank);
    }
    std::string go_file() const { return directory + "/go-" + start; }

    void sweep_out() const;
    void meet_as_first();
    void meet_as_other();
    void publish(std::string_view phase, const std::string& text) const {
        io::write_file(file(phase, launched.rank), text, io::Overwrite::yes);
    }
    void beat();
    void stop_heart();
    std::set<std::string> names() const;
    bool is_silent(int rank);
    void check_failures(const std::set<std::string>& present);
    Failure cause_or(const std::string& own_fault);
    bool has(const std::set<std::string>& present, std::string_view phase, int rank) const {
        return present.contains(fmt::format("{}-{}-{}", phase, session, rank));
    }
};

// Out of the way first: ranks that came early may be writing into it.
void FileRendezvous::State::sweep_out() const {
    if (!io::exists(directory)) return;
    const std::string old = directory + "." + draw_number();
    io::checked::rename(directory, old);
    try {
        io::remove_tree(old);
    } catch (const Error&) {
        // It goes with the directory around it.
    }
}

void FileRendezvous::State::meet_as_first() {
    sweep_out();
    io::checked::make_directory(directory);
    const Stopwatch watch;
    double wait_s = 0.002;
    for (;;) {
        std::vector<int> missing;
        std::string all;
        for (int rank = 1; rank < launched.size; ++rank) {
            const std::string number = read_if_there(join_file(rank));
            if (number.empty()) missing.push_back(rank);
            all += number + "\n";
        }
        if (missing.empty()) {
            all += draw_number();
            session = fmt::format("{:016x}", hash64(all));
            return io::write_file(go_file(), all, io::Overwrite::yes);
        }
        if (watch.elapsed_s() > patience_s) {
            run_error(directory, "rank{} {} of {} did not come within {:.0f} s: {}",
                      missing.size() == 1 ? "" : "s", fmt::join(missing, ", "), launched.size,
                      patience_s, "does every node see this directory?");
        }
        pause(&wait_s);
    }
}

void FileRendezvous::State::meet_as_other() {
    const std::string number = draw_number();
    const Stopwatch watch;
    double wait_s = 0.002;
    std::string reason;
    for (;;) {
        const std::string go = read_if_there(go_file());
        if (go.find(number) != go.npos) {
            session = fmt::format("{:016x}", hash64(go));
            return;
        }
        // Rank 0 sweeps out the directory when it comes: then this is written again.
        if (io::is_directory(directory) && !io::exists(join_file(launched.rank))) {
            try {
                io::write_file(join_file(launched.rank), number, io::Overwrite::yes);
            } catch (const Error& error) {
                reason = fmt::format(" ({})", error.what());  // swept out just now, or worse
            }
        }
        if (watch.elapsed_s() > patience_s) {
            run_error(directory, "rank 0 did not come within {:.0f} s{}: {}", patience_s, reason,
                      "does every node see this directory?");
        }
        pause(&wait_s);
    }
}

// Signs of life: a number that changes. Clocks of different hosts are never compared.
void FileRendezvous::State::beat() {
    const double heartbeat_s = std::clamp(patience_s / 8, 0.2, 10.0);
    std::unique_lock lock(mutex);
    for (i64 n = 0; !stop; ++n) {
        lock.unlock();
        try {
            publish("alive", fmt::format("{} {}", n, host_name()));
        } catch (const Error&) {
            // The directory is gone: the others are done, or this rank will find out elsewhere.
        }
        lock.lock();
        stopped.wait_for(lock, std::chrono::duration<double>(heartbeat_s), [&] { return stop; });
    }
}

std::set<std::string> FileRendezvous::State::names() const {
    if (!io::is_directory(directory)) return {};
    const std::vector<std::string> list = io::list_directory(directory);
    return {list.begin(), list.end()};
}

bool FileRendezvous::State::is_silent(int rank) {
    const std::string text = read_if_there(file("alive", rank));
    const std::lock_guard lock(beats_mutex);
    auto& [last, seen_s] = beats[static_cast<size_t>(rank)];
    const double now_s = monotonic_s();
    if (text != last || seen_s == 0) {
        last = text;
        seen_s = now_s;
    }
    return now_s - seen_s > patience_s;
}

// Who stops because another one did passes that one's failure on, so that all tell of the first.
void FileRendezvous::State::check_failures(const std::set<std::string>& present) {
    for (int rank = 0; rank < launched.size; ++rank) {
        if (rank == launched.rank || !has(present, "failed", rank)) continue;
        const std::lock_guard lock(cause_mutex);
        if (!cause) cause = Failure::parse(read_if_there(file("failed", rank)));
        throw JointError(Exit::failure, cause->who + ": " + cause->why);
    }
}

Failure FileRendezvous::State::cause_or(const std::string& own_fault) {
    const std::lock_guard lock(cause_mutex);
    if (!cause)
        cause = Failure{fmt::format("rank {} on {}", launched.rank, host_name()), own_fault};
    return *cause;
}

FileRendezvous::FileRendezvous(const std::string& directory, const Launched& launched,
                               double patience_s)
    : state_(std::make_unique<State>()) {
    state_->directory = directory + "/ranks";
    state_->launched = launched;
    state_->start = key_of_start();
    state_->patience_s = patience_s;
    state_->beats.resize(static_cast<size_t>(launched.size));
    if (launched.size == 1) return;
    if (launched.rank == 0) {
        state_->meet_as_first();
    } else {
        state_->meet_as_other();
    }
    state_->heart = std::thread([state = state_.get()] { state->beat(); });
}

void FileRendezvous::State::stop_heart() {
    if (!heart.joinable()) return;
    {
        const std::lock_guard lock(mutex);
        stop = true;
    }
    stopped.notify_all();
    heart.join();
}

FileRendezvous::~FileRendezvous() {
    state_->stop_heart();
}

void FileRendezvous::publish_last(std::string_view phase, const std::string& text) {
    state_->stop_heart();
    publish(phase, text);
}

void FileRendezvous::publish(std::string_view phase, const std::string& text) {
    if (state_->launched.size > 1) state_->publish(phase, text);
}

std::vector<std::string> FileRendezvous::gather(std::string_view phase) {
    State& s = *state_;
    double wait_s = 0.002;
    for (;;) {
        const std::set<std::string> present = s.names();
        s.check_failures(present);
        int n_missing = 0;
        for (int rank = 0; rank < s.launched.size; ++rank) {
            if (s.has(present, phase, rank)) continue;
            ++n_missing;
            if (rank == s.launched.rank || !s.is_silent(rank)) continue;
            const std::string beat = read_if_there(s.file("alive", rank));
            const size_t space = beat.find(' ');
            run_error(fmt::format("rank {}", rank),
                      "no sign of life for {:.0f} s{}: it died, or its node lost {}", s.patience_s,
                      space == beat.npos ? "" : " from host " + beat.substr(space + 1),
                      s.directory);
        }
        if (n_missing == 0) break;
        pause(&wait_s);
    }
    std::vector<std::string> texts;
    for (int rank = 0; rank < s.launched.size; ++rank)
        texts.push_back(io::read_file(s.file(phase, rank)));
    return texts;
}

void FileRendezvous::check() {
    State& s = *state_;
    if (s.launched.size == 1) return;
    const double now_s = monotonic_s();
    double due_s = s.next_check_s.load();
    if (now_s < due_s || !s.next_check_s.compare_exchange_strong(due_s, now_s + check_s)) return;
    s.check_failures(s.names());
}

bool FileRendezvous::leave(const std::string& why) noexcept {
    State& s = *state_;
    if (s.launched.size == 1) return false;
    const bool is_first = s.launched.rank == 0;
    bool is_told = is_first;
    try {
        s.stop_heart();
        const Failure cause = s.cause_or(why);
        s.publish("failed", cause.to_text());
        const Stopwatch watch;
        double wait_s = 0.002;
        double all_left_s = 0;
        for (bool has_read = is_first; watch.elapsed_s() < leave_s;) {
            const std::set<std::string> present = s.names();
            int n_left = 0, n_read = 1;
            for (int rank = 0; rank < s.launched.size; ++rank) {
                n_left += s.has(present, "failed", rank);
                n_read += s.has(present, "read", rank);
            }
            if (!has_read && s.has(present, "failed", 0)) {
                is_told = Failure::parse(read_if_there(s.file("failed", 0))).why == cause.why;
                s.publish("read", "");
                has_read = true;
            }
            if (present.empty() || (is_first && n_left == s.launched.size && n_read == n_left))
                break;
            // Rank 0 sweeps up behind the others; they give it time to, since a launcher may end it
            // as soon as one of them is gone.
            if (n_left == s.launched.size && all_left_s == 0) all_left_s = watch.elapsed_s();
            if (!is_first && all_left_s > 0 && watch.elapsed_s() > all_left_s + 1) break;
            pause(&wait_s);
        }
    } catch (const std::exception& error) {
        warn("{}", error.what());
    }
    return is_told;
}

}  // namespace lm::cluster
