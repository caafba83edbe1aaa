// SPDX-License-Identifier: Apache-2.0
// The texts made from an option table: --help, the generated sections of the man page, completion.
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "cli/completion.hpp"
#include "cli/help.hpp"
#include "cli/man.hpp"
#include "cli/options.hpp"
#include "golden.hpp"
#include "support/catch.hpp"
#include "support/temp_dir.hpp"

using lm::i64;
using lm::cli::Bytes;
using lm::cli::Duration;
using lm::cli::HelpDetail;
using lm::cli::Options;

namespace {

struct Args {
    i64 layers = 12;
    double lr = 1e-4;
    Bytes limit{i64{200} << 20};
    Duration watch{10};
    std::string style = "cosine";
    std::string prefix;
    std::vector<std::string> files;
    std::vector<std::string> keys{"text", "title"};
    std::vector<i64> ramp;
    std::optional<std::string> step;
    bool json = false;
};

void declare_common(Options& options, Args& args) {
    options.group("Model");
    options.value("--num-layers,--layers", &args.layers, "N", "layers of the model");
    options.value("--lr,-l", &args.lr, "X",
                  "the peak learning rate. It is reached after the warmup");
    options.choice("--lr-decay-style", &args.style, {"cosine", "linear", "WSD"}, "shape of decay");
}

Options plain_program(Args& args) {
    Options options("lm-demo", "show what a program without verbs looks like");
    declare_common(options, args);
    options.group("Output");
    options.value("--output-prefix", &args.prefix, "PREFIX", "where the pair is written");
    options.values(
        "--a-name-that-needs-a-line-of-its-own", &args.keys, "KEY",
        "keys of the JSON documents that are read, in this order, from every one of them");
    options.values("--ramp", &args.ramp, "START STEP SAMPLES", "how the batch grows");
    options.value("--bwlimit", &args.limit, "SIZE", "maximum bytes per second");
    options.value("--watch", &args.watch, "TIME", "look again after this time");
    options.flag("--json,-j", &args.json, "print JSON Lines on standard output");
    options.value("--tokenizer", &args.prefix, "FILE", "tokenizer.json of a tokenizer");
    options.accepted("--num-workers", 1, "data is read by mmap without worker processes");
    options.accepted("--no-bias-gelu-fusion", 0, "what can be fused is fused");
    options.accepted("--valid-num-workers", 1, "data is read by mmap without worker processes");
    options.refused("--moe", 0, "there are no experts");
    options.positionals("FILE", &args.files, "files to read; - is standard input");
    options.positional("STEP", &args.step, "which one; .hidden, 'quoted' and back\\slash");
    options.examples({"lm-demo --json a b",
                      "lm-demo --a-name-that-needs-a-line-of-its-own text title --ramp 1 2 3 "
                      "--bwlimit 1MB --json a b"});
    return options;
}

Options verb_program(Args& args) {
    Options options("lm-verbs", "show what a program with verbs looks like");
    options.exits_with(lm::Exit::answer_is_no, "the model does not fit");
    options.exits_with(lm::Exit::run_again);
    for (const char* name : {"params", "memory"}) {
        Options& verb =
            options.verb(name, std::string("print the ") + name + " of a model", nullptr);
        declare_common(verb, args);
    }
    Options& eta = options.verb("eta", "print when a run will end", nullptr);
    eta.exits_with(lm::Exit::answer_is_no, "the run has stopped");
    eta.flag("--json", &args.json, "print JSON");
    eta.value("--plot", &args.prefix, "FILE", "draw it");
    Options& info = options.verb("info", "show a pair", nullptr);
    info.value("--model", &args.prefix, "NAME", "whose shape");
    info.completes({"small", "large"});
    info.values("--data-path", &args.files, "[WEIGHT] PREFIX ...", "other pairs");
    info.positional("PREFIX", &args.prefix, "the prefix of a pair");
    eta.positional("LOG", &args.prefix, "a log of lm-train");
    return options;
}

// Returns bash's completions of the last word of `words`, sorted, one per line.
std::string offered(const Options& options, const std::string& words) {
    const std::string script =
        bash_completion(options) + "COMP_WORDS=(" + words +
        ")\n"
        "COMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n"
        "_" +
        (options.program() == "lm-demo" ? "lm_demo" : "lm_verbs") +
        "\n"
        "printf '%s\\n' \"${COMPREPLY[@]}\" | LC_ALL=C sort | tr '\\n' ' '\n";
    const std::string path = "completion_test.bash";
    FILE* file = std::fopen(path.c_str(), "w");
    REQUIRE(file);
    std::fputs(script.c_str(), file);
    std::fclose(file);
    FILE* bash = popen(("cd / && bash " + std::string("\"$OLDPWD\"/") + path).c_str(), "r");
    REQUIRE(bash);
    std::string text;
    for (int c = std::fgetc(bash); c != EOF; c = std::fgetc(bash)) text += static_cast<char>(c);
    CHECK(pclose(bash) == 0);
    std::remove(path.c_str());
    return text;
}

}  // namespace

