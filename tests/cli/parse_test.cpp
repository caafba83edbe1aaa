// SPDX-License-Identifier: Apache-2.0
// Parsing of command lines: values, spellings, order, verbs, and all errors.
#include <optional>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/problem_list.hpp"
#include "base/rng.hpp"
#include "cli/help.hpp"
#include "cli/options.hpp"
#include "cli/parse.hpp"
#include "support/catch.hpp"

using lm::i64;
using lm::cli::Bytes;
using lm::cli::Duration;
using lm::cli::Options;
using Arguments = std::vector<std::string>;

namespace {

struct ParsedArgs {
    i64 n = 7;
    double lr = 1e-4;
    std::string name = "x";
    Bytes size{1 << 20};
    Duration time{90};
    std::optional<i64> maybe;
    std::optional<double> ratio;
    std::optional<std::string> text;
    std::vector<std::string> input;
    std::vector<i64> counts;
    std::vector<double> weights;
    std::string style = "cosine";
    bool json = false;
    bool bias = true;
};

struct Fixture {
    ParsedArgs args;
    Options options{"lm-test", "show how options work"};

    Fixture() {
        options.value("--n,--count,-n", &args.n, "N", "a count");
        options.value("--lr", &args.lr, "X", "a number");
        options.value("--name", &args.name, "NAME", "a text");
        options.value("--size", &args.size, "SIZE", "a size");
        options.value("--time", &args.time, "TIME", "a time");
        options.value("--maybe", &args.maybe, "N", "a count or none");
        options.value("--ratio", &args.ratio, "X", "a number or none");
        options.value("--text", &args.text, "TEXT", "a text or none");
        options.values("--input", &args.input, "FILE", "files");
        options.values("--counts", &args.counts, "N", "counts");
        options.values("--weights", &args.weights, "X", "numbers");
        options.choice("--lr-decay-style", &args.style, {"cosine", "linear", "constant"}, "decay");
        options.flag("--json,-j", &args.json, "print JSON");
        options.flag_off("--disable-bias-linear", &args.bias, "no biases");
        options.accepted("--num-workers", 1, "data is read by mmap without worker processes");
        options.accepted("--no-masked-softmax-fusion", 0, "the softmax is always fused");
        options.accepted("--adlr-autoresume-names", -1, "there is no autoresume");
        options.refused("--use-cpu-initialization", 0, "weights do not depend on the device");
        options.refused("--expert-parallel", 1, "there are no experts", "1");
    }
    Options::Parsed parse(const Arguments& arguments) { return options.parse(arguments); }
};

// Returns the message of the usage error that parsing throws; "" when it throws none.
std::string complaint(Options& options, const Arguments& arguments) {
    try {
        options.parse(arguments);
    } catch (const lm::Error& error) {
        CHECK(error.code() == lm::Exit::usage);
        return error.what();
    }
    return "";
}

// Whether `message` names `option` as unknown and suggests nothing.
bool nothing_like(const std::string& option, const std::string& message) {
    return lm::test::has_in_order(message, {option + ": ", "unknown"}) && !message.ends_with("?");
}

}  // namespace

TEST_CASE_METHOD(Fixture, "an empty command line keeps the defaults") {
    CHECK(parse({}) == Options::Parsed::run);
    CHECK(args.n == 7);
    CHECK_FALSE(args.maybe.has_value());
    CHECK_FALSE(options.given("--n"));
}

TEST_CASE_METHOD(Fixture, "values follow the name or an equals sign") {
    parse({"--n", "5", "--name=a=b", "--lr=1e-5", "-j", "--text", "", "--maybe", "3"});
    CHECK(args.n == 5);
    CHECK(args.name == "a=b");
    CHECK(args.lr == 1e-5);
    CHECK(args.json);
    CHECK(args.text == "");
    CHECK(args.maybe == 3);
    CHECK(options.given("--n"));
    CHECK(options.given("--count"));
    CHECK_FALSE(options.given("--size"));
}

