// SPDX-License-Identifier: Apache-2.0
#include "cluster/file_rendezvous.hpp"

#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <random>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/threads.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::cluster {
namespace {

constexpr double leave_s = 10;
constexpr double check_interval_s = 0.5;

// Polls with growing pauses, because ranks usually meet within milliseconds, but a rank may need
// minutes.
class Poll {
  public:
    void pause() {
        constexpr double longest_s = 0.2;
        std::this_thread::sleep_for(std::chrono::duration<double>(pause_s_));
        pause_s_ = std::min(longest_s, pause_s_ * 1.5);
    }
    double elapsed_s() const { return clock_.elapsed_s(); }

  private:
    Stopwatch clock_;
    double pause_s_ = 0.002;
};

std::string hash_text(const std::string& text) {
    return fmt::format("{:016x}", hash64(text));
}

std::string random_number() {
    std::random_device device;
    return hash_text(fmt::format("{} {} {} {}", device(), device(), ::getpid(), monotonic_s()));
}

// Returns the content of a small file, or an empty text when the file does not exist.
std::string read_if_exists(const std::string& path) {
    try {
        return io::exists(path) ? io::read_file(path) : std::string();
    } catch (const Error&) {
        return {};  // removed between the two calls
    }
}

// Removes the files of an earlier run. Renames the directory first, because other ranks of this run
// may already write into the directory.
void remove_earlier(const std::string& directory) {
    if (!io::exists(directory)) return;
    const std::string old = directory + "." + random_number();
    io::checked::rename(directory, old);
    try {
        io::remove_tree(old);
    } catch (const Error&) {
        // The error is ignored, because the caller removes the whole directory at the end.
    }
}

constexpr const char* directory_remedy = "use a directory that all nodes share";

}  // namespace

FileRendezvous::Failure FileRendezvous::Failure::parse(const std::string& text) {
    const size_t end = text.find('\n');
    if (end == text.npos) return {"another rank", "stopped"};  // the file was removed
    return {text.substr(0, end), text.substr(end + 1)};
}

FileRendezvous::FileRendezvous(const std::string& directory, const Launched& launched,
                               double timeout_s)
    : directory_(directory + "/ranks"),
      launched_(launched),
      start_(key_of_start()),
      timeout_s_(timeout_s),
      seen_alive_(static_cast<size_t>(launched.size)) {}

void FileRendezvous::join() {
    if (launched_.size == 1) return;
    if (launched_.rank == 0) {
        meet_as_first();
    } else {
        meet_as_other();
    }
    alive_thread_ = start_thread([this] { keep_alive(); });
}

FileRendezvous::~FileRendezvous() {
    stop_alive_thread();
}

std::string FileRendezvous::file(std::string_view phase, int rank) const {
    LM_CHECK(!session_.empty(), "expected join() before phase '{}'", phase);
    return fmt::format("{}/{}-{}-{}", directory_, phase, session_, rank);
}

std::string FileRendezvous::join_file(int rank) const {
    return fmt::format("{}/join-{}-{}", directory_, start_, rank);
}

std::string FileRendezvous::go_file() const {
    return directory_ + "/go-" + start_;
}

// ---- Meeting -----------------------------------------------------------------------------------
// Every rank but rank 0 writes a random number into its join file. Rank 0 writes all numbers into
// the go file; the hash of that file is the session. A go file that contains a rank's own number
// belongs to this run, even when the launcher gives two starts the same key.

void FileRendezvous::meet_as_first() {
    remove_earlier(directory_);
    io::checked::make_directory(directory_);
    for (Poll poll;; poll.pause()) {
        std::vector<int> missing;
        std::string numbers;
        for (int rank = 1; rank < launched_.size; ++rank) {
            const std::string number = read_if_exists(join_file(rank));
            if (number.empty()) missing.push_back(rank);
            numbers += number + "\n";
        }
        if (missing.empty()) {
            numbers += random_number();
            session_ = hash_text(numbers);
            return io::write_file(go_file(), numbers, io::Overwrite::yes);
        }
        if (poll.elapsed_s() > timeout_s_) {
            run_error(directory_, "timed out after {:.0f} s waiting for rank{} {} of {}: {}",
                      timeout_s_, missing.size() == 1 ? "" : "s", fmt::join(missing, ", "),
                      launched_.size, directory_remedy);
        }
    }
}

void FileRendezvous::meet_as_other() {
    const std::string number = random_number();
    std::string reason;
    for (Poll poll;; poll.pause()) {
        const std::string numbers = read_if_exists(go_file());
        if (numbers.find(number) != numbers.npos) {
            session_ = hash_text(numbers);
            return;
        }
        // Writes the join file again if rank 0 has removed it together with the files of an earlier
        // run.
        if (io::is_directory(directory_) && !io::exists(join_file(launched_.rank))) {
            try {
                io::write_file(join_file(launched_.rank), number, io::Overwrite::yes);
            } catch (const Error& error) {
                // Rank 0 may have removed the directory a moment ago; then the next attempt
                // succeeds. Otherwise the timeout below reports this error.
                reason = fmt::format(" ({})", error.what());
            }
        }
        if (poll.elapsed_s() > timeout_s_) {
            run_error(directory_, "timed out after {:.0f} s waiting for rank 0{}: {}", timeout_s_,
                      reason, directory_remedy);
        }
    }
}

// ---- Liveness ----------------------------------------------------------------------------------

