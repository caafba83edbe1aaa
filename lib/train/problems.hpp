// SPDX-License-Identifier: Apache-2.0
// What is wrong with a run: a training stops at the first thing, a plan goes on and lists them all.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"

namespace lm::train {

class Problems {
  public:
    enum class Mode {
        stop,         // the first one is thrown
        collect,      // all are kept
        collect_plan  // the same, and what lm-train cannot do yet is kept apart: another cluster's
                      // plan is right nevertheless
    };
    explicit Problems(Mode mode) : mode_(mode) {}

    // False when `check` threw an Error of the user's making, which was kept.
    template <typename Check>
    bool check(Check&& check) {
        return run(check, found_);
    }
    // The same for something that lm-train cannot do yet.
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
