// SPDX-License-Identifier: Apache-2.0
// lm-preprocess merge: concatenates datasets in constant memory. Only one dataset is open at a
// time.
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>

#include "args.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/version.hpp"
#include "cli/progress_line.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/indexed_writer.hpp"
#include "io/atomic.hpp"
#include "preprocess/build.hpp"
#include "preprocess/input_plan.hpp"

namespace lm::preprocess {
namespace {

struct MergeArgs {
    std::vector<std::string> inputs;
    std::string output_prefix;
    bool force = false;
    bool quiet = false;
};

constexpr i64 block_documents = i64{1} << 16;
constexpr i64 block_tokens = i64{1} << 22;

// Returns whether both prefixes name the same files. Prefixes with different texts may name one
// dataset, for example through a link.
bool is_same_dataset(const std::string& a, const std::string& b) {
    std::error_code none;
    return a == b || std::filesystem::equivalent(data::bin_path(a), data::bin_path(b), none);
}

// Counts the shards i/n among the inputs, to find one that is missing or given twice. Several keys
// or corpora have several datasets for each shard, and node-local copies of a corpus differ in
// their times, so the shards of each n are compared by number only.
class ShardCount {
  public:
    void add(const std::string& input, const io::Json& origin) {
        if (!origin.is_object() || !origin.contains("--shard")) return;
        const Shard shard =
            parse_shard(io::json_get<std::string>(origin, "--shard", data::metadata_path(input)));
        ++times_[shard.count][shard.index];
    }
    // Throws Error(failure) unless the inputs have all shards of each n equally often.
    void check() const {
        for (const auto& [count, times] : times_) {
            const i64 expected = times.begin()->second;
            for (i64 i = 0; i < count; ++i) {
                const auto found = times.find(i);
                const i64 n = found == times.end() ? 0 : found->second;
                if (n == expected) continue;
                run_error(fmt::format("--shard {}/{}", i, count),
                          "{} of the inputs are this shard, {} are shard {}/{}: merge every shard "
                          "of a run once",
                          n, expected, times.begin()->first, count);
            }
        }
    }

