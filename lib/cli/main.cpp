// SPDX-License-Identifier: Apache-2.0
#include "cli/main.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "base/printable.hpp"
#include "base/problem_list.hpp"
#include "base/version.hpp"
#include "cli/bus_error.hpp"
#include "cli/color.hpp"
#include "cli/completion.hpp"
#include "cli/help.hpp"
#include "cli/man.hpp"
#include "cli/signals.hpp"
#include "cli/terminal.hpp"

namespace lm::cli {
namespace {

std::atomic<bool> notes_hidden = false;

constexpr const char* stdout_name = "standard output";

// Opens /dev/null for each standard descriptor that is closed. The mode is write-only for
// descriptor 0 and read-only for 1 and 2, so that normal use of the descriptor fails. Without this,
// the next file that the program opens would get the number of the closed descriptor, and the
// output of the program would go into that file.
void keep_standard_descriptors() {
    for (int fd = 0; fd <= 2; ++fd) {
        if (fcntl(fd, F_GETFD) != -1 || errno != EBADF) continue;
        const int stand_in = open("/dev/null", fd == 0 ? O_WRONLY : O_RDONLY);
        if (stand_in != fd) std::abort();  // open() returns the lowest free number, which is fd
    }
}

// Returns the rank and the number of ranks that a launcher states. When the variables of the
// launcher are invalid, returns rank 0 of 1; the code that connects the ranks reports the error.
Launched launched() {
    try {
        return launched_by({Launcher::open_mpi, Launcher::pmi, Launcher::torchrun, Launcher::pmix,
                            Launcher::slurm});
    } catch (const Error&) {
        return {};
    }
}

// Returns whether --help explains the error: its object is an option ("--to"), an operand
// ("IN... OUT") or the verb of `command`, or it is about an unexpected operand. --help does not
// explain an error about a file, even if its object is the option that names the file.
bool is_explained_by_help(std::string_view message, std::string_view command) {
    const auto contains = [message](std::string_view text) {
        return message.find(text) != message.npos;
    };
    if (contains("does not exist") || contains("is not a directory") ||
        contains("is a directory") || contains("no directory") || contains("cannot be read") ||
        contains("cannot be written"))
        return false;
    const std::string_view object = message.substr(0, message.find(": "));
    if (object.starts_with("SIG")) return false;  // "SIGINT: stopped"
    const bool operand =
        std::ranges::all_of(
            object, [](char c) { return (c >= 'A' && c <= 'Z') || c == ' ' || c == '.'; }) &&
        object.find_first_not_of(" .") != object.npos;
    return object.starts_with('-') || operand || command.ends_with(fmt::format(" {}", object)) ||
           contains(": unexpected operand");
}

// Prints `before`, `word` in `color`, and `message`. On a terminal, breaks long lines between
// words.
void print_message(const std::string& before, const std::string& word, std::string_view message,
                   std::optional<Color> color) {
    const std::string start = printable(before);
    const size_t width = static_cast<size_t>(terminal_width(STDERR_FILENO, 0));
    std::string text = folded_message(start + word + printable(fmt::format(" {}", message)), width);
    if (color && text.compare(start.size(), word.size(), word) == 0)
        text.replace(start.size(), word.size(), colored(*color, word, STDERR_FILENO));
    print_line(text);
}

class Reporter {
  public:
    Reporter(std::string program, std::function<void(const Error&)> on_error)
        : program_(std::move(program)), on_error_(std::move(on_error)), launched_(launched()) {}

    void log(Severity severity, std::string_view message) const {
        if (severity == Severity::note && (!is_rank0() || notes_hidden)) return;
        const std::string word = fmt::format("{}:", name_of(severity));
        const bool warns = severity == Severity::warning;
        print_message(own_name(), word, message,
                      warns ? std::optional(Color::yellow) : std::nullopt);
    }

    void error(const Error& failure, const std::string& command, bool in_command_line) const {
        const bool on_all_ranks =
            in_command_line || dynamic_cast<const JointError*>(&failure) != nullptr;
        if (on_all_ranks && !is_rank0()) return;
        // Rank 0 prints an error that all ranks throw (JointError) without its own rank, because
        // the text names the rank where the error occurred. It also prints an Error(usage) without
        // its rank, because all ranks have the same command line.
        const bool of_rank =
            !on_all_ranks && launched_.size > 1 && !(is_rank0() && failure.code() == Exit::usage);
        const std::string where = of_rank ? own_place(launched_.rank) + ": " : "";
        bool explained = in_command_line;
        for (const std::string_view problem : problems_in(failure.what())) {
            print_message("", program_ + ":", where + std::string(problem), Color::red);
            explained = explained || is_explained_by_help(problem, command);
        }
        if (explained) {
            print_line("Try '" + command + " --help'.");
        }
        if (on_error_) on_error_(failure);
    }

    // Returns "lm-train", followed by the place of a rank of several.
    std::string name_of_rank() const {
        return launched_.size > 1 ? program_ + ": " + own_place(launched_.rank) : program_;
    }

    // Prints the usage of a command that was given without arguments. The caller then prints the
    // error.
    void usage(const Options& options) const {
        if (is_rank0()) print_line(usage_text(options));
    }