TEST_CASE("help is grouped, wrapped and shows defaults") {
    Args args;
    check_golden("help_plain.txt", help_text(plain_program(args), HelpDetail::full, 80));
    check_golden("help_narrow.txt", help_text(plain_program(args), HelpDetail::full, 60));
    check_golden("help_verbs.txt", help_text(verb_program(args), HelpDetail::brief, 80));
    Options options = verb_program(args);
    check_golden("help_verb.txt", help_text(*options.verbs()[2], HelpDetail::brief, 80));
}

TEST_CASE("brief help only names the options that are not described") {
    Args args;
    Options options = plain_program(args);
    options.describe_only({"--num-layers", "Output"});
    check_golden("help_brief.txt", help_text(options, HelpDetail::brief, 80));
    // Every group with named options has the hint.
    options.describe_only({"--num-layers"});
    const std::string text = help_text(options, HelpDetail::brief, 80);
    CHECK(text.find("Model:\n  --num-layers N            layers of the model (default 12)\n"
                    "  More, see --help-all: --lr, --lr-decay-style\n") != text.npos);
    CHECK(text.find("Output:\n  More, see --help-all: --output-prefix,") != text.npos);
    CHECK_THROWS_AS(options.describe_only({"--nowhere"}), lm::Error);
}

TEST_CASE("brief help names a family of at least three options by its start") {
    Options options("lm-demo", "a test");
    bool target = false;
    for (const char* name : {"--rope-scaling-factor", "--rope-scaling-low", "--rope-scaling-length",
                             "--rope-other", "--no-a", "--no-b", "--no-c", "--yarn-a", "--yarn-b",
                             "--mscale", "--yarn-c-d", "--yarn-c-e", "--yarn-f"}) {
        options.flag(name, &target, "help");
    }
    options.describe_only({});
    CHECK(help_text(options, HelpDetail::brief, 200)
              .find("More, see --help-all: --rope-*, --no-a, --no-b, --no-c, --yarn-a, --yarn-b, "
                    "--mscale, --yarn-*\n") != std::string::npos);
}

TEST_CASE("help stays within the width where words allow it") {
    Args args;
    for (const int width : {60, 80, 100}) {
        const std::string text = help_text(plain_program(args), HelpDetail::full, width);
        size_t begin = 0;
        while (begin < text.size()) {
            const size_t end = text.find('\n', begin);
            CHECK(end - begin <= static_cast<size_t>(width));
            begin = end + 1;
        }
    }
}

TEST_CASE("the man page's sections") {
    Args args;
    check_golden("man_plain.txt", man_options(plain_program(args)));
    check_golden("man_verbs.txt", man_options(verb_program(args)));
    check_golden("man_exit_plain.txt", man_exit_status(plain_program(args)));
    check_golden("man_exit_verbs.txt", man_exit_status(verb_program(args)));
}

TEST_CASE("bash completes options, verbs, choices and files") {
    Args args;
    const Options plain = plain_program(args);
    CHECK(offered(plain, "lm-demo --l") == "--lr --lr-decay-style ");
    CHECK(offered(plain, "lm-demo --lr-decay-style ''") == "WSD cosine linear ");
    CHECK(offered(plain, "lm-demo --lr-decay-style = l") == "linear ");
    CHECK(offered(plain, "lm-demo --lr-decay-style =") == "WSD cosine linear ");
    CHECK(offered(plain, "lm-demo --num-layers ''") == " ");
    CHECK(offered(plain, "lm-demo --output-prefix et") == "etc ");
    CHECK(offered(plain, "lm-demo et") == "etc ");
    const Options verbs = verb_program(args);
    CHECK(offered(verbs, "lm-verbs ''") == "eta info memory params ");
    CHECK(offered(verbs, "lm-verbs m") == "memory ");
    CHECK(offered(verbs, "lm-verbs -") == "--help --help-all --version ");
    CHECK(offered(verbs, "lm-verbs eta --") == "--help --json --plot --version ");
    CHECK(offered(verbs, "lm-verbs memory --lr-decay-style c") == "cosine ");
    CHECK(offered(verbs, "lm-verbs eta et") == "etc ");
    CHECK(offered(verbs, "lm-verbs info --model l") == "large ");
}

TEST_CASE("bash completes the prefixes of pairs") {
    Args args;
    const Options verbs = verb_program(args);
    lm::test::TempDir dir;
    for (const char* name : {"web_text_document.bin", "web_text_document.idx", "web.jsonl"})
        std::ofstream(dir / name);
    const std::string typed = dir / "we";
    const std::string pair = dir / "web_text_document ";
    CHECK(offered(verbs, "lm-verbs info " + typed) == pair);
    CHECK(offered(verbs, "lm-verbs info --data-path " + typed) == pair);
    CHECK(offered(verbs, "lm-verbs info --data-path 0.3 " + typed) == pair);
    CHECK(offered(verbs, "lm-verbs info --data-path 0.3 x --mo") == "--model ");
}
