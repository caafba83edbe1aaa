// SPDX-License-Identifier: Apache-2.0
// The problems of a run. A training stops at the first problem, a plan collects them all.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"

namespace lm::train {

class Problems {
  public:
    enum class Mode {
        stop,         // throw the first problem
        collect,      // collect all problems
        collect_plan  // collect all, but missing features separately: they do not make a plan for
                      // another cluster wrong
    };
    explicit Problems(Mode mode) : mode_(mode) {}

    // Calls `check`. Returns false when it threw an Error that was collected. Does not collect a
    // bug.
    template <typename Check>
    bool check(Check&& check) {
        return run(check, found_);
    }
    // Calls `check`, which tests for a feature that lm-train does not have yet. Returns as check().
    template <typename Check>
    bool check_built(Check&& check) {
        return run(check, mode_ == Mode::collect_plan ? not_yet_ : found_);
    }
    void add(std::string text) {
        check([&] { throw Error(Exit::usage, std::move(text)); });
    }

    const std::vector<std::string>& found() const { return found_; }
    const std::vector<std::string>& not_yet() const { return not_yet_; }

  private:
    template <typename Check>
    bool run(Check&& check, std::vector<std::string>& kept) {
        try {
            check();
            return true;
        } catch (const Error& error) {
            if (mode_ == Mode::stop || error.code() == Exit::bug) throw;
            kept.emplace_back(error.what());
            return false;
        }
    }

    Mode mode_;
    std::vector<std::string> found_, not_yet_;
};

}  // namespace lm::train