  private:
    std::map<i64, std::map<i64, i64>> times_;  // number of inputs by n and i
};

// Checks that all inputs have the same dtype and tokenizer. Returns the metadata of the output;
// nullopt when an input has no metadata file.
std::optional<data::DatasetMetadata> merged_facts(const std::vector<std::string>& inputs,
                                                  data::TokenType* type, i64* bytes) {
    std::optional<data::DatasetMetadata> merged;
    ShardCount shards;
    bool all_have_one = true, some_end = false, some_do_not = false;
    for (const std::string& input : inputs) {
        const auto dataset = data::IndexedDataset::open(input);
        if (dataset.has_modes()) {
            run_error(
                input,
                "has a mode for each sequence, as Megatron's multimodal datasets, which merge "
                "would lose: merge it with Megatron-LM's tools/merge_datasets.py");
        }
        if (input == inputs.front()) *type = dataset.token_type();
        if (dataset.token_type() != *type) {
            run_error(input, "has dtype {}, but {} has {}: merge only datasets of one dtype",
                      name_of(dataset.token_type()), inputs.front(), name_of(*type));
        }
        *bytes += dataset.n_tokens() * size_of(*type);
        const auto metadata = data::read_metadata(dataset);
        all_have_one = all_have_one && metadata.has_value();
        if (!metadata) continue;
        shards.add(input, metadata->origin);
        if (!merged) merged = metadata;
        if (metadata->tokenizer.digest != merged->tokenizer.digest) {
            run_error(input,
                      "was made by another tokenizer ({} {}) than the previous inputs ({} {})",
                      metadata->tokenizer.type, metadata->tokenizer.digest, merged->tokenizer.type,
                      merged->tokenizer.digest);
        }
        merged->largest_id = std::max(merged->largest_id, metadata->largest_id);
        if (metadata->documents > 0) (metadata->appended_eod ? some_end : some_do_not) = true;
    }
    shards.check();
    if (!all_have_one) {
        note("not every input has a metadata file: the output gets none");
        return std::nullopt;
    }
    if (some_end || some_do_not) merged->appended_eod = !some_do_not;
    if (some_end && some_do_not) {
        note(
            "--append-eod was given for some inputs only, so the metadata file states that not all "
            "documents end with the end-of-document id");
    }
    merged->origin = nullptr;  // no single run wrote the output
    merged->tool = fmt::format("lm-preprocess {} merge", version());
    return merged;
}

// Copies the documents of `input` to `writer` in blocks of whole documents.
void append(const data::IndexedDataset& input, data::IndexedWriter& writer,
            const std::function<void(i64)>& progress) {
    std::vector<i32> lengths, documents;
    i64 sequence = 0;
    for (i64 d = 0; d < input.n_documents();) {
        lengths.clear();
        documents.clear();
        const i64 begin = input.position(sequence);
        i64 end = begin;
        while (d < input.n_documents() && static_cast<i64>(lengths.size()) < block_documents &&
               end - begin < block_tokens) {
            const i64 next = input.document(++d);
            if (next < sequence)
                run_error(data::idx_path(input.prefix()),
                          "document index not monotonic at entry {}: run lm-preprocess verify", d);
            documents.push_back(static_cast<i32>(next - sequence));
            for (; sequence < next; ++sequence) {
                if (input.position(sequence) != end) {
                    run_error(data::idx_path(input.prefix()),
                              "sequence {} does not begin where the previous one ends: run "
                              "lm-preprocess verify",
                              sequence);
                }
                lengths.push_back(static_cast<i32>(input.length(sequence)));
                end += lengths.back();
            }
        }
        writer.add(input.raw(begin, end), lengths, documents);
        if (progress) progress(static_cast<i64>(input.raw(begin, end).size()));
    }
}

int merge(MergeArgs args) {
    // PREFIX.idx is its dataset too, so that a pattern of the shell names all shards.
    for (std::string& input : args.inputs) {
        if (input.ends_with(".idx")) input.resize(input.size() - 4);
    }
    if (args.output_prefix.empty())
        usage_error("--output-prefix", "is missing: give the PREFIX of the output");
    check_names_files(args.output_prefix);
    for (const std::string& input : args.inputs) {
        if (is_same_dataset(input, args.output_prefix))
            usage_error("--output-prefix", "'{}' is one of the inputs: choose another prefix",
                        args.output_prefix);
    }
    data::TokenType type = data::TokenType::u16;
    i64 bytes = 0;
    const auto facts = merged_facts(args.inputs, &type, &bytes);
    note_leftovers(args.output_prefix);
    if (args.force) note_links(args.output_prefix);
    auto writer = data::IndexedWriter::create(args.output_prefix, type,
                                              args.force ? io::Overwrite::yes : io::Overwrite::no);
    cli::ProgressLine progress("merging", "MB", bytes, args.quiet);
    i64 done = 0;
    for (const std::string& input : args.inputs) {
        append(data::IndexedDataset::open(input), writer,
               [&](i64 n) { progress.update(done += n); });
    }
    facts ? void(writer.commit(*facts)) : writer.commit_without_metadata();
    progress.finish();
    return 0;
}

}  // namespace

void declare_merge(cli::Options& options) {
    auto args = std::make_shared<MergeArgs>();
    cli::Options& verb =
        options.verb("merge", "concatenate datasets", [args] { return merge(*args); });
    verb.examples(
        {"lm-preprocess merge --output-prefix all part1_text_document part2_text_document"});
    verb.positionals("PREFIX", &args->inputs,
                     "datasets to concatenate, in order, as prefix or .idx");
    verb.value("--output-prefix", &args->output_prefix, "PREFIX",
               "write PREFIX.bin, .idx and .json");
    verb.refused("--input", -1, "give the prefixes as operands");
    verb.flag("--force", &args->force, "replace existing outputs");
    verb.flag("--quiet,-q", &args->quiet, "show no progress");
}

}  // namespace lm::preprocess
