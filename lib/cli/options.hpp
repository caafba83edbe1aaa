// SPDX-License-Identifier: Apache-2.0
// Options are declared once. The parser (CLI11), --help, the man page's OPTIONS section and the
// shell completions all read the same table of options. Parsing opens no file, and prints only
// notes about flags without effect.
//
//     cli::Options options("lm-ckpt", "list, verify, prune and transform checkpoints");
//     options.group("Output");
//     options.value("--keep-last", &args.keep_last, "K", "keep the K newest checkpoints");
//     options.flag("--json", &args.json, "print JSON Lines on standard output");
//
// Conventions: `--x V` and `--x=V`, no abbreviations, the last occurrence wins, an unknown option
// is an error that names the nearest known one, text after a number is an error, `--` ends the
// options. With verbs, the verb is the first argument and all further arguments belong to it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/types.hpp"

namespace lm::cli {

struct Bytes {
    i64 value = 0;  // number of bytes, of an option such as --min-size 2GiB
};
struct Duration {
    double seconds = 0;  // time in seconds, of an option such as --watch 10s
};
// The value of an option that has a default.
template <typename T>
struct WithDefault {
    WithDefault(T initial = {}) : value(std::move(initial)) {}
    operator const T&() const { return value; }

    T value;
    bool given = false;  // the option is on the command line
};

struct Option {
    enum class Kind { normal, accepted, refused, help, help_all, version };
    static constexpr int any_number = 1 << 20;  // no limit on the number of values

    std::vector<std::string> names;  // help shows the first; the rest are aliases
    std::string metavar;             // "N"; empty for a flag
    std::string help;                // sentence fragment, lower case, without a full stop
    std::string default_text;        // empty: help shows no default
    std::string group;
    bool positional = false;
    bool repeatable = false;  // accepts more than one value
    bool hidden = false;
    bool only_named = false;  // --help names the option, --help-all describes it
    bool is_text = true;      // the value is not a number, size or time
    bool is_usual = false;    // messages about an unexpected operand suggest this option
    std::vector<std::string> choices;
    std::vector<std::string> words;  // values that completion offers; other values are valid, too
    std::string neutral_value;       // a refused option with this value is accepted and ignored
    std::string harmless_with;       // a refused option that, with its values, is ignored when the
                                     // command line gives this one its neutral value
    Kind kind = Kind::normal;
    int min_values = 0;  // one occurrence has min_values to max_values values; 0 for a flag
    int max_values = 0;

    const std::string& name() const { return names.front(); }
    bool is_flag() const { return max_values == 0; }
};

// The options that were on a command line.
struct GivenNames {
    using Names = std::set<std::string, std::less<>>;
    Names names;  // of the given options, each with all spellings
    // The names of all options, which copies share; nullptr without a command line.
    std::shared_ptr<Names> declared;

    // Returns whether the option `name` was given. Throws Error(bug) for a name that no option has.
    bool contains(std::string_view name) const {
        LM_CHECK(!declared || declared->contains(name), "{}: no such option", name);
        return names.contains(name);
    }
};

class Options {
  public:
    Options(std::string program, std::string summary);
    ~Options();
    Options(Options&&) noexcept;

    // Sets the heading of the options declared after this call, in help and man page.
    void group(std::string title);

    // `names` is "--name" or "--name,--alias,-n". The default is the value of *target at the time
    // of the declaration; help shows the default unless it is empty or nullopt. An i64 is a count
    // of at least 0: 5_000_000, 5M, 300B.
    void flag(std::string_view names, bool* target, std::string help);
    void flag_off(std::string_view names, bool* target, std::string help);  // sets *target to false
    // T is i64, double, std::string, Bytes, Duration, or std::optional of one of them, or
    // WithDefault of one of them.
    template <typename T>
    void value(std::string_view names, T* target, std::string metavar, std::string help);
    // Declares an option with one or more values. A later occurrence replaces the values of an
    // earlier one. T is std::string, i64 or double.
    template <typename T>
    void values(std::string_view names, std::vector<T>* target, std::string metavar,
                std::string help);
    // Declares an option with one or more values. A later occurrence appends to the values of an
    // earlier one.
    void values_added(std::string_view names, std::vector<std::string>* target, std::string metavar,
                      std::string help);
    // T is std::string or WithDefault<std::string>.
    template <typename T>
    void choice(std::string_view names, T* target, std::vector<std::string> choices,
                std::string help);
    // Makes the value of the last declared option optional. An occurrence without a value sets the
    // first choice.
    void value_is_optional();
    // Sets the words that completion offers as values of the last declared option.
    void completes(std::vector<std::string> words);
    // A message about an operand that is an unexpected path suggests the declared option `name`.
    void operands_mean(std::string_view name);
    void positional(std::string name, std::string* target, std::string help);
    void positional(std::string name, std::optional<std::string>* target, std::string help);
    void positionals(std::string name, std::vector<std::string>* target,
                     std::string help);  // one or more operands
    void positionals_or_none(std::string name, std::vector<std::string>* target, std::string help);

