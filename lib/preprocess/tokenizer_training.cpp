// SPDX-License-Identifier: Apache-2.0
#include "preprocess/tokenizer_training.hpp"

#include <algorithm>
#include <iterator>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "io/file.hpp"
#include "io/output_place.hpp"
#include "io/path.hpp"

namespace lm::preprocess {
namespace {

constexpr const char* temporary_suffix = "train-tokenizer";
constexpr const char* file_names[] = {"vocab.json", "merges.txt", "tokenizer.json",
                                      "tokenizer_config.json"};

// Prints a note when a killed run left a temporary directory, which AtomicDirectory removes.
void note_leftover(const std::string& directory) {
    const std::string leftover =
        io::without_trailing_slashes(directory) + ".tmp." + temporary_suffix;
    if (io::exists(leftover)) note("{}: left by a run that was killed: removed", leftover);
}

}  // namespace

TrainingResult train_tokenizer(const TrainingOptions& options, const TrainingProgress& progress) {
    TrainingResult result;
    const Stopwatch watch;
    text::BpeTrainer trainer(options.design.special);
    {
        CorpusCounter corpus(options.corpus, options.design);
        corpus.run(progress.counted);
        progress.counting_ends();
        result.totals = corpus.totals();
        if (result.totals.text_bytes == 0)
            run_error("--input", "holds no text: nothing was written");
        result.distinct_pretokens = corpus.pretokens().size();
        result.dropped_count = corpus.pretokens().dropped_count();
        result.count_s = watch.elapsed_s();
        corpus.pretokens().for_each(
            [&](std::string_view pretoken, i64 count) { trainer.add(pretoken, count); });
    }
    result.bpe = trainer.train(options.vocab_size, options.min_frequency, progress.merged);
    result.merge_s = watch.elapsed_s() - result.count_s;
    return result;
}

void check_tokenizer_directory(const std::string& directory, bool force) {
    if (!io::exists(directory)) return io::require_parent(directory);
    if (!force) usage_error(directory, "exists already: use --force to replace it");
    if (!io::is_directory(directory))
        usage_error(directory, "exists and is not a directory: choose another --output");
    for (const std::string& name : io::list_directory(directory)) {
        if (std::ranges::find(file_names, name) == std::end(file_names))
            usage_error(directory,
                        "contains {}, which is not a file of a tokenizer: choose another --output",
                        name);
    }
}

void write_tokenizer(const std::string& directory, io::Overwrite overwrite,
                     const text::TrainedBpe& bpe, const text::TokenizerDesign& design) {
    note_leftover(directory);
    auto out = io::AtomicDirectory::create(directory, temporary_suffix, overwrite);
    const auto put = [&](const char* name, const std::string& content) {
        io::write_file(out.path() + "/" + name, content, io::Overwrite::no);
    };
    put(file_names[0], text::vocab_json(bpe));
    put(file_names[1], text::merges_txt(bpe));
    put(file_names[2], text::tokenizer_json(bpe, design));
    put(file_names[3], text::tokenizer_config_json(design));
    out.commit();
}

}  // namespace lm::preprocess