void FileRendezvous::keep_alive() {
    const double interval_s = std::clamp(timeout_s_ / 8, 0.2, 10.0);
    std::unique_lock lock(alive_mutex_);
    for (i64 n = 0; !stop_alive_; ++n) {
        lock.unlock();
        try {
            publish("alive", fmt::format("{} {}", n, host_name()));
        } catch (const Error&) {
            // Probably the directory was removed because the job has ended. In other cases gather()
            // reports the problem.
        }
        lock.lock();
        alive_stopped_.wait_for(lock, std::chrono::duration<double>(interval_s),
                                [&] { return stop_alive_; });
    }
}

void FileRendezvous::stop_alive_thread() {
    if (!alive_thread_.joinable()) return;
    {
        const std::lock_guard lock(alive_mutex_);
        stop_alive_ = true;
    }
    alive_stopped_.notify_all();
    alive_thread_.join();
}

// Throws Error(failure) when the file "alive" of `rank` has not changed during the timeout,
// measured by the clock of this rank.
void FileRendezvous::check_alive(int rank) {
    const std::string text = read_if_exists(file("alive", rank));
    auto& [seen, changed_s] = seen_alive_[static_cast<size_t>(rank)];
    const double now_s = monotonic_s();
    if (text != seen || changed_s == 0) {
        seen = text;
        changed_s = now_s;
    }
    if (now_s - changed_s <= timeout_s_) return;
    const size_t space = text.find(' ');
    run_error(
        fmt::format("rank {}", rank),
        "did not respond for {:.0f} s{}: its process has ended, or its node cannot write to {}",
        timeout_s_, space == text.npos ? "" : " on host " + text.substr(space + 1), directory_);
}

// ---- Phases ------------------------------------------------------------------------------------

std::set<std::string> FileRendezvous::list_files() const {
    if (!io::is_directory(directory_)) return {};
    const std::vector<std::string> names = io::list_directory(directory_);
    return {names.begin(), names.end()};
}

bool FileRendezvous::has(const std::set<std::string>& files, std::string_view phase,
                         int rank) const {
    return files.contains(fmt::format("{}-{}-{}", phase, session_, rank));
}

void FileRendezvous::publish(std::string_view phase, const std::string& text) {
    if (launched_.size == 1) return;
    io::write_file(file(phase, launched_.rank), text, io::Overwrite::yes);
}

void FileRendezvous::publish_last(std::string_view phase, const std::string& text) {
    stop_alive_thread();
    publish(phase, text);
}

std::vector<std::string> FileRendezvous::gather(std::string_view phase) {
    bool complete = false;
    for (Poll poll; !complete; complete ? void() : poll.pause()) {
        const std::set<std::string> files = list_files();
        check_failures(files);
        complete = true;
        for (int rank = 0; rank < launched_.size; ++rank) {
            if (has(files, phase, rank)) continue;
            complete = false;
            if (rank != launched_.rank) check_alive(rank);
        }
    }
    std::vector<std::string> texts;
    for (int rank = 0; rank < launched_.size; ++rank) {
        texts.push_back(io::read_file(file(phase, rank)));
    }
    return texts;
}

// ---- Failing -----------------------------------------------------------------------------------

void FileRendezvous::check() {
    if (launched_.size == 1) return;
    const double now_s = monotonic_s();
    double due_s = next_check_s_.load();
    if (now_s < due_s) return;
    if (!next_check_s_.compare_exchange_strong(due_s, now_s + check_interval_s)) return;
    check_failures(list_files());
}

void FileRendezvous::check_failures(const std::set<std::string>& files) {
    for (int rank = 0; rank < launched_.size; ++rank) {
        if (rank == launched_.rank || !has(files, "failed", rank)) continue;
        const std::lock_guard lock(failure_mutex_);
        if (!failure_) failure_ = Failure::parse(read_if_exists(file("failed", rank)));
        throw JointError(Exit::failure, failure_->who + ": " + failure_->why);
    }
}

FileRendezvous::Failure FileRendezvous::first_failure(const std::string& own_reason) {
    const std::lock_guard lock(failure_mutex_);
    if (!failure_) {
        failure_ = Failure{fmt::format("rank {} on {}", launched_.rank, host_name()), own_reason};
    }
    return *failure_;
}

bool FileRendezvous::leave(const std::string& why) noexcept {
    if (launched_.size == 1) return false;
    const bool is_rank0 = launched_.rank == 0;
    bool printed_by_rank0 = is_rank0;
    try {
        stop_alive_thread();
        const Failure failure = first_failure(why);
        publish("failed", failure.text());
        double all_left_s = 0;
        bool has_read = is_rank0;
        for (Poll poll; poll.elapsed_s() < leave_s; poll.pause()) {
            const std::set<std::string> files = list_files();
            int n_left = 0, n_read = 1;
            for (int rank = 0; rank < launched_.size; ++rank) {
                n_left += has(files, "failed", rank);
                n_read += has(files, "read", rank);
            }
            if (!has_read && has(files, "failed", 0)) {
                const Failure first = Failure::parse(read_if_exists(file("failed", 0)));
                printed_by_rank0 = first.why == failure.why;
                publish("read", "");
                has_read = true;
            }
            const bool all_left = n_left == launched_.size;
            if (files.empty() || (is_rank0 && all_left && n_read == n_left)) break;
            // When all ranks have left, rank 0 removes the directory. The other ranks wait at most
            // one second for the removal, because a launcher may kill rank 0 as soon as another
            // rank ends.
            if (all_left && all_left_s == 0) all_left_s = poll.elapsed_s();
            if (!is_rank0 && all_left_s > 0 && poll.elapsed_s() > all_left_s + 1) break;
        }
    } catch (const std::exception& error) {
        warn("{}", error.what());
    }
    return printed_by_rank0;
}

}  // namespace lm::cluster
