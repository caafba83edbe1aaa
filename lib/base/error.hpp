// SPDX-License-Identifier: Apache-2.0
// The one exception type. It is thrown where the file or option is known, caught once per program
// (cli::run_main) and printed as one line: "program: object: what is wrong[: what to do]".
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

namespace lm {

// What a process tells its caller; the table stands in every man page (EXIT STATUS).
enum class Exit : int {
    done = 0,
    answer_is_no = 1,      // the work was done and the answer is no (verify, diff, shmcheck)
    usage = 2,             // usage or configuration; nothing was touched
    failure = 3,           // run-time failure: data, I/O, device, communication
    self_stopped = 4,      // training stopped itself: non-finite, superseded, no progress
    bug = 70,              // a bug of ours
    run_again = 75,        // stopped with state saved and work left
    do_not_run_again = 76  // kill switch
};

class Error : public std::exception {
  public:
    Error(Exit code, std::string message) : code_(code), message_(std::move(message)) {}
    const char* what() const noexcept override { return message_.c_str(); }
    Exit code() const noexcept { return code_; }

  private:
    Exit code_;
    std::string message_;  // "object: what is wrong[: what to do]"
};

// An error that every rank of a run throws alike, so that only rank 0 prints it.
class JointError : public Error {
  public:
    using Error::Error;
};

// Throws Error(code, "object: text"). `object` is a file, an option, a tensor...
template <typename... Args>
[[noreturn]] void fail(Exit code, std::string_view object, fmt::format_string<Args...> format,
                       Args&&... args) {
    throw Error(code,
                fmt::format("{}: {}", object, fmt::format(format, std::forward<Args>(args)...)));
}

// A wrong option value or configuration: exit 2.
template <typename... Args>
[[noreturn]] void usage_error(std::string_view object, fmt::format_string<Args...> format,
                              Args&&... args) {
    fail(Exit::usage, object, format, std::forward<Args>(args)...);
}

// Data, I/O or device trouble while running: exit 3.
template <typename... Args>
[[noreturn]] void run_error(std::string_view object, fmt::format_string<Args...> format,
                            Args&&... args) {
    fail(Exit::failure, object, format, std::forward<Args>(args)...);
}

// A broken invariant of our own: exit 70. Always on, in release builds too.
[[noreturn]] void bug(const char* file, int line, std::string_view what);

#define LM_CHECK(condition, what)                              \
    do {                                                       \
        if (!(condition)) ::lm::bug(__FILE__, __LINE__, what); \
    } while (false)

}  // namespace lm
