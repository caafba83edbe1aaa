// SPDX-License-Identifier: Apache-2.0
// The problems of a run. A training stops at the first problem, a plan collects them all.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"

namespace lm::train {

class Problems {
  public:
    // stop: throws the first problem. collect: collects all problems. collect_plan: collects all
    // problems, those of check_built() in not_yet(), because a plan for another cluster stays valid
    // with them.
    enum class Mode { stop, collect, collect_plan };
    explicit Problems(Mode mode) : mode_(mode) {}

    // Calls `check`. Collects the Error that it throws, and returns false then. In Mode::stop, and
    // for a bug, throws the Error on.
    template <typename Check>
    bool check(Check&& check) {
        return run(check, found_);
    }
    // Does as check(), for a problem that a plan may ignore: a feature that lm-train does not have
    // yet, or a limit of this host. With Mode::collect_plan, not_yet() gets the problem.
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
