// SPDX-License-Identifier: Apache-2.0
// PREFIX.unfinished: the directory in which the parts of an output grow until they are complete. A
// killed run leaves the directory, and so does a stopped run with --resume. A later run with
// --resume continues the work in it. A complete run removes the directory.
//   lock                  created first, removed last; a directory without lock belongs to the user
//   run.json              description of the build (run_description.hpp)
//   part-I.K.*            tokens, lengths and documents of key number K (dataset_part.hpp)
//   part-I.journal        how far part I was encoded (part_journal.hpp)
//   key-K.bin .idx .json  the assembled outputs
//   complete              present when the outputs are assembled and need only be renamed
// Any other file belongs to the user and is never removed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "io/append_file.hpp"
#include "io/directory.hpp"
#include "io/json_fwd.hpp"

namespace lm::preprocess {

class WorkDirectory {
  public:
    // There is one output per key. The constructor accesses no file.
    WorkDirectory(std::string output_prefix, std::vector<std::string> keys);

    const std::string& path() const { return path_; }
    size_t n_keys() const { return keys_.size(); }
    std::string file(const std::string& name) const {
        return (directory_ ? directory_->path() : path_) + "/" + name;
    }
    std::string run_file() const { return file("run.json"); }
    std::string output_prefix(size_t key) const;          // PREFIX_KEY_document
    std::vector<std::string> output_prefixes() const;     // [keys]
    std::string part_stem(i64 part, size_t key) const;    // the stem of a data::DatasetPart
    std::vector<std::string> part_stems(i64 part) const;  // [keys]
    std::string journal(i64 part) const;
    std::string assembled(size_t key, const char* suffix) const;  // suffix: ".bin", ".idx", ".json"

    enum class Found { nothing, unfinished, complete };
    // Creates and locks the directory, and returns what an earlier run left in it. Throws
    // Error(usage) when another process has the lock, when the directory contains a file that
    // lm-preprocess did not write, or when it contains unfinished work and neither `resume` nor
    // `force` is set.
    Found claim(bool resume, bool force);
    // Returns whether claim() found no unfinished work or removed it.
    bool is_new() const { return is_new_; }
    // Throws Error(usage) for an output that exists and must not be replaced.
    void refuse_existing_outputs(bool force) const;
    bool outputs_exist() const;  // whether all outputs exist

    // Renames the assembled files to their final names, .idx last, and removes the directory.
    void publish(bool force);
    void remove() noexcept;

  private:
    void refuse_foreign_files() const;
    void make_lock(bool directory_is_new);
    void clear() const;
    void remove_all() const;  // removes the directory, but keeps files of the user
    void move(const std::string& from, const std::string& to, bool force) const;

    std::string output_prefix_;
    std::vector<std::string> keys_;
    std::string path_;
    std::optional<io::Directory> directory_;  // path_, open since claim()
    std::unique_ptr<io::AppendFile> lock_;
    bool is_new_ = false;
};

}  // namespace lm::preprocess
