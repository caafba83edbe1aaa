// SPDX-License-Identifier: Apache-2.0
#include "plan.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "io/file.hpp"
#include "io/inputs.hpp"
#include "io/json.hpp"

namespace lm::preprocess {
namespace {

constexpr i64 end_bytes = i64{1} << 16;  // of a file's start and end that identify it

// Of what lies in a work directory. Another one as soon as a build cannot go on with what an older
// one left, or makes other bytes of the same input: that, and not the build, decides who may.
constexpr int work_version = 2;

i64 parse_number(std::string_view text, const std::string& all) {
    i64 value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0)
        usage_error("--shard", "'{}' is not i/n, such as 0/8", all);
    return value;
}

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

// Compressed inputs are decompressed side by side, each part into files of its own.
i64 parts_for(const Plan& plan, int n_workers) {
    const i64 n_streams = std::ranges::count_if(
        plan.files, [](const data::InputFile& f) { return !f.divisible && f.size >= 0; });
    if (n_workers == 1 || plan.input_bytes < 0) return 1;
    return std::clamp<i64>(n_streams / (plan.n_ranks * plan.shard.count), 1, 4 * n_workers);
}

struct BegunInput {
    std::string path;
    io::Json all;
};

// What a run that began the work wrote of it.
struct Begun {
    io::Json all;
    i64 parts_per_rank;
    std::string tool;
    std::vector<BegunInput> inputs;
};

Begun read_begun(const std::string& path) {
    try {
        Begun begun{io::read_json(path), 0, "", {}};
        begun.parts_per_rank = io::json_get<i64>(begun.all, "parts_per_rank", path);
        if (begun.parts_per_rank < 1) run_error(path, "'parts_per_rank' is below 1");
        begun.tool = io::json_get<std::string>(begun.all, "tool", path);
        for (io::Json& input : io::json_get<std::vector<io::Json>>(begun.all, "inputs", path)) {
            auto name = io::json_get<std::string>(input, "path", path);
            begun.inputs.push_back({std::move(name), std::move(input)});
        }
        return begun;
    } catch (const Error& error) {
        std::string_view reason = std::string_view(error.what()).substr(path.size() + 2);
        reason = reason.substr(0, reason.find(": "));  // without what a parser says of it
        run_error(path, "is damaged ({}): --force without --resume begins the work anew", reason);
    }
}

void check_inputs(const std::vector<BegunInput>& theirs, const io::OrderedJson& ours,
                  const std::string& path) {
    const size_t n = std::min(theirs.size(), ours.size());
    for (size_t i = 0; i < n; ++i) {
        const io::Json mine = io::Json::parse(io::json_line(ours[i]));
        if (theirs[i].all == mine) continue;
        const std::string name = mine["path"].get<std::string>();
        if (theirs[i].path != name) {
            usage_error(path, "input {} was {}, now it is {}: --force starts again", i + 1,
                        theirs[i].path, name);
        }
        usage_error(name, "has changed since the work in {} was begun: --force starts again", path);
    }
    if (theirs.size() != ours.size()) {
        usage_error(path, "the work was begun with {} inputs, now there are {}: {}", theirs.size(),
                    ours.size(), "--force starts again");
    }
}

}  // namespace

Shard parse_shard(const std::string& text) {
    const size_t slash = text.find('/');
    if (slash == text.npos) usage_error("--shard", "'{}' is not i/n, such as 0/8", text);
    const std::string_view view = text;
    const Shard shard{parse_number(view.substr(0, slash), text),
                      parse_number(view.substr(slash + 1), text)};
    if (shard.count == 0) usage_error("--shard", "'{}': there is at least 1 shard", text);
    if (shard.index >= shard.count) {
        usage_error("--shard", "'{}': shards of {} count from 0 to {}", text, shard.count,
                    shard.count - 1);
    }
    return shard;
}