  private:
    bool is_rank0() const { return launched_.rank == 0; }
    // Returns "lm-train: ", followed by the place of a rank other than 0.
    std::string own_name() const {
        return program_ + ": " + (is_rank0() ? "" : own_place(launched_.rank) + ": ");
    }

    std::string program_;
    std::function<void(const Error&)> on_error_;
    Launched launched_;
};

bool answer_generator(const Options& options, const std::vector<std::string>& arguments) {
    if (arguments.empty()) return false;
    if (arguments[0] == "--generate-man-options") {
        write_stdout(man_options(options));
    } else if (arguments[0] == "--generate-man-exit-status") {
        write_stdout(man_exit_status(options));
    } else if (arguments[0] == "--generate-completion" && arguments.size() == 2) {
        const std::string& shell = arguments[1];
        if (shell != "bash" && shell != "zsh" && shell != "fish") return false;
        write_stdout(shell == "bash"  ? bash_completion(options)
                     : shell == "zsh" ? zsh_completion(options)
                                      : fish_completion(options));
    } else {
        return false;
    }
    return true;
}

int run(Options& options, const std::vector<std::string>& arguments,
        const std::function<int()>& body, bool* parsing) {
    if (answer_generator(options, arguments)) return 0;
    const Options::Parsed parsed = options.parse(arguments);
    *parsing = false;
    const Options& chosen = options.chosen_verb() ? *options.chosen_verb() : options;
    if (parsed == Options::Parsed::help || parsed == Options::Parsed::help_all) {
        const bool all = parsed == Options::Parsed::help_all;
        write_stdout(help_text(chosen, all ? HelpDetail::full : HelpDetail::brief));
        return 0;
    }
    if (parsed == Options::Parsed::version) {
        write_stdout(options.program() + " (lm-utils) " + std::string(version()) + "\n");
        return 0;
    }
    const std::function<int()> work = options.chosen_verb() ? options.chosen_run() : body;
    LM_CHECK(work != nullptr, "{}: expected a function to run or a chosen command, got neither",
             options.program());
    return work();
}

// Returns whether the command line has no argument besides a verb.
bool is_bare(Options& options, const std::vector<std::string>& arguments) {
    return arguments.size() == (options.chosen_verb() ? 1 : 0);
}

int guarded(const Reporter& reporter, Options& options, const std::function<int()>& work,
            const std::vector<std::string>& arguments, const bool* parsing) {
    try {
        return work();
    } catch (const Error& failure) {
        const Options* verb = options.chosen_verb();
        if (failure.code() == Exit::usage && is_bare(options, arguments)) {
            reporter.usage(verb ? *verb : options);
        }
        reporter.error(failure, verb ? verb->program() : options.program(), *parsing);
        return static_cast<int>(failure.code());
    } catch (const std::exception& exception) {
        const Error failure = error_of(exception);
        reporter.error(failure, options.program(), false);
        return static_cast<int>(failure.code());
    }
}

}  // namespace

void hide_notes() {
    notes_hidden = true;
}

void write_stdout(std::string_view text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) {
        run_error(stdout_name, "{}", std::strerror(errno));
    }
}

void flush_stdout() {
    if (std::fflush(stdout) != 0) run_error(stdout_name, "{}", std::strerror(errno));
}

int run_main(int argc, char** argv, Options& options, const std::function<int()>& body,
             const std::function<void(const Error&)>& on_error) {
    keep_standard_descriptors();
    std::signal(SIGXFSZ, SIG_IGN);  // so that write() beyond `ulimit -f` fails with EFBIG
    const Reporter reporter(options.program(), on_error);
    set_log_sink([&reporter](Severity severity, std::string_view message) {
        reporter.log(severity, message);
    });
    const std::vector<std::string> arguments(argv + 1, argv + argc);
    bool parsing = true;
    const auto work = [&] {
        (void)may_use(Vectors::none);  // reports an invalid LM_PROCESSOR here, not in a thread
        start_signal_thread();
        report_bus_errors(reporter.name_of_rank());
        return run(options, arguments, body, &parsing);
    };
    const int code = guarded(reporter, options, work, arguments, &parsing);
    parsing = false;
    const auto flush = [] {
        flush_stdout();
        // NFS may report a full disk only when a descriptor is closed (close(2), NOTES).
        const int copy = dup(STDOUT_FILENO);
        if (copy >= 0 && close(copy) != 0) run_error(stdout_name, "{}", std::strerror(errno));
        return 0;
    };
    const int flushed = guarded(reporter, options, flush, arguments, &parsing);
    set_log_sink(nullptr);
    return code == 0 || code == static_cast<int>(Exit::answer_is_no) ? std::max(code, flushed)
                                                                     : code;
}

std::string shell_word(std::string_view word) {
    constexpr std::string_view plain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=,./:@%";
    if (!word.empty() && word.find_first_not_of(plain) == std::string_view::npos)
        return std::string(word);
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + '\'';
}

std::string command_line(int argc, char** argv) {
    std::string line;
    for (int i = 0; i < argc; ++i) line += (i > 0 ? " " : "") + shell_word(argv[i]);
    return line;
}

}  // namespace lm::cli
