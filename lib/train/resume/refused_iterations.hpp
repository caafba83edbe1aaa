// SPDX-License-Identifier: Apache-2.0
// The iterations whose batches --on-nan and --on-spike have refused: single batches (skip) and
// windows (rollback). Rank 0 stores them in a file in the directory of --save. So a run that
// restarts from an earlier step skips the same iterations, even if the refusal had a transient
// cause.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "comm/group.hpp"
#include "io/json_fwd.hpp"
#include "train/config/run_config.hpp"

namespace lm::train {

constexpr std::string_view refused_iterations_file = "refused-iterations.json";

// The iterations `first` to `last`, both included. Iteration `last` was refused; the others are the
// iterations since the step to which the run went back.
struct RefusedRange {
    i64 first = 0, last = 0;
    bool rolled_back = false;
    bool spike = false;  // a spike; false: a value that is not finite
    i64 in_a_row = 0;    // refused steps of this kind in a row, up to and including `last`

    bool contains(i64 iteration) const { return iteration >= first && iteration <= last; }
    friend bool operator==(const RefusedRange&, const RefusedRange&) = default;
};

class RefusedIterations {
  public:
    // Reads on rank 0 the file in the directory `save`, and returns its ranges on all ranks.
    // `load`: the step or directory of steps from which the run resumes. If `load` belongs to
    // another run, adds the ranges of that run's file to the file in `save`. Ignores a file with
    // another digest than `batches`. Prints notes that name the ranges after iteration `start`. If
    // `save` or `load` is an empty text, does not use that directory. Collective.
    static RefusedIterations read(comm::Group& world, const std::string& save,
                                  const std::string& load, const std::string& batches, i64 start);

    // Adds a range, and writes the file on rank 0. If writing fails, prints a warning. The range
    // replaces all ranges that it contains. It also replaces a range that ends at the same
    // iteration, because a rollback adds its range again when the loaded step shows where the range
    // begins.
    void add(const RefusedRange& range);
    // Returns the range that contains the iteration; nullptr: none.
    const RefusedRange* find(i64 iteration) const;

  private:
    // Rank 0 only: adds the ranges of the file at `path` that no known range contains. Notes those
    // that begin after the iteration `start`.
    void adopt(const std::string& path, i64 start);

    std::string path_;  // empty: this rank writes no file
    std::string batches_;
    std::vector<RefusedRange> ranges_;
};

// Returns a digest of everything that determines which samples each iteration consumes. `data`: the
// result of training_data().
std::string digest_of_batches(const RunConfig& config, const io::OrderedJson& data);

}  // namespace lm::train
