// SPDX-License-Identifier: Apache-2.0
// The problems of a run, collected so that all of them are reported at once.
#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/problem_list.hpp"

namespace lm::train {

class Problems {
  public:
    // `for_other_hosts`: the run is a plan for another cluster, which stays valid with the problems
    // of check_limit(). These are in limits() then.
    explicit Problems(bool for_other_hosts = false) : for_other_hosts_(for_other_hosts) {}

    // Calls `check`. If it throws an Error, collects the Error and returns false. Rethrows a bug.
    template <typename Check>
    bool check(Check&& check) {
        return run(check, found_);
    }
    // Does what check() does, for a limit of this program or of this host that stops a training,
    // but not a plan: a flag that later versions will have, too little memory or disk.
    template <typename Check>
    bool check_limit(Check&& check) {
        return run(check, for_other_hosts_ ? limits_ : found_);
    }
    void add(std::string text) {
        check([&] { throw Error(Exit::usage, std::move(text)); });
    }

    // Throws an Error with all problems; does nothing when there are none. The exit code is that of
    // the first problem.
    void throw_found() const { throw_problems(found_, code_); }
    const std::vector<std::string>& limits() const { return limits_; }

  private:
    template <typename Check>
    bool run(Check&& check, std::vector<std::string>& kept) {
        try {
            check();
            return true;
        } catch (const Error& error) {
            if (error.code() == Exit::bug) throw;
            if (found_.empty()) code_ = error.code();
            kept.emplace_back(error.what());
            return false;
        }
    }

    bool for_other_hosts_;
    Exit code_ = Exit::usage;
    std::vector<std::string> found_, limits_;
};

}  // namespace lm::train