TEST_CASE_METHOD(Fixture,
                 "an empty value after an equals sign does not consume the next argument") {
    parse({"--name=", "--n", "3"});
    CHECK(args.name.empty());
    CHECK(args.n == 3);
}

TEST_CASE_METHOD(Fixture, "numbers with units and underscores") {
    parse({"--n", "5_000_000", "--maybe", "300B", "--size", "2GiB", "--time", "30m", "--counts",
           "5M"});
    CHECK(args.n == 5'000'000);
    CHECK(args.maybe == 300'000'000'000);
    CHECK(args.size.value == i64{2} << 30);
    CHECK(args.time.seconds == 1800);
    CHECK(args.counts == std::vector<i64>{5'000'000});
}

TEST_CASE_METHOD(Fixture, "negative numbers are values, but counts refuse them") {
    parse({"--lr", "-1e-3", "--weights", "-1", "-2", "--ratio", "-.5"});
    CHECK(args.lr == -1e-3);
    CHECK(args.weights == std::vector<double>{-1, -2});
    CHECK(args.ratio == -0.5);
    parse({"--weights=-.5"});
    CHECK(args.weights == std::vector<double>{-0.5});
    CHECK_THAT(complaint(options, {"--n", "-5"}), StartsWith("--n: '-5' "));
}

TEST_CASE_METHOD(Fixture, "the last occurrence wins, also for options with several values") {
    parse({"--n", "1", "--count=2", "-n", "3", "--input", "a", "b", "--json", "--input", "c"});
    CHECK(args.n == 3);
    CHECK(args.input == Arguments{"c"});
}

TEST_CASE_METHOD(Fixture, "several values end at the next option") {
    parse({"--input", "a", "-", "[x]", "%%", "--disable-bias-linear"});
    CHECK(args.input == Arguments{"a", "-", "[x]", "%%"});
    CHECK_FALSE(args.bias);
}

TEST_CASE_METHOD(Fixture, "unknown options: the error names the nearest one") {
    CHECK_THAT(complaint(options, {"--coumt", "4"}), HasInOrder("--coumt: ", " --count?"));
    CHECK_THAT(complaint(options, {"--lr_decay_style=x"}),
               HasInOrder("--lr_decay_style: ", " --lr-decay-style?"));
    CHECK_THAT(complaint(options, {"--lr-decay", "x"}),
               HasInOrder("--lr-decay: ", " --lr-decay-style?"));
    CHECK(nothing_like("--zzzzzzz", complaint(options, {"--zzzzzzz"})));
    CHECK(nothing_like("--tp", complaint(options, {"--tp"})));
    CHECK(nothing_like("-z", complaint(options, {"-z"})));
}

TEST_CASE("refused and far longer options are not suggested") {
    bool skip = false;
    i64 lr = 0;
    Options options("lm-x", "x");
    options.flag("--skip-train-iteration-range", &skip, "skip");
    options.value("--lr", &lr, "N", "rate");
    options.refused("--fp8-format", 1, "no fp8");
    options.refused("--moe-*", -1, "no experts");
    CHECK(complaint(options, {"--moe-router-new", "4"}) == "--moe-router-new: no experts");
    CHECK(complaint(options, {"--moe-x=4"}) == "--moe-x: no experts");
    CHECK(nothing_like("--skip-train", complaint(options, {"--skip-train"})));
    CHECK(nothing_like("--fp8-formt", complaint(options, {"--fp8-formt"})));
    CHECK(nothing_like("--tp", complaint(options, {"--tp", "2"})));
    CHECK_THAT(complaint(options, {"--skip-train-iteration-rage"}),
               HasInOrder("--skip-train-iteration-rage: ", " --skip-train-iteration-range?"));
}

TEST_CASE("hidden options of another program are accepted without a note") {
    i64 n = 0, m = 0;
    Options options("lm-x", "x");
    options.value("--n", &n, "N", "count");
    options.group("Others");
    options.value("--m", &m, "N", "other count");
    options.accepted("--old", 0, "nothing is old");
    options.show_only({"--n"});
    std::vector<std::string> notes;
    lm::set_log_sink([&](lm::Severity, std::string_view text) { notes.emplace_back(text); });
    options.parse({"--m", "5", "--old", "--n", "2"});
    lm::set_log_sink({});
    CHECK(n == 2);
    CHECK(m == 5);
    CHECK(notes.empty());
    CHECK(help_text(options, lm::cli::HelpDetail::full, 80).find("--m") == std::string::npos);
    CHECK_THROWS_AS(options.show_only({"--nowhere"}), lm::Error);
}

TEST_CASE_METHOD(Fixture, "no abbreviations") {
    CHECK_THAT(complaint(options, {"--jso"}), HasInOrder("--jso: ", " --json?"));
}

TEST_CASE_METHOD(Fixture, "an invalid number: the error names the option") {
    CHECK_THAT(complaint(options, {"--n", "5x"}), StartsWith("--n: "));
    CHECK_THAT(complaint(options, {"--lr", "fast"}), StartsWith("--lr: "));
    CHECK_THAT(complaint(options, {"--size", "2Q"}), StartsWith("--size: "));
    CHECK_THAT(complaint(options, {"--size", "80"}),
               HasInOrder("--size: '80' ", "80GB, 80GiB or 80B"));
    CHECK_THAT(complaint(options, {"--counts", "1", "b"}), StartsWith("--counts: "));
    CHECK_THAT(complaint(options, {"--n="}), StartsWith("--n: "));
}

TEST_CASE_METHOD(Fixture, "a missing value is an error, never the next option") {
    CHECK_THAT(complaint(options, {"--n"}), HasInOrder("--n: ", "(N)"));
    CHECK_THAT(complaint(options, {"--name", "--json"}), HasInOrder("--name: ", "(NAME)"));
    CHECK_THAT(complaint(options, {"--input", "--json"}), HasInOrder("--input: ", "(FILE)"));
    CHECK_THAT(complaint(options, {"--name", "--"}), HasInOrder("--name: ", "(NAME)"));
    CHECK_THAT(complaint(options, {"--num-workers", "--json"}),
               HasInOrder("--num-workers: ", "(X)"));
    // An unset variable of a script; the next word may be an unknown option.
    CHECK_THAT(complaint(options, {"--n", "--mup", "--lr", "1"}),
               HasInOrder("--n: needs", "--mup: unknown"));
    CHECK_THAT(complaint(options, {"--n", "--lr", "--size", "--json"}),
               HasInOrder("--n: needs", "--lr: needs", "--size: needs"));
    parse({"--name=--x", "--lr", "-1"});
    CHECK(args.name == "--x");
    CHECK(args.lr == -1);
}

TEST_CASE_METHOD(Fixture, "quotes that the shell passed on are named") {
    CHECK_THAT(complaint(options, {"--lr", "'1e-4'"}), HasInOrder("--lr: '1e-4'", "quotes"));
    CHECK_THAT(complaint(options, {"--n", "\"5\""}), HasInOrder("--n: \"5\"", "quotes"));
}

TEST_CASE("options of a feature are harmless when another option turns the feature off") {
    i64 n = 0;
    Options options("lm-x", "x");
    options.value("--n", &n, "N", "count");
    options.refused("--experts", 1, "no experts", "1");
    options.refused("--moe-*", -1, "no experts", "", "--experts");
    options.refused("--topk", 1, "no experts", "", "--experts");
    std::vector<std::string> notes;
    lm::set_log_sink([&](lm::Severity, std::string_view text) { notes.emplace_back(text); });
    options.parse(
        {"--moe-loss", "0.1", "--experts", "1", "--topk=2", "--moe-a", "b", "c", "--n", "3"});
    lm::set_log_sink({});
    CHECK(n == 3);
    CHECK(notes.size() == 4);
    const auto objects = [&](const Arguments& arguments) {
        std::string text;
        const std::string all = complaint(options, arguments);
        for (const std::string_view problem : lm::problems_in(all))
            text += problem.substr(0, problem.find(": ") + 2);
        return text;
    };
    CHECK(objects({"--experts", "8", "--moe-x", "1", "--topk", "1"}) ==
          "--experts: --topk: --moe-x: ");
    CHECK(objects({"--experts", "--moe-x", "1"}) == "--experts: --moe-x: ");
    CHECK(objects({"--moe-x", "1"}) == "--moe-x: ");
}

TEST_CASE_METHOD(Fixture, "more problems are added to those of the command line") {
    options.on_problems([&](Arguments& problems) {
        CHECK(args.n == 5);
        problems.emplace_back("more");
    });
    CHECK(complaint(options, {"--n", "5"}).empty());
    CHECK_THAT(complaint(options, {"--n", "5", "--what"}), HasInOrder("--what: ", "more"));
}

TEST_CASE_METHOD(Fixture, "all problems of a command line are reported, in order") {
    const std::string all =
        complaint(options, {"--lr", "fast", "--nonsense", "3", "--num-workers", "--json",
                            "--expert-parallel", "2", "--lr-decay-style", "cos"});
    std::string objects;
    for (const std::string_view problem : lm::problems_in(all))
        objects += problem.substr(0, problem.find(": ") + 2);
    CHECK(objects == "--lr: --num-workers: --expert-parallel: --lr-decay-style: --nonsense: ");
    CHECK(lm::summary_of(all) == std::string(lm::problems_in(all)[0]) + " (and 4 more)");
    CHECK(lm::summary_of("one") == "one");
}

TEST_CASE_METHOD(Fixture, "a flag has no value") {
    CHECK_THAT(complaint(options, {"--json=yes"}), HasInOrder("--json: ", "'='"));
    CHECK_THAT(complaint(options, {"--json", "yes"}), HasInOrder("yes: ", "--json"));
}

TEST_CASE_METHOD(Fixture, "a wrong choice lists the choices") {
    CHECK_THAT(complaint(options, {"--lr-decay-style", "cos"}),
               HasInOrder("--lr-decay-style: 'cos' ", "cosine, linear, constant: ", " cosine?"));
    parse({"--lr-decay-style", "linear"});
    CHECK(args.style == "linear");
}

TEST_CASE_METHOD(Fixture, "accepted flags give one note, and their values are skipped") {
    Arguments notes;
    lm::set_log_sink([&notes](lm::Severity severity, std::string_view message) {
        CHECK(severity == lm::Severity::note);
        notes.emplace_back(message);
    });
    parse({"--num-workers", "2", "--no-masked-softmax-fusion", "--adlr-autoresume-names", "a", "b",
           "--n", "4", "--num-workers=8", "--adlr-autoresume-names"});
    lm::set_log_sink(nullptr);
    CHECK(args.n == 4);
    CHECK(notes ==
          Arguments{"--num-workers: ignored: data is read by mmap without worker processes",
                    "--no-masked-softmax-fusion: ignored: the softmax is always fused",
                    "--adlr-autoresume-names: ignored: there is no autoresume"});
    CHECK(options.given("--num-workers"));
}

TEST_CASE_METHOD(Fixture, "refused flags: the error states the reason") {
    CHECK(complaint(options, {"--use-cpu-initialization"}) ==
          "--use-cpu-initialization: weights do not depend on the device");
    CHECK(complaint(options, {"--expert-parallel", "2"}) ==
          "--expert-parallel: there are no experts");
    CHECK(complaint(options, {"--expert-parallel"}) == "--expert-parallel: there are no experts");
}

TEST_CASE_METHOD(Fixture, "a refused flag is ignored with its neutral value") {
    Arguments notes;
    lm::set_log_sink(
        [&notes](lm::Severity, std::string_view message) { notes.emplace_back(message); });
    parse({"--expert-parallel", "1"});
    parse({"--expert-parallel=1.0"});
    lm::set_log_sink(nullptr);
    CHECK(notes == Arguments{"--expert-parallel: ignored: the value 1 has no effect",
                             "--expert-parallel: ignored: the value 1.0 has no effect"});
    CHECK(complaint(options, {"--expert-parallel", "1", "1"}) ==
          "--expert-parallel: there are no experts");
    CHECK(complaint(options, {"--expert-parallel", "1x"}) ==
          "--expert-parallel: there are no experts");
}

TEST_CASE_METHOD(Fixture, "help and version win over unknown options") {
    CHECK(parse({"-h"}) == Options::Parsed::help);
    CHECK(parse({"--nonsense", "--help"}) == Options::Parsed::help);
    CHECK(parse({"--version", "--help"}) == Options::Parsed::version);
}

TEST_CASE("operands: each gets its minimum, the first that accepts more gets the rest") {
    std::string out;
    std::vector<std::string> in;
    std::optional<std::string> step;
    SECTION("several, then one") {
        Options options("lm-convert", "convert");
        options.positionals("IN", &in, "what");
        options.positional("OUT", &out, "where to");
        options.parse({"a", "b", "c"});
        CHECK(in == Arguments{"a", "b"});
        CHECK(out == "c");
        CHECK_THAT(complaint(options, {"a"}), HasInOrder("OUT: ", ": where to"));
        CHECK_THAT(complaint(options, {}), HasInOrder("IN: ", ": what"));
    }
    SECTION("one, then an optional one") {
        Options options("lm-ckpt latest", "print or set");
        options.positional("DIR", &out, "directory");
        options.positional("STEP", &step, "step");
        options.parse({"d"});
        CHECK(out == "d");
        CHECK_FALSE(step.has_value());
        CHECK_FALSE(options.given("STEP"));
        options.parse({"d", "7"});
        CHECK(step == "7");
        CHECK_THAT(complaint(options, {"d", "7", "8"}), HasInOrder("8: ", "DIR and STEP"));
    }
    SECTION("after -- everything is an operand") {
        Options options("lm-x", "x");
        bool flag = false;
        options.flag("--flag", &flag, "a flag");
        options.values("--node", &in, "PATH", "paths");
        options.positional("DIR", &out, "directory");
        options.parse({"--node", "a", "--", "--flag"});
        CHECK(out == "--flag");
        CHECK_FALSE(flag);
        options.parse({"-7"});
        CHECK(out == "-7");
    }
}

TEST_CASE("verbs have their own options") {
    bool json = false;
    std::string dir;
    i64 keep = 3;
    Options options("lm-ckpt", "transform checkpoints");
    Options& ls = options.verb("ls", "list steps", [] { return 10; });
    ls.flag("--json", &json, "print JSON");
    ls.positional("DIR", &dir, "directory");
    Options& prune = options.verb("prune", "remove old steps", [] { return 11; });
    prune.value("--keep-last", &keep, "K", "keep the K newest");
    prune.positional("DIR", &dir, "directory");

    CHECK(options.parse({"prune", "d", "--keep-last", "5"}) == Options::Parsed::run);
    CHECK(options.chosen_verb() == &prune);
    CHECK(options.chosen_run()() == 11);
    CHECK(keep == 5);
    CHECK(prune.given("--keep-last"));
    CHECK(options.parse({"ls", "--help"}) == Options::Parsed::help);
    CHECK(options.chosen_verb() == &ls);

    CHECK(nothing_like("--keep-last", complaint(options, {"ls", "d", "--keep-last", "5"})));
    CHECK_THAT(complaint(options, {"prnue"}), HasInOrder("prnue: ", " prune?"));
    CHECK_THAT(complaint(options, {"prnue", "--keep-first", "2"}),
               HasInOrder("prnue: ", " prune?"));
    CHECK_THAT(complaint(options, {"frobnicate"}), HasInOrder("frobnicate: ", "ls, prune"));
    CHECK_THAT(complaint(options, {}), HasInOrder("command: ", "ls, prune"));
    CHECK_THAT(complaint(options, {"--json", "ls"}), HasInOrder("--json: ", "command"));
    CHECK(options.parse({"--version"}) == Options::Parsed::version);
    CHECK(options.chosen_verb() == nullptr);
}

TEST_CASE("a program may have verbs and operands") {
    std::vector<std::string> input;
    std::string prefix;
    Options options("lm-preprocess", "tokenize");
    options.values("--input", &input, "FILE", "files");
    options.verb("info", "print", [] { return 0; }).positional("PREFIX", &prefix, "prefix");
    CHECK(options.parse({"--input", "info"}) == Options::Parsed::run);
    CHECK(input == Arguments{"info"});
    CHECK(options.chosen_verb() == nullptr);
    options.parse({"info", "p"});
    CHECK(prefix == "p");
    CHECK_THAT(complaint(options, {"inof", "p"}), HasInOrder("inof: ", " info?"));
}

TEST_CASE("a path, a value or another word in the place of a command or option") {
    std::vector<std::string> input;
    std::string directory, model;
    Options tool("lm-preprocess", "tokenize");
    tool.values("--input", &input, "FILE", "files");
    tool.operands_mean("--input");
    tool.verb("info", "print", [] { return 0; }).not_called({"describe", "stat"});
    CHECK_THAT(complaint(tool, {"corpus.jsonl", "--input", "x"}),
               HasInOrder("corpus.jsonl: ", " --input corpus.jsonl?"));
    CHECK_THAT(complaint(tool, {"describe"}), HasInOrder("describe: ", " info?"));
    CHECK_THAT(complaint(tool, {"tokenize"}), HasInOrder("tokenize: ", " --input ", " info"));
    CHECK_THAT(complaint(tool, {"--input", "x", "--", "y"}), HasInOrder("y: ", "only options"));

    Options verbs("lm-ckpt", "checkpoints");
    verbs.verb("ls", "list", [] { return 0; }).positional("DIR", &directory, "directory");
    verbs.verb("prune", "remove", [] { return 0; });
    CHECK_THAT(complaint(verbs, {"/"}), HasInOrder("/: ", "path", "ls, prune"));

    Options train("lm-train", "train");
    train.value("--model", &model, "NAME", "model");
    train.completes({"gpt2-124m", "llama-7b"});
    train.values("--data-path", &input, "PREFIX", "data");
    train.operands_mean("--data-path");
    CHECK_THAT(complaint(train, {"gpt2-124m"}), HasInOrder("gpt2-124m: ", " --model gpt2-124m?"));
    CHECK_THAT(complaint(train, {"data/corpus"}),
               HasInOrder("data/corpus: ", " --data-path data/corpus?"));
    CHECK_THAT(complaint(train, {"corpus"}), HasInOrder("corpus: ", "only options"));
    CHECK_THAT(complaint(train, {"--model=a", "--data-path=a", "--", "b/c"}),
               HasInOrder("b/c: ", "only options"));
    bool bf16 = false;
    train.flag("--bf16", &bf16, "precision");
    CHECK_THAT(complaint(train, {"--bf16", "true"}), HasInOrder("true: ", "--bf16"));
    double lr = 0;
    train.value("--lr", &lr, "X", "rate");
    CHECK_THAT(complaint(train, {"--lr", "1e-3", "1e-4"}), HasInOrder("1e-4: ", "--lr"));
    CHECK_THAT(complaint(train, {""}), HasInOrder("'': ", "empty"));
    std::vector<i64> steps;
    train.values("--iterations-to-skip", &steps, "N ...", "steps");
    CHECK_THAT(complaint(train, {"--iterations-to-skip", "1", "4-7"}),
               HasInOrder("--iterations-to-skip: '4-7' ", "range"));
    CHECK_THAT(complaint(train, {"--iterations-to-skip", "1", "x"}),
               HasInOrder("--iterations-to-skip: 'x' "));

    Options latest("lm-x", "x");
    std::optional<std::string> step;
    latest.positional("DIR", &directory, "directory");
    latest.positional("STEP", &step, "step");
    CHECK_THAT(complaint(latest, {"a", "2", "4"}), HasInOrder("4: ", "DIR and STEP"));
}

TEST_CASE("declaring a name twice or without dashes is a bug") {
    i64 n = 0;
    Options options("lm-x", "x");
    options.value("--n", &n, "N", "n");
    CHECK_THROWS_AS(options.value("--m,--n", &n, "N", "n"), lm::Error);
    CHECK_THROWS_AS(options.value("m", &n, "N", "n"), lm::Error);
    CHECK_THROWS_AS(options.given("--nonsense"), lm::Error);
}

TEST_CASE("the settings are the values of all targets") {
    std::optional<i64> n;
    double lr = 1e-3;
    bool on = false, off = true;
    std::vector<i64> list;
    Options options("lm-x", "x");
    options.value("--n,--count", &n, "N", "n");
    options.value("--lr", &lr, "LR", "lr");
    options.flag("--on", &on, "on");
    options.flag_off("--not-on", &on, "not on");
    options.flag_off("--no-off", &off, "off");
    options.values("--list", &list, "N ...", "list");
    options.accepted("--old", 0, "has no effect");
    const auto text = [&options] {
        std::string all;
        for (const auto& [name, value] : options.settings()) all += name + "=" + value + " ";
        return all;
    };
    CHECK(text() == "--n= --lr=0.001 --on= --no-off= --list= ");
    options.parse({"--count", "1_000", "--lr", "1e-2", "--on", "--no-off", "--list", "1", "2"});
    CHECK(text() == "--n=1000 --lr=0.01 --on=given --no-off=given --list=1 2 ");
}

TEST_CASE("given options are known without the parser, and asking for an unknown one is a bug") {
    lm::cli::WithDefault<i64> n = 7;
    lm::cli::WithDefault<double> lr = 1.0;
    lm::cli::WithDefault<std::string> style{"a"}, other{"a"};
    lm::cli::GivenNames given;
    CHECK_FALSE(given.contains("--n"));
    Options options("lm-x", "x");
    options.report_given(&given);
    options.value("--n,--count", &n, "N", "n");
    options.value("--lr", &lr, "LR", "lr");
    options.choice("--style", &style, {"a", "b"}, "style");
    options.choice("--other", &other, {"a", "b"}, "other");
    options.parse({"--n", "7", "--style", "b"});
    CHECK(n.given);
    CHECK_FALSE(lr.given);
    CHECK((style.given && style.value == "b"));
    CHECK((!other.given && other.value == "a"));
    CHECK(given.contains("--count"));
    CHECK_FALSE(given.contains("--lr"));
    CHECK_THROWS_AS(given.contains("--nonsense"), lm::Error);
    options.parse({});
    CHECK_FALSE(given.contains("--count"));
}

TEST_CASE_METHOD(Fixture, "any command line is parsed or refused (random command lines)") {
    const Arguments words = {"--n",
                             "--n=",
                             "-n",
                             "-n5",
                             "--lr",
                             "--name=--n",
                             "--input",
                             "--",
                             "-",
                             "",
                             "--json",
                             "--json=",
                             "-j",
                             "-jn",
                             "--=x",
                             "---",
                             "5",
                             "-5",
                             "a",
                             "[a,b]",
                             "%%",
                             "{}",
                             "--help=",
                             "--num-workers",
                             "--adlr-autoresume-names",
                             "--lr-decay-style",
                             "linear",
                             "++",
                             "\n",
                             "--no\nsense",
                             "--counts",
                             "=",
                             "--use-cpu-initialization"};
    int n_refused = 0;
    for (lm::u64 run = 0; run < 3000; ++run) {
        Arguments arguments;
        const lm::u64 length = lm::mix(run, 0) % 6;
        for (lm::u64 i = 1; i <= length; ++i)
            arguments.push_back(words[lm::mix(run, i) % words.size()]);
        try {
            parse(arguments);
        } catch (const lm::Error& error) {
            REQUIRE(error.code() == lm::Exit::usage);
            ++n_refused;
        }
    }
    CHECK(n_refused > 1000);
    CHECK(n_refused < 3000);
}
