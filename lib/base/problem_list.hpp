// SPDX-License-Identifier: Apache-2.0
// An Error with several problems of one command line. A program prints each problem on a line of
// its own. In the message of the Error, an ASCII record separator separates the problems.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace lm {

// Throws an Error with these problems; does nothing when there are none.
void throw_problems(const std::vector<std::string>& problems, Exit code = Exit::usage);
// Returns the message of an Error with these problems.
std::string text_of_problems(const std::vector<std::string>& problems);
// Returns the problems in the message of an Error. Only an Error of throw_problems() has more than
// one problem.
std::vector<std::string_view> problems_in(std::string_view message);
// Returns the message of an Error as one line: the first problem and the number of further
// problems.
std::string summary_of(std::string_view message);

// Problems, collected so that all of them are reported at once.
class Problems {
  public:
    // `for_other_hosts`: the run is a plan for another cluster. Problems of check_limit() are then
    // in limits() and do not make the plan invalid.
    explicit Problems(bool for_other_hosts = false) : for_other_hosts_(for_other_hosts) {}

    // Calls check(). If check() throws an Error, collects it and returns false; an Error of code
    // `bug` or `run_again` is rethrown: a bug or a stop signal is no problem of the command line.
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
    const std::vector<std::string>& found() const { return found_; }
    const std::vector<std::string>& limits() const { return limits_; }

  private:
    template <typename Check>
    bool run(Check&& check, std::vector<std::string>& kept) {
        try {
            check();
            return true;
        } catch (const Error& error) {
            if (error.code() == Exit::bug || error.code() == Exit::run_again) throw;
            if (found_.empty()) code_ = error.code();
            // Two checks may read the same wrong value.
            for (const std::string_view text : problems_in(error.what())) {
                if (std::ranges::find(kept, text) == kept.end()) kept.emplace_back(text);
            }
            return false;
        }
    }

    bool for_other_hosts_;
    Exit code_ = Exit::usage;
    std::vector<std::string> found_, limits_;
};

// Calls each check and throws one Error with the problems of all; does nothing without problems.
template <typename... Checks>
void check_all(const Checks&... checks) {
    Problems problems;
    (problems.check(checks), ...);
    problems.throw_found();
}

}  // namespace lm
