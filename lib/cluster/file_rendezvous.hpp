// SPDX-License-Identifier: Apache-2.0
// Lets ranks meet in a directory of a shared file system, without network or MPI. A rank publishes
// short texts by phase, as files DIRECTORY/ranks/PHASE-SESSION-RANK, and waits for the texts of the
// other ranks. Each run has its own session number, so files of an earlier run are never read as
// files of this run.
//
// A rank is alive while its file "alive" changes; a thread of the rank rewrites that file. A rank
// that fails publishes "failed". Clocks of different hosts are never compared.
#pragma once

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "base/launcher.hpp"

namespace lm::cluster {

class FileRendezvous {
  public:
    FileRendezvous(const std::string& directory, const Launched& launched, double timeout_s);
    ~FileRendezvous();
    FileRendezvous(const FileRendezvous&) = delete;
    FileRendezvous& operator=(const FileRendezvous&) = delete;

    // Meets the other ranks in DIRECTORY/ranks. Call it once, before all other members. Rank 0 must
    // have created DIRECTORY; the other ranks wait until DIRECTORY exists. Blocks until all
    // `launched.size` ranks have joined. A single rank writes no files. After `timeout_s`, throws
    // Error(failure) naming the missing ranks. Collective.
    void join();

    // Publishes `text` under `phase`. Call it once for each phase.
    void publish(std::string_view phase, const std::string& text);
    // Publishes `text` under `phase`. Afterwards this rank writes no file, not even "alive".
    void publish_last(std::string_view phase, const std::string& text);
    // Blocks until all ranks have published under `phase`, and returns their texts by rank. Throws
    // Error(failure) when a rank has not published and its file "alive" has not changed for
    // `timeout_s`. Throws JointError(failure) "rank R on HOST: why" when a rank has failed. The
    // error names the first failure, whichever rank reported it.
    std::vector<std::string> gather(std::string_view phase);
    // When a rank has failed, throws the same error as gather(). Reads the directory at most twice
    // a second, so any thread may call this function every few milliseconds.
    void check();

    // Publishes that this rank fails because of `why`, and waits at most 10 s until all ranks have
    // published their failures. Afterwards rank 0 may remove DIRECTORY. Returns whether rank 0
    // prints the same failure. If so, the caller throws a JointError, which only rank 0 prints.
    bool leave(const std::string& why) noexcept;

  private:
    // The first failure of the job. A rank that stops because of this failure publishes this
    // failure instead of its own.
    struct Failure {
        std::string who;  // "rank R on HOST"
        std::string why;
        std::string text() const { return who + "\n" + why; }
        static Failure parse(const std::string& text);
    };

    std::string file(std::string_view phase, int rank) const;
    std::string join_file(int rank) const;
    std::string go_file() const;
    void meet_as_first();
    void meet_as_other();
    void keep_alive();
    void stop_alive_thread();
    std::set<std::string> list_files() const;
    bool has(const std::set<std::string>& files, std::string_view phase, int rank) const;
    void check_alive(int rank);
    void check_failures(const std::set<std::string>& files);
    Failure first_failure(const std::string& own_reason);

    std::string directory_;
    Launched launched_;
    std::string start_;  // equal on all ranks that were started together
    double timeout_s_;
    std::string session_;
    std::atomic<double> next_check_s_{0};
    // For each rank: the last known text of its file "alive", and the time at which the text
    // changed.
    std::vector<std::pair<std::string, double>> seen_alive_;
    std::mutex failure_mutex_;
    std::optional<Failure> failure_;  // guarded by failure_mutex_
    std::mutex alive_mutex_;
    std::condition_variable alive_stopped_;
    bool stop_alive_ = false;  // guarded by alive_mutex_
    std::thread alive_thread_;
};

}  // namespace lm::cluster
