// SPDX-License-Identifier: Apache-2.0
// lm-ckpt show: prints configuration, counters and tensor table of one checkpoint.
#include <memory>

#include "base/units.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/main.hpp"
#include "foreign.hpp"
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
    auto manifest = io::parse_ordered_json(ckpt::manifest_text(checkpoint.manifest()), file);
    manifest.erase("digest");
    if (!tensors) manifest.erase("tensors");
    io::OrderedJson document;
    document["path"] = checkpoint.path();
    document["bytes"] = ckpt::tree_bytes(checkpoint.path());
    document["parameters"] = spec::count_parameters(checkpoint.manifest().model).total();
    document["optimizer_state"] = ckpt::optimizer_of(checkpoint).has_value();
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
        cli::write_text("{:<42} {}\n", prefix + key, text);
    }
}

void print_tensors(const ckpt::Checkpoint& checkpoint) {
    std::map<i64, i64> n_slices;
    for (const ckpt::IndexPart& part : checkpoint.parts()) {
        for (const ckpt::DataFile& file : part.files) {
            for (const ckpt::Slice& slice : file.slices) {
                if (slice.kind == ckpt::SliceKind::weight) ++n_slices[slice.tensor];
            }
        }
    }
    i64 place = 0;
    cli::write_text("\n{:<44} {:<18} {:<6} {:>14} {:>7}\n", "TENSOR", "SHAPE", "DTYPE", "ELEMENTS",
                    "SLICES");
    for (const ckpt::TensorInfo& tensor : checkpoint.manifest().tensors) {
        cli::write_text("{:<44} {:<18} {:<6} {:>14} {:>7}\n", tensor.name, tensor.shape.str(),
                        name_of(tensor.dtype), tensor.shape.numel(), n_slices[place++]);
    }
}

// Prints the fields that identify a step, one line each.
void print_summary(const ckpt::Checkpoint& checkpoint) {
    const ckpt::Manifest& m = checkpoint.manifest();
    const auto line = [](std::string_view name, const std::string& text) {
        cli::write_text("{:<12} {}\n", name, text);
    };
    const ckpt::Totals totals = m.totals();
    std::string kinds;
    for (const ckpt::KindTotal& kind : totals.kinds) {
        kinds += fmt::format("{}{} {} {}", kinds.empty() ? "" : ", ", name_of(kind.kind),
                             name_of(kind.dtype), human_size(kind.bytes));
    }
    line("path", checkpoint.path());
    line("iteration", std::to_string(m.counters.iteration));
    line("consumed", fmt::format("{} samples, {} tokens", m.counters.consumed_samples,
                                 human_count(static_cast<double>(m.counters.consumed_tokens))));
    line("model",
         fmt::format("{} parameters: {} layers, hidden size {}, {} heads, vocabulary {}",
                     human_count(static_cast<double>(spec::count_parameters(m.model).total())),
                     m.model.n_layers, m.model.hidden, m.model.n_heads, m.model.vocab_size));
    line("layout", spec::short_sizes_text(m.parallel));
    line("size", fmt::format("{} in {} files: {}", human_size(totals.bytes), totals.files, kinds));
    line("run", fmt::format("{}, generation {}", m.run_id, m.generation));
    line("parent", m.parent ? ckpt::step_name(m.parent->iteration) : "-");
    line("created",
         fmt::format("{} by {} on {}{}, lm-utils {}", m.created, m.writer.user, m.writer.host,
                     m.writer.job.empty() ? "" : ", job " + m.writer.job, m.tool_version));
    line("command", m.command_line);
}

int run(const Args& args) {
    const std::string path = existing_directory(args.path);
    if (is_foreign(path)) return show_foreign(path, args.tensors, args.json);
    const ckpt::Checkpoint checkpoint = ckpt::open(path);
    if (!args.json && !args.tensors) {
        print_summary(checkpoint);
        return 0;
    }
    const io::OrderedJson document = document_of(checkpoint, args.tensors);
    if (args.json) {
        cli::write_stdout(io::json_line(document));
        return 0;
    }
    print_fields(document, "");
    print_tensors(checkpoint);
    return 0;
}

}  // namespace

void add_show(cli::Options& options) {
    const auto args = std::make_shared<Args>();
    cli::Options& verb = options.verb(
        "show", "print a summary of a step; with --tensors all fields and the tensor table",
        [args] { return run(*args); });
    verb.not_called({"info", "inspect", "print"});
    verb.examples({"lm-ckpt show checkpoints", "lm-ckpt show checkpoints/global_step10 --tensors"});
    verb.positional("CKPT", &args->path,
                    "global_step* directory, directory of steps (its latest step is read), or "
                    "Megatron checkpoint");
    verb.flag("--tensors", &args->tensors, "print all fields of the manifest and the tensor table");
    verb.flag("--json", &args->json, "print one JSON object on one line");
}

}  // namespace lm::ckpt_tool
