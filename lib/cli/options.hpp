// SPDX-License-Identifier: Apache-2.0
// Options are declared once: the parser (CLI11), --help, the man page's OPTIONS section and the
// shell completions all come from this table. Parsing opens nothing and prints nothing.
//
//     cli::Options options("lm-ckpt", "list, verify, prune and transform checkpoints");
//     options.group("Output");
//     options.value("--keep-last", &args.keep_last, "K", "keep the K newest checkpoints");
//     options.flag("--json", &args.json, "print JSON Lines on standard output");
//
// Manners: `--x V` and `--x=V`, no abbreviations, the last one wins, unknown options are errors
// that name the nearest known one, junk after a number is an error, `--` ends the options. With
// verbs, the verb is the first argument and what follows belongs to it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.hpp"
#include "base/types.hpp"

namespace lm::cli {

struct Bytes {
    i64 value = 0;  // --min-size 2GiB
};
struct Duration {
    double seconds = 0;  // --watch 10s
};

struct Option {
    enum class Kind { normal, accepted, later, refused, help, version };
    static constexpr int any_number = 1 << 20;  // of values

    std::vector<std::string> names;  // the first is the one that help shows; the rest are aliases
    std::string metavar;             // "N"; empty for a flag
    std::string help;                // one sentence, lower case, no full stop
    std::string default_text;        // empty: none shown
    std::string group;
    bool positional = false;
    bool repeatable = false;  // takes one or more values
    bool hidden = false;
    std::vector<std::string> choices;
    std::vector<std::string> words;  // that completion offers, where others are taken too
    Kind kind = Kind::normal;
    int min_values = 0;  // that follow one occurrence; both are zero for a flag
    int max_values = 0;

    const std::string& name() const { return names.front(); }
    bool is_flag() const { return max_values == 0; }
};

class Options {
  public:
    Options(std::string program, std::string summary);
    ~Options();
    Options(Options&&) noexcept;

    // Options declared after this call stand under this heading in help and man page.
    void group(std::string title);

    // `names` is "--name" or "--name,--alias,-n". The target's value at this call is the default
    // and is shown, unless it is empty or nullopt. An i64 is a count: 5_000_000, 5M, 300B, not
    // negative.
    void flag(std::string_view names, bool* target, std::string help);
    void flag_off(std::string_view names, bool* target, std::string help);  // sets it to false
    void value(std::string_view names, i64* target, std::string metavar, std::string help);
    void value(std::string_view names, double* target, std::string metavar, std::string help);
    void value(std::string_view names, std::string* target, std::string metavar, std::string help);
    void value(std::string_view names, Bytes* target, std::string metavar, std::string help);
    void value(std::string_view names, Duration* target, std::string metavar, std::string help);
    void value(std::string_view names, std::optional<i64>* target, std::string metavar,
               std::string help);
    void value(std::string_view names, std::optional<double>* target, std::string metavar,
               std::string help);
    void value(std::string_view names, std::optional<std::string>* target, std::string metavar,
               std::string help);
    void value(std::string_view names, std::optional<Bytes>* target, std::string metavar,
               std::string help);
    void value(std::string_view names, std::optional<Duration>* target, std::string metavar,
               std::string help);
    // One or more values after one name; a later occurrence replaces an earlier one.
    void values(std::string_view names, std::vector<std::string>* target, std::string metavar,
                std::string help);
    void values(std::string_view names, std::vector<i64>* target, std::string metavar,
                std::string help);
    void values(std::string_view names, std::vector<double>* target, std::string metavar,
                std::string help);
    // The same, but a later occurrence adds to an earlier one: none may be lost without a word.
    void values_added(std::string_view names, std::vector<std::string>* target, std::string metavar,
                      std::string help);
    void choice(std::string_view names, std::string* target, std::vector<std::string> choices,
                std::string help);
    // The shell completes these words as values of the option declared last.
    void completes(std::vector<std::string> words);
    void positional(std::string name, std::string* target, std::string help);
    void positional(std::string name, std::optional<std::string>* target, std::string help);
    void positionals(std::string name, std::vector<std::string>* target,
                     std::string help);  // 1 or more
    void positionals_or_none(std::string name, std::vector<std::string>* target, std::string help);

    // A Megatron flag that means nothing here: accepted with `n_values` values (-1: any number) and
    // one note on stderr that says what happens instead.
    void accepted(std::string_view names, int n_values, std::string instead);
    // A flag of others that this program lacks: Error(usage) with the reason; --x-*: all of them.
    void refused(std::string_view names, int n_values, std::string reason);

    // One that it does not have yet. Parsing takes it, and given_later() has its name and reason:
    // where it matters, the program refuses it.
    struct Later {
        std::string name;
        std::string reason;
    };
    void later(std::string_view names, int n_values, std::string reason);
    const std::vector<Later>& given_later() const;

    // Of the options declared so far only those of these groups and names are shown. The others are
    // taken as before, without a note, so that a command line of another program can be given.
    void show_only(const std::vector<std::string>& groups_and_names);

    // A verb (lm-ckpt ls): its own options. The chosen verb's `run` is called by run_main.
    Options& verb(std::string name, std::string summary, std::function<int()> run);

    // Throws Error(usage). -h/--help and --version set the result instead of parsing on. Targets of
    // options before the error have their new values.
    enum class Parsed { run, help, version };
    Parsed parse(const std::vector<std::string>& arguments);
    bool given(std::string_view name) const;  // was this option on the command line?
    // The verb that was chosen and its Options; nullptr without verbs.
    Options* chosen_verb();
    std::function<int()> chosen_run() const;

    // Lines shown under the options in --help: examples, the man page's name.
    void epilogue(std::string text);
    // A code that this program returns besides 0, 2, 3 and 70, for the page's EXIT STATUS;
    // `meaning` replaces the general wording.
    void exits_with(Exit code, std::string meaning = {});

    // The table as declared, without --help and --version.
    const std::vector<Option>& table() const;
    const std::string& program() const;  // "lm-ckpt"; of a verb "lm-ckpt ls"
    const std::string& summary() const;
    const std::string& epilogue() const;
    std::vector<const Options*> verbs() const;
    const std::vector<std::pair<Exit, std::string>>& exit_codes() const;

  private:
    struct Impl;
    std::unique_ptr<Impl> impl_;
};

}  // namespace lm::cli
