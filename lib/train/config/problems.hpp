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
    // `for_other_hosts`: the run is a plan for another cluster. Problems of check_limit() are then
    // in limits() and do not make the plan invalid.
    explicit Problems(bool for_other_hosts = false) : for_other_hosts_(for_other_hosts) {}

    // Calls check(). If check() throws an Error, collects it and returns false; an Error of code
    // `bug` is rethrown.
    template <typename Check>
    bool check(Check&& check) {
        return run(check, found_);
    }
    // Like check(), but for a limit that prevents a training and not a plan, such as too little
    // memory or disk space on this host.
    template <typename Check>
    bool check_limit(Check&& check) {
        return run(check, for_other_hosts_ ? limits_ : found_);
    }
    void add(std::string text) {
        check([&] { throw Error(Exit::usage, std::move(text)); });
    }

    // Throws an Error with all problems; does nothing when there are none. The first problem gives
    // the exit code.
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
