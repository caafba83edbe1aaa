// SPDX-License-Identifier: Apache-2.0
// The exception type of the toolkit, and the functions that throw it. Code throws an Error where it
// knows the file or option. cli::run_main() catches the Error and prints one line: "program:
// object: problem: remedy".
#pragma once

#include <fmt/format.h>

#include <exception>
#include <string>
#include <utility>

namespace lm {

// Exit codes. Each man page lists the codes of its program under EXIT STATUS.
enum class Exit : int {
    done = 0,
    answer_is_no = 1,       // the work is done and the answer is no (verify, diff, shmcheck)
    usage = 2,              // wrong usage or configuration; nothing was written
    failure = 3,            // run-time failure: data, I/O, device, communication
    self_stopped = 4,       // training stopped itself: non-finite values or no progress
    bug = 70,               // an internal check failed
    run_again = 75,         // stopped before the end; the same command continues
    do_not_run_again = 76,  // stopped by the kill switch
    superseded = 77         // a newer run uses the checkpoint directory
};

class Error : public std::exception {
  public:
    Error(Exit code, std::string message);  // replaces each fd_path() in `message` by a name
    const char* what() const noexcept override { return message_.c_str(); }
    Exit code() const noexcept { return code_; }

  private:
    Exit code_;
    std::string message_;  // "object: problem: remedy"
};

// An error that every rank of a run throws with the same message; only rank 0 prints it.
class JointError : public Error {
  public:
    using Error::Error;
};

// Throws Error(code, "object: text"). `object` is a file, an option, a tensor, ... The text names
// the problem (observed against expected value) and the remedy.
template <typename... Args>
[[noreturn]] void fail(Exit code, std::string_view object, fmt::format_string<Args...> format,
                       Args&&... args) {
    throw Error(code,
                fmt::format("{}: {}", object, fmt::format(format, std::forward<Args>(args)...)));
}

// Throws Error(usage): a wrong option value or configuration; exit code 2.
template <typename... Args>
[[noreturn]] void usage_error(std::string_view object, fmt::format_string<Args...> format,
                              Args&&... args) {
    fail(Exit::usage, object, format, std::forward<Args>(args)...);
}

// Throws Error(failure): a problem with data, I/O, a device or communication; exit code 3.
template <typename... Args>
[[noreturn]] void run_error(std::string_view object, fmt::format_string<Args...> format,
                            Args&&... args) {
    fail(Exit::failure, object, format, std::forward<Args>(args)...);
}

// Throws Error(bug): a broken invariant of the toolkit itself; exit code 70.
[[noreturn]] void bug(const char* file, int line, std::string_view what);
template <typename First, typename... Args>
[[noreturn]] void bug(const char* file, int line, fmt::format_string<First, Args...> format,
                      First&& first, Args&&... args) {
    bug(file, line, fmt::format(format, std::forward<First>(first), std::forward<Args>(args)...));
}

// Returns the Error that reports `exception`: a copy of `exception` if it is an Error,
// Error(failure) for std::bad_alloc and std::system_error (usually a thread that cannot be
// created), and Error(bug) for any other exception.
Error error_of(const std::exception& exception);

// LM_CHECK(condition, format, arguments...): calls bug() when the condition does not hold, in
// release builds too. The text states the expected and the actual value: "expected dp=4, got dp=2".
#define LM_CHECK(condition, ...)                                      \
    do {                                                              \
        if (!(condition)) ::lm::bug(__FILE__, __LINE__, __VA_ARGS__); \
    } while (false)

}  // namespace lm
