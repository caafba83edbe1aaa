// SPDX-License-Identifier: Apache-2.0
// Writes a TensorBoard event file: records with a length and checksums (TFRecord) that hold
// Protocol Buffers (tensorflow/core/util/event.proto), encoded here without a library. It writes
// only the version, scalars and SessionLog. The file is written by plain appends, because readers
// tolerate an incomplete last record.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/types.hpp"
#include "io/file.hpp"

namespace lm::metrics {

// Each function returns one complete TFRecord, ready to append to a file.
std::string version_event(double unix_time_s);
// Returns a record that makes readers ignore the values that earlier files of the directory have
// for `step` and later steps.
std::string purge_event(double unix_time_s, i64 step);
std::string scalar_event(double unix_time_s, i64 step, std::string_view tag, float value);

// One complete TFRecord of an event file. `step` is 0 for the version record.
struct EventRecord {
    i64 step = 0;
    std::string_view bytes;
};

// Returns the records before the first incomplete or corrupt record in the text of an event file.
// The records point into `text`.
std::vector<EventRecord> event_records(std::string_view text);

u32 crc32c(std::string_view bytes);

class EventFile {
  public:
    // Creates events.out.tfevents.TIME.HOST.PID.N in `directory`, which is created if needed, and
    // writes the version record and, with `resume_step`, the purge record. Throws Error(failure).
    static EventFile create(const std::string& directory, std::optional<i64> resume_step);

    // Queues a value, which the next flush() writes. `step` must not be negative.
    void scalar(i64 step, std::string_view tag, double value);
    i64 queued() const { return n_queued_; }
    // Appends the queued values in one write. A failed write logs a warning, and this object drops
    // all later values, because a full disk must not stop a training.
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
