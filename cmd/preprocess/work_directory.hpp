// SPDX-License-Identifier: Apache-2.0
// PREFIX.unfinished: where the parts of an output grow until they are complete. It outlives a run
// that was killed, and --resume goes on with it; a run that ends in order removes it.
//   lock                  made first and removed last: without it the directory is not ours
//   run.json              the plan (plan.hpp)
//   part-I.K.*            tokens, lengths and documents of key number K (data/dataset_part.hpp)
//   part-I.journal        how far part I has come (part_run.hpp)
//   key-K.bin .idx .json  the outputs, put together
//   complete              they are: from here on they are only renamed
//   ranks/                where ranks meet
// Anything else is somebody else's, and never removed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "io/append_file.hpp"
#include "io/json.hpp"

namespace lm::preprocess {

class WorkDirectory {
  public:
    // For one output per key.
    WorkDirectory(std::string output_prefix, std::vector<std::string> keys);

    const std::string& path() const { return path_; }
    std::string file(const std::string& name) const { return path_ + "/" + name; }
    std::string run_file() const { return file("run.json"); }
    std::string output_prefix(size_t key) const;        // P_KEY_document
    std::string part_stem(i64 part, size_t key) const;  // of DatasetPart
    std::string journal(i64 part) const;
    std::string assembled(size_t key, const char* suffix) const;  // ".bin", ".idx", ".json"

    enum class Found { nothing, work, complete_work };
    // Takes the directory for this process and says what lies there. Throws Error(usage) when
    // another process has it, when it is somebody else's, or when work lies there that neither
    // --resume nor --force is about.
    Found take(bool resume, bool force);
    // This process has taken it, and nothing of an earlier run is in it.
    bool is_begun_here() const { return begun_here_; }
    // Error(usage) for an output that exists and may not be replaced.
    void refuse_existing_outputs(bool force) const;
    bool outputs_exist() const;  // all of them

    // Renames the assembled files to their final names, .idx last, and removes the directory.
    void publish(bool force);
    void remove() noexcept;

  private:
    void refuse_strangers() const;
    void make_lock(bool is_new);
    void clear() const;
    void remove_all() const;  // but for what is somebody else's
    void move(const std::string& from, const std::string& to, bool force) const;

    std::string output_prefix_;
    std::vector<std::string> keys_;
    std::string path_;
    std::unique_ptr<io::AppendFile> lock_;
    bool begun_here_ = false;
};

}  // namespace lm::preprocess