    // Declares a flag of Megatron-LM that has no effect here. Parsing accepts the flag with
    // `n_values` values (-1: any number) and prints one note on stderr with the text `instead`.
    void accepted(std::string_view names, int n_values, std::string instead);
    // Declares a flag of other programs that is not supported. Its use is an Error(usage) with the
    // reason. "--x-*" means all flags with that prefix. With the value `neutral_value`, the flag
    // has no effect, so it is accepted with a note. So it is when the command line gives the
    // refused option `harmless_with` its neutral value.
    void refused(std::string_view names, int n_values, std::string reason,
                 std::string neutral_value = "", std::string harmless_with = "");

    // Hides the options declared so far, from entry `first` of the table to its end, except the
    // listed options. Hidden options are parsed without a note, so that a command line of another
    // program is accepted.
    void show_only(const std::vector<std::string>& groups_and_names, size_t first = 0);
    // From entry `first` of the table to the last option declared so far, --help describes only the
    // listed options and names the others. --help-all describes all options.
    void describe_only(const std::vector<std::string>& names, size_t first = 0);

    // Declares a verb (lm-ckpt ls) and returns its options. run_main() calls `run` of the chosen
    // verb.
    Options& verb(std::string name, std::string summary, std::function<int()> run);

    // Sets words that are not commands; a message about one of them suggests this verb.
    void not_called(std::vector<std::string> words);

    // Parses a command line and stores the values in the targets. At -h, --help, --help-all or
    // --version, parsing ends and returns the value for this option. Throws Error(usage) for an
    // invalid command line; the values of the options before the error are then stored.
    enum class Parsed { run, help, help_all, version };
    Parsed parse(const std::vector<std::string>& arguments);
    bool given(std::string_view name) const;  // whether the option was on the command line
    // Each parse() stores in `given`, which must outlive it, the options of the command line, for
    // code that checks flags without a parser.
    void report_given(GivenNames* given);
    // parse() calls `add_more(problems)` before it throws the problems of a command line. The
    // function adds those that it finds in the values of the other options.
    using Problems = std::vector<std::string>;
    void on_problems(std::function<void(Problems& problems)> add_more);
    // An option on the command line: its first name, and its values as they were given.
    struct Occurrence {
        std::string name;
        std::vector<std::string> values;
    };
    // Returns the options of the command line that have a target, in the order of the command line.
    const std::vector<Occurrence>& occurrences() const;
    // An option with a target, by its first name, and the text of the target's value.
    struct Setting {
        std::string name;
        std::string value;  // of a flag "given" or empty
    };
    // Returns the current values of all options. Of several options with one target, only the first
    // is included.
    std::vector<Setting> settings() const;
    // Returns the options of the chosen verb; nullptr when the command line has no verb.
    Options* chosen_verb();
    std::function<int()> chosen_run() const;

    // Sets the command lines that help_text() and usage_text() print as examples.
    void examples(std::vector<std::string> lines);
    // Adds an exit code besides 0, 2, 3 and 70 to the section EXIT STATUS of the man page. If
    // `meaning` is not empty, it replaces the general text of the code.
    void exits_with(Exit code, std::string meaning = {});

    // Returns the declared options. The built-in options (--help, --help-all and --version) are not
    // among them.
    const std::vector<Option>& table() const;
    bool declares(std::string_view name) const;  // true for each name of each option of table()
    const std::string& program() const;          // "lm-ckpt", or "lm-ckpt ls" for a verb
    const std::string& summary() const;
    const std::vector<std::string>& examples() const;
    std::vector<const Options*> verbs() const;
    const std::vector<std::pair<Exit, std::string>>& exit_codes() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lm::cli
