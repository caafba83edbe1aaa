// SPDX-License-Identifier: Apache-2.0
// Processes that meet in a directory of a shared file system: no network, no MPI. Each one
// publishes small texts by name and waits for those of the others. What an earlier run left in the
// directory is never taken for one of this run: all file names carry a number that this meeting
// drew.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/launcher.hpp"

namespace lm::cluster {

class FileRendezvous {
  public:
    // Meets the others in DIRECTORY/ranks; rank 0 has made DIRECTORY, the others wait for it.
    // Returns when all `launched.size` ranks are there. Throws Error(failure) naming those that are
    // not within `patience_s`.
    FileRendezvous(const std::string& directory, const Launched& launched, double patience_s);
    ~FileRendezvous();
    FileRendezvous(const FileRendezvous&) = delete;
    FileRendezvous& operator=(const FileRendezvous&) = delete;

    // Makes `text` known under `phase`, once.
    void publish(std::string_view phase, const std::string& text);
    // The same, and nothing more is written by this rank afterwards, no sign of life either.
    void publish_last(std::string_view phase, const std::string& text);
    // What all ranks published under `phase`, in order of the ranks. Throws Error(failure) when a
    // rank has shown no sign of life for `patience_s`; when one has failed, JointError(failure)
    // "rank R on HOST: why", with the rank that was first to, whoever told of it.
    std::vector<std::string> gather(std::string_view phase);
    // Throws as gather() does when a rank has failed. Cheap enough for every few milliseconds.
    void check();

    // Tells the others that this rank stops, and waits (10 s at most) until all have noticed; after
    // that nobody touches DIRECTORY any more. True: rank 0 tells people why, so that this one need
    // not.
    bool leave(const std::string& why) noexcept;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace lm::cluster
