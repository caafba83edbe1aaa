// SPDX-License-Identifier: Apache-2.0
#include "foreign.hpp"

#include <optional>

#include "base/error.hpp"
#include "base/units.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/model_json.hpp"
#include "ckpt/history/leftovers.hpp"
#include "ckpt/history/steps.hpp"
#include "cli/main.hpp"
#include "cli/progress_line.hpp"
#include "convert/megatron/open_megatron.hpp"
#include "io/json.hpp"

namespace lm::ckpt_tool {
namespace {

using convert::MegatronImport;
using convert::MegatronStep;

std::string layout_of(const convert::MegatronModel& model) {
    return fmt::format("tp{} pp{}", model.tp, model.pp);
}

std::string kinds_of(const MegatronImport& import) {
    std::string kinds;
    for (const ckpt::SliceKind kind : ckpt::all_kinds) {
        if (import.has(kind)) kinds += (kinds.empty() ? "" : ", ") + std::string(name_of(kind));
    }
    return kinds;
}

io::OrderedJson summary_of(const std::string& path, const MegatronImport& import) {
    const convert::MegatronModel& model = import.head().model;
    io::OrderedJson object;
    object["path"] = path;
    object["format"] = convert::megatron_layout(path);
    object["bytes"] = ckpt::tree_bytes(path);
    object["iteration"] = import.head().iteration;
    object["optimizer_step"] = import.optimizer_step();
    object["consumed_samples"] = model.consumed_samples;
    object[dimension_of(&spec::ParallelConfig::tp).key] = model.tp;
    object[dimension_of(&spec::ParallelConfig::pp).key] = model.pp;
    object["parameters"] = spec::count_parameters(model.config).total();
    object["padded_vocab_size"] = model.padded_vocab;
    object["dtype"] = name_of(import.weights());
    object["state"] = kinds_of(import);
    object["model"] = ckpt::to_json(model.config);
    return object;
}

void print_tensors(const MegatronImport& import) {
    cli::write_text("\n{:<44} {:<18} {:>14}\n", "TENSOR", "SHAPE", "ELEMENTS");
    for (const spec::TensorSpec& tensor : import.tensors()) {
        cli::write_text("{:<44} {:<18} {:>14}\n", tensor.name, tensor.shape.str(),
                        tensor.shape.numel());
    }
}

// Returns the path of the step that a command about one step uses: the step that the tracker file
// names, or without a tracker file the last step.
std::string step_of(const std::string& path) {
    const std::vector<MegatronStep> steps = convert::megatron_steps(path);
    for (const MegatronStep& step : steps) {
        if (step.latest) return step.path;
    }
    return steps.back().path;
}

}  // namespace

bool is_foreign(const std::string& path) {
    return convert::is_megatron_checkpoint(path);
}

std::string_view foreign_program(const std::string& path) {
    const std::string_view layout = convert::megatron_layout(step_of(path));
    return layout == "deepspeed" || layout == "universal" ? "DeepSpeed" : "Megatron";
}

namespace {

constexpr const char* list_row = "{:>10}  {:>10}  {:<14}  {:<12}  {}\n";

void list_step(const MegatronStep& step, bool json) {
    convert::ConversionRequest request;
    request.in = step.path;
    const MegatronImport import = convert::open_megatron(request);
    import.sources().check_complete(step.path);
    if (json) {
        io::OrderedJson object = summary_of(step.path, import);
        object.erase("model");
        object["complete"] = true;
        object["latest"] = step.latest;
        return cli::write_stdout(io::json_line(object));
    }
    const bool whole = ckpt::optimizer_of(import).has_value();
    cli::write_text(
        list_row, step.iteration, human_size(ckpt::tree_bytes(step.path)),
        layout_of(import.head().model), convert::megatron_layout(step.path),
        fmt::format("complete{}{}", whole ? "" : ", weights only", step.latest ? ", latest" : ""));
}

// Prints the line of a step that cannot be opened, as lm-ckpt ls prints an incomplete step.
void list_damaged(const MegatronStep& step, const char* reason, bool json) {
    if (json) {
        return cli::write_stdout(io::json_line({{"path", step.path},
                                                {"latest", step.latest},
                                                {"complete", false},
                                                {"reason", reason}}));
    }
    cli::write_text(list_row, step.iteration, "-", "-", convert::megatron_layout(step.path),
                    fmt::format("incomplete: {}{}", reason, step.latest ? " (latest)" : ""));
}

}  // namespace

int list_foreign(const std::string& directory, bool json) {
    if (!json) {
        cli::write_text(list_row, "STEP", "SIZE", "LAYOUT", "FORMAT", "STATE");
    }
    for (const MegatronStep& step : convert::megatron_steps(directory)) {
        try {
            list_step(step, json);
        } catch (const Error& error) {
            list_damaged(step, error.what(), json);
        }
    }
    return 0;
}

int show_foreign(const std::string& path, bool tensors, bool json) {
    const std::string step = step_of(path);
    convert::ConversionRequest request;
    request.in = step;
    const MegatronImport import = convert::open_megatron(request);
    const io::OrderedJson object = summary_of(step, import);
    if (json) {
        cli::write_stdout(io::json_line(object));
        return 0;
    }
    for (const auto& [key, value] : object.items()) {
        if (value.is_object()) {
            for (const auto& [name, field] : value.items()) {
                cli::write_text("{:<42} {}\n", key + "." + name, field.dump());
            }
            continue;
        }
        cli::write_text("{:<42} {}\n", key,
                        value.is_string() ? value.get<std::string>() : value.dump());
    }
    if (tensors) print_tensors(import);
    return 0;
}

namespace {

// Verifies one step. When the step cannot be opened or read, `problems` has only this error.
convert::ImportVerification verify_step(const MegatronStep& step, bool quiet) {
    convert::ConversionRequest request;
    request.in = step.path;
    request.replicas = convert::Replicas::rank0;
    std::optional<cli::ProgressLine> progress;
    request.progress = [&](i64 done, i64 total) {
        if (!progress) progress.emplace("verify", "MiB", total, quiet);
        progress->update(done);
    };
    try {
        return convert::open_megatron(request).verify();
    } catch (const Error& error) {
        return {.problems = {error.what()}};
    }
}

}  // namespace

int verify_foreign(const std::string& path, bool json, bool quiet) {
    bool good = true;
    for (const MegatronStep& step : convert::megatron_steps(path)) {
        const convert::ImportVerification result = verify_step(step, quiet);
        good = good && result.problems.empty();
        if (json) {
            cli::write_stdout(io::json_line({{"path", step.path},
                                             {"ok", result.problems.empty()},
                                             {"tensors", result.n_tensors},
                                             {"bytes", result.n_bytes},
                                             {"problems", result.problems}}));
            continue;
        }
        for (const std::string& problem : result.problems) {
            cli::write_text("{}: {}\n", step.path, problem);
        }
        if (result.problems.empty()) {
            cli::write_text("{}: ok: {} tensors, {} of data\n", step.path, result.n_tensors,
                            human_size(result.n_bytes));
        } else {
            cli::write_text("{}: bad: {} problem{}\n", step.path, result.problems.size(),
                            result.problems.size() == 1 ? "" : "s");
        }
    }
    return static_cast<int>(good ? Exit::done : Exit::answer_is_no);
}

std::unique_ptr<ckpt::TensorSource> open_tensors(const std::string& path, bool weights_only) {
    if (is_foreign(path)) return convert::open_megatron_tensors(path, weights_only);
    return std::make_unique<ckpt::Checkpoint>(ckpt::open(path));
}

}  // namespace lm::ckpt_tool
