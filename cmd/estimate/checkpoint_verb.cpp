// SPDX-License-Identifier: Apache-2.0
// lm-estimate checkpoint: the bytes of one checkpoint, and of all checkpoints of a schedule.
#include <algorithm>
#include <memory>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/shape.hpp"
#include "ckpt/format/manifest.hpp"
#include "ckpt/format/step_files.hpp"
#include "ckpt/format/tokenizer_files.hpp"
#include "config/plan_warnings.hpp"
#include "cost/formulas.hpp"
#include "figures.hpp"
#include "run_flags.hpp"
#include "spec/save_schedule.hpp"
#include "train/config/save_rules.hpp"
#include "train/save/save_room.hpp"
#include "train/save/step_plan.hpp"
#include "verbs.hpp"

namespace lm::estimate {
namespace {

struct Flags {
    config::TrainFlags train;
    i64 nodes = 1;
    bool lists_files = false;
    OutputFlags output;
};

// The files of a checkpoint, by kind.
struct Sizes {
    i64 weights = 0;    // tensors
    i64 optimizer = 0;  // tensors
    i64 headers = 0;    // safetensors headers, and the zeros between tensors
    i64 index = 0;
    i64 manifest = 0;
    i64 tokenizer = 0;
    i64 total = 0;
    i64 n_files = 0;
};

Sizes sizes_of(const std::vector<train::StepFile>& files, const cost::CheckpointSize& tensors) {
    Sizes sizes{.weights = tensors.weights,
                .optimizer = tensors.optimizer,
                .n_files = static_cast<i64>(files.size())};
    for (const train::StepFile& file : files) {
        if (file.name == ckpt::manifest_file) sizes.manifest += file.bytes;
        if (file.name.starts_with("index-")) sizes.index += file.bytes;
        if (std::ranges::count(ckpt::tokenizer_file_names, file.name) > 0)
            sizes.tokenizer += file.bytes;
        sizes.total += file.bytes;
    }
    sizes.headers = sizes.total - tensors.total() - sizes.index - sizes.manifest - sizes.tokenizer;
    return sizes;
}

// Adds the figures of all checkpoints of the schedule to `printout`. Returns the largest number of
// checkpoints that are on disk at the same time; 1 without a schedule.
i64 add_total(Printout& printout, const config::TrainFlags& flags, const spec::ModelConfig& model,
              const Sizes& size) {
    const train::SaveRules rules = train::rules_of_steps(flags.checkpoints);
    if (rules.ranges.empty()) return 1;
    const BatchSchedule schedule = resolve_schedule(flags, model.seq_length);
    const i64 iterations = count_iterations(schedule.ramp, schedule.samples);
    const i64 saves = spec::count_saves(rules.ranges, iterations);
    const i64 on_disk = train::steps_on_disk(rules, 0, iterations).on_disk;
    std::vector<Figure> figures{
        {"iterations", "iterations", Unit::count, iterations, "counted as in lm-estimate batch"},
        {"saves", "checkpoints", Unit::count, saves,
         "at multiples of the intervals, at the ends of ranges and of the run"},
        {"weights", "weights in all", Unit::bytes, checked_mul(saves, size.weights),
         "checkpoints x weights"},
        {"total", "in all", Unit::bytes, checked_mul(saves, size.total),
         "number of checkpoints x checkpoint, when none is pruned"}};
    if (rules.retain) {
        figures.push_back({"on_disk", "checkpoints at once", Unit::count, on_disk,
                           "the most that --save-retain leaves, and one that is being saved"});
        figures.push_back({"on_disk_bytes", "in all at once", Unit::bytes,
                           checked_mul(on_disk, size.total), "checkpoints at once x checkpoint"});
    }
    printout.figures("all", std::move(figures));
    return on_disk;
}

void add_sizes(Printout& printout, const Sizes& size) {
    printout.figures(
        "checkpoint",
        {{"weights", "weights", Unit::bytes, size.weights,
          "4 bytes (2 with --bf16, --fp16) x parameters, vocabulary unpadded; "
          "lm-ckpt copy --weights-only"},
         {"optimizer", "optimizer state", Unit::bytes, size.optimizer,
          "8 bytes x parameters for Adam's moments, 4 more for fp32 masters with 16-bit "
          "weights"},
         {"headers", "headers of data files", Unit::bytes, size.headers,
          "safetensors headers, and zeros that align large tensors to 4096 bytes"},
         {"index", "index files", Unit::bytes, size.index,
          "places and digests of the parts that the ranks write"},
         {"manifest", "manifest", Unit::bytes, size.manifest,
          fmt::format("the list of tensors, and room of {} bytes for the description of the run, "
                      "or twice that if the run has more than about 100 data sets or restarts",
                      ckpt::manifest_room)},
         {"tokenizer", "tokenizer", Unit::bytes, size.tokenizer,
          "the files of the tokenizer that the flags or the data name; none for GPT-2's and bytes, "
          "which are installed"},
         {"total", "checkpoint", Unit::bytes, size.total,
          "the sum: the bytes of all files of global_stepN, without latest, fence.json and "
          "generation-N (together 2 KiB, and 0.5 KiB more for each restart) and without the "
          "blocks of the directories; about 14 bytes x parameters in 16 bits "
          "(BigScience measured 2.3 TB for 176B)"},
         {"files", "files", Unit::count, size.n_files,
          "two data files for each node, index files, the manifest, and the tokenizer's files"}});
}

void add_files(Printout& printout, const std::vector<train::StepFile>& files) {
    std::vector<std::vector<Value>> rows;
    for (const train::StepFile& file : files) rows.push_back({file.name, file.bytes});
    printout.table("file", {{"name", "file", Unit::plain, ""}, {"bytes", "bytes", Unit::count, ""}},
                   std::move(rows));
}

int run(const Flags& flags) {
    const config::TrainFlags train = resolve_flags(flags.train);
    const spec::ModelConfig model = resolve_model(train);
    const spec::ParallelConfig parallel = resolve_ranks(train, model);
    const spec::Precision precision = resolve_precision(train.precision, train.megatron);
    const i64 n_ranks = parallel.n_ranks();
    check_at_least("--nodes", flags.nodes, 1);
    if (n_ranks % flags.nodes != 0) {
        usage_error("--nodes", "{1} does not divide the number of ranks, {0}: give --world-size",
                    n_ranks, flags.nodes);
    }
    std::vector<train::StepFile> files =
        train::files_of_step({.model = model,
                              .parallel = parallel,
                              .precision = precision,
                              .bucket_elements = train.data_parallel.bucket_elements,
                              .n_nodes = flags.nodes});
    const auto tokenizer = resolve_tokenizer(train.data);
    if (!tokenizer) {
        note(
            "the tokenizer is unknown: its files, which each checkpoint has, come on top: give "
            "--data-path or --tokenizer-model");
    }
    for (const auto& file : tokenizer.value_or(std::vector<ckpt::TokenizerFile>{}))
        files.push_back({file.name, file.bytes});
    std::ranges::sort(files, {}, &train::StepFile::name);
    const Sizes size = sizes_of(files, cost::checkpoint_size(model, precision));
    Printout printout;
    if (flags.lists_files) add_files(printout, files);
    add_sizes(printout, size);
    const i64 on_disk = add_total(printout, train, model, size);
    if (!train.checkpoints.save.empty()) {
        constexpr i64 directory = 1;
        config::warn_of_room(
            train.checkpoints.save,
            {.n = on_disk, .bytes = size.total, .files = size.n_files + directory});
    }
    printout.print(flags.output);
    return 0;
}

}  // namespace

void add_checkpoint_verb(cli::Options& program) {
    const auto flags = std::make_shared<Flags>();
    cli::Options& options = program.verb(
        "checkpoint",
        "print the bytes of a checkpoint on disk, and of all checkpoints of a schedule",
        [flags] { return run(*flags); });
    options.examples({"lm-estimate checkpoint --model bloom-176b --bf16",
                      "lm-estimate checkpoint --model gpt2-124m --global-batch-size 512 "
                      "--train-tokens 10B --save-interval 1000"});
    options.value(
        "--nodes", &flags->nodes, "N",
        "number of nodes; each has the same number of ranks, and two data files; default: 1");
    options.flag("--files", &flags->lists_files, "list the files with their sizes");
    add_run_options(options, flags->train,
                    {"Model", "Parallel", "--ddp-bucket-size", "--global-batch-size",
                     "--rampup-batch-size", "--train-samples", "--train-iters", "--train-tokens",
                     "--fp16", "--bf16", "--deepspeed_config", "--save-interval", "--save-schedule",
                     "--save", "--save-retain", "--save-retain-interval", "--world-size"});
    add_output_options(options, flags->output);
}

}  // namespace lm::estimate