std::vector<data::InputPiece> Plan::part(i64 index) const {
    if (input_bytes >= 0)
        return data::share_of(files, shard.index * n_parts() + index, shard.count * n_parts());
    std::vector<data::InputPiece> pieces;
    for (size_t f = 0; f < files.size(); ++f) pieces.push_back({static_cast<int>(f), 0, -1});
    return pieces;
}

Plan make_plan(const Args& args, const Launched& launch, int n_workers) {
    Plan plan;
    plan.inputs = io::expand_inputs(args.inputs);
    plan.files = data::examine_inputs(plan.inputs);
    if (args.shard) plan.shard = parse_shard(*args.shard);
    plan.n_ranks = launch.size;
    for (const data::InputFile& file : plan.files) {
        const std::string name = io::input_name(file.path);
        if (file.size < 0) plan.input_bytes = -1;
        if (file.size >= 0 && plan.input_bytes >= 0) plan.input_bytes += file.size;
        if (file.size >= 0) continue;
        if (plan.shard.count > 1)
            usage_error("--shard", "{} is not a file that several runs can read", name);
        if (plan.n_ranks > 1) run_error(name, "is not a file that {} ranks can read", plan.n_ranks);
        if (args.resume) usage_error("--resume", "{} cannot be read a second time", name);
    }
    plan.parts_per_rank = parts_for(plan, n_workers);
    return plan;
}

int lanes_for(const Plan& plan, int n_workers) {
    i64 window = i64{1} << 20;
    for (const data::InputFile& file : plan.files) window = std::max(window, file.window);
    const i64 most = std::max<i64>(1, io::default_decoding_memory / window);
    return static_cast<int>(std::min({plan.parts_per_rank, i64{n_workers}, most}));
}

io::OrderedJson describe(const Plan& plan, const Args& args, const text::Tokenizer& tokenizer) {
    io::OrderedJson j;
    j["format"] = "lm-preprocess work";
    j["version"] = work_version;
    j["tool"] = fmt::format("lm-preprocess {}", version());
    j["parts_per_rank"] = plan.parts_per_rank;
    j["tokenizer"] = tokenizer.digest();
    j["--json-keys"] = args.keys;
    j["--append-eod"] = args.append_eod;
    j["--keep-empty"] = args.keep_empty;
    j["--on-bad-line"] = args.on_bad_line;
    j["--shard"] = fmt::format("{}/{}", plan.shard.index, plan.shard.count);
    j["number of ranks"] = plan.n_ranks;
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

std::string difference(const io::Json& theirs, const io::Json& ours) {
    if (!theirs.is_object()) return "made by no run that its side file knows";
    for (const auto& [key, value] : ours.items()) {
        const io::Json was = theirs.value(key, io::Json());
        if (was == value) continue;
        if (key != "inputs")
            return fmt::format("made with {} {}, not {}", key, was.dump(), value.dump());
        const auto number = value["number"].get<i64>();
        const i64 before = io::json_get<i64>(was, "number", "origin");
        if (number == before) return "made of other inputs, or they have changed since";
        return fmt::format("made of {} inputs, not {}", before, number);
    }
    return "";
}

i64 parts_of_same_run(const std::string& path, const io::OrderedJson& ours) {
    const Begun begun = read_begun(path);
    for (const auto& [key, value] : ours.items()) {
        if (key == "parts_per_rank" || key == "inputs" || key == "tool") continue;
        const std::string was = begun.all.contains(key) ? begun.all[key].dump() : "nothing";
        if (was == value.dump()) continue;
        usage_error(path, "the work was begun with {} {}, not {}: --force starts again", key, was,
                    value.dump());
    }
    check_inputs(begun.inputs, ours["inputs"], path);
    if (begun.tool != ours["tool"].get<std::string>())
        note("{}: begun by {}, {} goes on", path, begun.tool, ours["tool"].get<std::string>());
    return begun.parts_per_rank;
}

}  // namespace lm::preprocess
