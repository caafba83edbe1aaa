// SPDX-License-Identifier: Apache-2.0
// A TensorBoard event file: length-prefixed, checksummed records of hand-encoded protobuf
// (tensorflow/core/util/event.proto). Only scalars and the session mark. A torn last record is
// tolerated by readers, so the file is only ever appended to.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/types.hpp"
#include "io/file.hpp"

namespace lm::metrics {

// One record with its framing, ready to append.
std::string version_event(double unix_time_s);
// Tells readers to drop what earlier files of the directory say about `step` and later ones.
std::string purge_event(double unix_time_s, i64 step);
std::string scalar_event(double unix_time_s, i64 step, std::string_view tag, float value);

u32 crc32c(std::string_view bytes);

class EventFile {
  public:
    // Creates events.out.tfevents.TIME.HOST.PID.N in `directory`, which is created if needed, and
    // writes the version record and, with `resume_step`, the purge record. Throws Error(failure).
    static EventFile create(const std::string& directory, std::optional<i64> resume_step);

    // Queued until flush(). Steps must not be negative.
    void scalar(i64 step, std::string_view tag, double value);
    i64 queued() const { return n_queued_; }
    // Appends what is queued in one write. A failure is a warning, and the end of this file: a
    // training does not stop because of a full disk.
    void flush();

    const std::string& path() const { return path_; }

  private:
    EventFile(std::string path, io::Fd fd) : path_(std::move(path)), fd_(std::move(fd)) {}
    std::string path_;
    io::Fd fd_;
    std::string queue_;
    i64 n_queued_ = 0;
};

}  // namespace lm::metrics
