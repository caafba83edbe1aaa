// SPDX-License-Identifier: Apache-2.0
// Writes the results of lm-ckpt score to FILE, which appears when all results are complete. Until
// then FILE.partial has the results so far, and a later process can continue this file. The first
// line of FILE.partial names data, checkpoints and options.
#pragma once

#include <string>
#include <vector>

#include "io/append_file.hpp"
#include "io/json.hpp"

namespace lm::eval {

enum class Unfinished { replace, resume };

class ScoreResults {
  public:
    // Opens FILE.partial. With Unfinished::resume, keeps the complete lines of this file. Throws
    // Error(usage) when `path` exists and `force` is false, when another process writes the
    // results, and when the lines belong to another `run`.
    static ScoreResults open(const std::string& path, const io::OrderedJson& run,
                             Unfinished unfinished, bool force);

    // The results of an earlier process, without the first line.
    const std::vector<io::OrderedJson>& earlier() const { return earlier_; }
    // Appends a line. The file keeps the line even if this process is killed.
    void add(const io::OrderedJson& line);
    // Writes the file and removes FILE.partial.
    void finish();

  private:
    ScoreResults(std::string path, io::AppendFile file, bool force)
        : path_(std::move(path)), file_(std::move(file)), force_(force) {}
    void write(const std::string& text);

    std::string path_;
    io::AppendFile file_;
    bool force_;
    std::vector<io::OrderedJson> earlier_;
};

}  // namespace lm::eval
