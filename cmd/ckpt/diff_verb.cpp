// SPDX-License-Identifier: Apache-2.0
// lm-ckpt diff: compares two checkpoints tensor by tensor.
#include "ckpt/verbs/diff.hpp"

#include <unistd.h>

#include <memory>
#include <optional>

#include "base/error.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "cli/terminal.hpp"
#include "foreign.hpp"
#include "io/json.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string a;
    std::string b;
    bool json = false;
    bool weights_only = false;
    bool quiet = false;
};

void print_json(const ckpt::TensorDifference& difference) {
    io::OrderedJson object;
    object["tensor"] = difference.tensor;
    object["kind"] = name_of(difference.kind);
    if (difference.only.empty()) {
        object["elements"] = difference.n_elements;
        object["different"] = difference.n_different;
        object["max"] = difference.max;
        object["relative"] = difference.relative;
        object["rms"] = difference.rms;
    } else {
        object["incomparable"] = difference.only;
    }
    cli::write_stdout(io::json_line(object));
}

void print_text(const ckpt::TensorDifference& difference) {
    const std::string name = fmt::format("{} ({})", difference.tensor, name_of(difference.kind));
    std::vector<std::string> cells = {fmt::format("{:<56}", name)};
    if (difference.only.empty()) {
        cells.push_back(fmt::format("max {:.6e}", difference.max));
        cells.push_back(fmt::format("relative {:.2e}", difference.relative));
        cells.push_back(fmt::format("rms {:.6e}", difference.rms));
        cells.push_back(
            fmt::format("{} of {} differ", difference.n_different, difference.n_elements));
    } else {
        cells.push_back(difference.only);
    }
    const int width = cli::terminal_width(STDOUT_FILENO, 0);
    cli::write_stdout(cli::folded_line(cells, static_cast<size_t>(width)));
}

int run(const Args& args) {
    const auto a = open_tensors(existing_directory(args.a), args.weights_only);
    const auto b = open_tensors(existing_directory(args.b), args.weights_only);
    i64 n_compared = 0;
    i64 n_different = 0;
    const std::span<const ckpt::SliceKind> kinds(ckpt::all_kinds.data(),
                                                 args.weights_only ? 1 : ckpt::all_kinds.size());
    const auto report = [&](const ckpt::TensorDifference& difference) {
        ++n_compared;
        n_different += !difference.equal();
        if (args.json) {
            print_json(difference);
        } else if (!difference.equal()) {
            print_text(difference);
        }
    };
    std::optional<cli::ProgressLine> line;
    ckpt::diff(*a, *b, kinds, report, [&](i64 done, i64 total) {
        if (!line) line.emplace("diff", "numbers", total, args.quiet);
        line->update(done);
    });
    if (line) line->finish();
    if (!args.json) {
        cli::write_stdout(
            n_different == 0
                ? fmt::format("equal: {} tensors, bit for bit\n", n_compared)
                : fmt::format("different: {} of {} tensors\n", n_different, n_compared));
    }
    return static_cast<int>(n_different == 0 ? Exit::done : Exit::answer_is_no);
}

}  // namespace

void add_diff(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb("diff", "compare the tensors of two checkpoints",
                                      [args] { return run(*args); });
    verb.examples(
        {"lm-ckpt diff checkpoints/global_step10 checkpoints/global_step20 --weights-only"});
    verb.positional("A", &args->a,
                    "global_step* directory, directory of steps (its latest step is read), or "
                    "Megatron checkpoint");
    verb.positional("B", &args->b, "checkpoint to compare with; layout and type may differ");
    verb.flag("--weights-only", &args->weights_only, "do not compare masters and Adam moments");
    verb.flag("--json", &args->json,
              "print JSON Lines, one object for each tensor, equal tensors included");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::ckpt_tool
