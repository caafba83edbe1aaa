// SPDX-License-Identifier: Apache-2.0
// A dataset build with the byte tokenizer in a directory of its own, and an observer that counts
// and can request a stop.
#pragma once

#include <atomic>
#include <string>

#include "io/atomic.hpp"
#include "io/file.hpp"
#include "preprocess/dataset_build.hpp"
#include "support/temp_dir.hpp"

namespace lm::test {

class TestObserver final : public preprocess::BuildObserver {
  public:
    void begin(i64 total_bytes) override { begun_bytes = total_bytes; }
    void resumed(const preprocess::BuildTotals& done) override {
        resumed_documents += done.documents;
    }
    void advance(const preprocess::BuildTotals& chunk, i64 disk_bytes) override {
        documents += chunk.documents;
        disk += disk_bytes;
    }
    bool stop_requested() override { return documents >= stop_after_documents; }

    i64 begun_bytes = -2;
    std::atomic<i64> documents{0}, resumed_documents{0}, disk{0};
    i64 stop_after_documents = INT64_MAX;
};

struct BuildFixture {
    TempDir dir{memory_root()};
    preprocess::BuildOptions options;
    TestObserver observer;

    BuildFixture() {
        options.output_prefix = dir / "out";
        options.tokenizer.type = "ByteTokenizer";
        options.workers = 1;
    }
    // Writes `text` to a file and adds it to the inputs.
    void add_input(const std::string& name, const std::string& text) {
        io::write_file(dir / name, text, io::Overwrite::yes);
        options.inputs.push_back(dir / name);
    }
    preprocess::BuildResult build() { return preprocess::build_datasets(options, observer); }
    std::string output(const std::string& suffix) const {
        return io::read_file(options.output_prefix + "_text_document" + suffix);
    }
    bool has_work_directory() const { return io::exists(options.output_prefix + ".unfinished"); }
};

// `n` lines of about `bytes` bytes each.
inline std::string json_lines(i64 n, i64 bytes = 40) {
    std::string text;
    for (i64 i = 0; i < n; ++i) {
        text += R"({"text": "document )" + std::to_string(i) + " " +
                std::string(static_cast<size_t>(bytes), 'x') + "\"}\n";
    }
    return text;
}

}  // namespace lm::test
