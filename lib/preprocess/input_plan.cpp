// SPDX-License-Identifier: Apache-2.0
#include "preprocess/input_plan.hpp"

#include <algorithm>
#include <charconv>

#include "base/error.hpp"
#include "io/inputs.hpp"
#include "io/stream.hpp"

namespace lm::preprocess {
namespace {

i64 parse_number(std::string_view text, const std::string& all) {
    i64 value = -1;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || value < 0)
        usage_error("--shard", "expected i/n, such as 0/8, got '{}'", all);
    return value;
}

// Returns the number of parts. Each compressed input can be a part of its own, so that
// several inputs are decompressed in parallel.
i64 parts_for(const InputPlan& plan, int n_workers) {
    const i64 n_compressed = std::ranges::count_if(
        plan.files, [](const data::InputFile& f) { return !f.divisible && f.size >= 0; });
    if (n_workers == 1 || plan.input_bytes < 0) return 1;
    return std::clamp<i64>(n_compressed / plan.shard.count, 1, 4 * n_workers);
}

// Checks an input that is not a regular file: throws if several processes would have to read it, or
// if it would have to be read twice.
void check_single_reader(const data::InputFile& file, const InputPlan& plan, bool resume) {
    const std::string name = io::input_name(file.path);
    if (plan.shard.count > 1)
        usage_error("--shard",
                    "several runs cannot read {}, which is not a regular file: give regular files, "
                    "or omit the flag",
                    name);
    if (resume)
        usage_error("--resume",
                    "{} is not a regular file and cannot be read a second time: give regular files",
                    name);
}

}  // namespace

Shard parse_shard(const std::string& text) {
    const size_t slash = text.find('/');
    if (slash == text.npos) usage_error("--shard", "expected i/n, such as 0/8, got '{}'", text);
    const std::string_view view = text;
    const Shard shard{parse_number(view.substr(0, slash), text),
                      parse_number(view.substr(slash + 1), text)};
    if (shard.count == 0) usage_error("--shard", "'{}': expected at least 1 shard", text);
    if (shard.index >= shard.count) {
        usage_error("--shard", "'{}': the {} shards are numbered from 0 to {}", text, shard.count,
                    shard.count - 1);
    }
    return shard;
}

std::vector<data::InputPiece> InputPlan::part(i64 index) const {
    if (input_bytes >= 0)
        return data::share_of(files, shard.index * n_parts + index, shard.count * n_parts);
    std::vector<data::InputPiece> pieces;
    for (size_t f = 0; f < files.size(); ++f) pieces.push_back({static_cast<int>(f), 0, -1});
    return pieces;
}

i64 InputPlan::shard_bytes() const {
    return input_bytes < 0 ? -1 : input_bytes / shard.count;
}

InputPlan make_input_plan(const BuildOptions& options, int n_workers) {
    InputPlan plan;
    plan.files = data::examine_inputs(io::expand_inputs(options.inputs));
    if (options.shard) plan.shard = parse_shard(*options.shard);
    for (const data::InputFile& file : plan.files) {
        if (file.size < 0) {
            plan.input_bytes = -1;
            check_single_reader(file, plan, options.resume);
        } else if (plan.input_bytes >= 0) {
            plan.input_bytes += file.size;
        }
    }
    plan.n_parts = parts_for(plan, n_workers);
    return plan;
}

int concurrent_parts(const InputPlan& plan, int n_workers) {
    i64 window = i64{1} << 20;
    for (const data::InputFile& file : plan.files) window = std::max(window, file.window);
    const i64 most = std::max<i64>(1, io::default_decoding_memory / window);
    return static_cast<int>(std::min({plan.n_parts, i64{n_workers}, most}));
}

}  // namespace lm::preprocess
