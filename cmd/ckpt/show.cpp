// SPDX-License-Identifier: Apache-2.0
// lm-ckpt show: prints configuration, counters and tensor table of one checkpoint.
#include <memory>

#include "base/units.hpp"
#include "ckpt/checkpoint.hpp"
#include "ckpt/index.hpp"
#include "ckpt/leftovers.hpp"
#include "ckpt/steps.hpp"
#include "cli/main.hpp"
#include "io/json.hpp"
#include "paths.hpp"
#include "verbs.hpp"

namespace lm::ckpt_tool {
namespace {

struct Args {
    std::string path;
    bool tensors = false;
    bool json = false;
};

io::OrderedJson document_of(const ckpt::Checkpoint& checkpoint, bool tensors) {
    const std::string file = checkpoint.path() + "/manifest.json";
    auto manifest = io::OrderedJson::parse(ckpt::manifest_text(checkpoint.manifest()));
    manifest.erase("digest");
    if (!tensors) manifest.erase("tensors");
    io::OrderedJson document;
    document["path"] = checkpoint.path();
    document["bytes"] = ckpt::tree_bytes(checkpoint.path());
    document["parameters"] = spec::count_parameters(checkpoint.manifest().model).total();
    document["optimizer_state"] = checkpoint.has(ckpt::SliceKind::exp_avg);
    document.update(manifest);
    return document;
}

// Prints nested objects as lines "a.b  value".
void print_fields(const io::OrderedJson& object, const std::string& prefix) {
    for (const auto& [key, value] : object.items()) {
        if (prefix.empty() && (key == "tensors" || key == "index")) continue;
        if (value.is_object() && !value.empty()) {
            print_fields(value, prefix + key + ".");
            continue;
        }
        std::string text = value.is_string() ? value.get<std::string>() : value.dump();
        if (prefix.empty() && key == "bytes") {
            text += " (" + human_size(value.get<i64>()) + ")";
        } else if (prefix.empty() && key == "parameters") {
            text += " (" + human_count(value.get<double>()) + ")";
        }
        cli::write_stdout(fmt::format("{:<42} {}\n", prefix + key, text));
    }
}

void print_tensors(const ckpt::Checkpoint& checkpoint) {
    std::map<std::string, i64> n_slices;
    for (const ckpt::IndexPart& part : checkpoint.parts()) {
        for (const ckpt::Slice& slice : part.slices) {
            if (slice.kind == ckpt::SliceKind::weight) ++n_slices[slice.tensor];
        }
    }
    cli::write_stdout(fmt::format("\n{:<44} {:<18} {:<6} {:>14} {:>7}\n", "TENSOR", "SHAPE",
                                  "DTYPE", "ELEMENTS", "SLICES"));
    for (const ckpt::TensorInfo& tensor : checkpoint.manifest().tensors) {
        cli::write_stdout(fmt::format("{:<44} {:<18} {:<6} {:>14} {:>7}\n", tensor.name,
                                      tensor.shape.str(), name_of(tensor.dtype),
                                      tensor.shape.numel(), n_slices[tensor.name]));
    }
}

int run(const Args& args) {
    const ckpt::Checkpoint checkpoint = ckpt::open(existing_directory(args.path));
    const io::OrderedJson document = document_of(checkpoint, args.tensors);
    if (args.json) {
        cli::write_stdout(io::json_line(document));
        return 0;
    }
    print_fields(document, "");
    if (args.tensors) print_tensors(checkpoint);
    return 0;
}

}  // namespace

void add_show(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb("show", "print configuration, counters and tensor table",
                                      [args] { return run(*args); });
    verb.positional("CKPT", &args->path,
                    "global_step* directory, or a directory of them: its latest step");
    verb.flag("--tensors", &args->tensors, "also print the tensor table");
    verb.flag("--json", &args->json, "print one JSON object on one line");
}

}  // namespace lm::ckpt_tool
