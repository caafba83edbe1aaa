// SPDX-License-Identifier: Apache-2.0
#include "preprocess/run_description.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/fd_path.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::preprocess {
namespace {

constexpr i64 end_bytes = i64{1} << 16;  // bytes of a file's start and end that identify it

// Version of the work directory's files. Increase this number when the new program cannot resume
// the work of an older program, or writes other bytes for the same input. Builds with the same
// version can resume each other's work.
constexpr int work_version = 3;

io::OrderedJson describe_input(const data::InputFile& input) {
    io::OrderedJson j;
    j["path"] = input.path;
    if (input.size < 0) return j;
    j["bytes"] = input.size;
    j["changed_ns"] = input.changed_ns;
    const i64 n = std::min<i64>(end_bytes, input.size);
    std::vector<std::byte> block(static_cast<size_t>(n));
    const io::Fd fd = io::open_read(input.path);
    io::read_exact(fd, input.path, block, 0);
    j["head"] = digest(block);
    io::read_exact(fd, input.path, block, input.size - n);
    j["tail"] = digest(block);
    return j;
}

// The run.json of an earlier run.
struct EarlierRun {
    struct Input {
        std::string path;
        io::Json description;
    };
    io::Json description;
    i64 n_parts;
    std::string tool;
    std::vector<Input> inputs;
};

EarlierRun read_earlier_run(const std::string& path) {
    try {
        EarlierRun run{io::read_json(path), 0, "", {}};
        run.n_parts = io::json_get<i64>(run.description, "parts", path);
        if (run.n_parts < 1) run_error(path, "'parts' is below 1");
        run.tool = io::json_get<std::string>(run.description, "tool", path);
        for (io::Json& input :
             io::json_get<std::vector<io::Json>>(run.description, "inputs", path)) {
            auto name = io::json_get<std::string>(input, "path", path);
            run.inputs.push_back({std::move(name), std::move(input)});
        }
        return run;
    } catch (const Error& error) {
        const std::string name = without_fd_paths(path);
        std::string_view reason = std::string_view(error.what()).substr(name.size() + 2);
        reason = reason.substr(0, reason.find(": "));  // without the JSON parser's own words
        run_error(path, "corrupt ({}): give --force without --resume to start again", reason);
    }
}

void check_inputs(const std::vector<EarlierRun::Input>& earlier, const io::OrderedJson& current,
                  const std::string& path) {
    const size_t n = std::min(earlier.size(), current.size());
    for (size_t i = 0; i < n; ++i) {
        const io::Json mine = io::parse_json(io::json_line(current[i]), path);
        if (earlier[i].description == mine) continue;
        const std::string name = mine["path"].get<std::string>();
        if (earlier[i].path != name) {
            usage_error(
                path,
                "input {} of the earlier run was {}, now it is {}: give the same inputs, or "
                "--force without --resume to start again",
                i + 1, earlier[i].path, name);
        }
        usage_error(name,
                    "has changed since the run that {} describes: restore the file, or give "
                    "--force without --resume to start again",
                    path);
    }
    if (earlier.size() != current.size()) {
        usage_error(path,
                    "the number of inputs is {} in the earlier run, {} in this one: give the same "
                    "inputs, or "
                    "--force without --resume to start again",
                    earlier.size(), current.size());
    }
}

}  // namespace

io::OrderedJson describe_run(const InputPlan& plan, const BuildOptions& options,
                             const text::Tokenizer& tokenizer) {
    io::OrderedJson j;
    j["format"] = "lm-preprocess work";
    j["version"] = work_version;
    j["tool"] = fmt::format("lm-preprocess {}", version());
    j["parts"] = plan.n_parts;
    j["tokenizer"] = tokenizer.digest();
    j["--json-keys"] = options.keys;
    j["--append-eod"] = options.append_eod;
    j["--keep-empty"] = options.keep_empty;
    j["--on-bad-line"] = options.on_bad_line;
    j["--shard"] = fmt::format("{}/{}", plan.shard.index, plan.shard.count);
    j["inputs"] = io::OrderedJson::array();
    for (const data::InputFile& file : plan.files) j["inputs"].push_back(describe_input(file));
    return j;
}

io::Json origin_of(const io::OrderedJson& description) {
    io::Json origin;
    for (const char* key :
         {"--json-keys", "--append-eod", "--keep-empty", "--on-bad-line", "--shard"})
        origin[key] = description[key];
    const io::OrderedJson& inputs = description["inputs"];
    origin["inputs"] = {{"number", inputs.size()}, {"digest", digest(io::json_text(inputs))}};
    return origin;
}

std::string difference_of_origins(const io::Json& existing, const io::Json& current) {
    if (!existing.is_object()) return "its metadata file does not state the options of its run";
    for (const auto& [key, value] : current.items()) {
        const io::Json was = existing.value(key, io::Json());
        if (was == value) continue;
        if (key != "inputs")
            return fmt::format("it was made with {} {}, not {}", key, was.dump(), value.dump());
        const auto number = value["number"].get<i64>();
        const i64 before = io::json_get<i64>(was, "number", "origin");
        if (number == before)
            return "it was made from other inputs, or the inputs have changed since";
        return fmt::format("its number of inputs was {}, not {}", before, number);
    }
    return "";
}

i64 parts_of_same_run(const std::string& path, const io::OrderedJson& current) {
    const EarlierRun run = read_earlier_run(path);
    for (const auto& [key, value] : current.items()) {
        if (key == "parts" || key == "inputs" || key == "tool") continue;
        const std::string was =
            run.description.contains(key) ? run.description[key].dump() : "nothing";
        if (was == value.dump()) continue;
        usage_error(
            path, "the earlier run had {} {}, not {}: give --force without --resume to start again",
            key, was, value.dump());
    }
    check_inputs(run.inputs, current["inputs"], path);
    if (run.tool != current["tool"].get<std::string>())
        note("{}: written by {}, resumed by {}", path, run.tool,
             current["tool"].get<std::string>());
    return run.n_parts;
}

}  // namespace lm::preprocess
