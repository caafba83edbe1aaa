// SPDX-License-Identifier: Apache-2.0
#include "preprocess/dataset_build.hpp"

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <memory>
#include <mutex>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "base/version.hpp"
#include "data/indexed/dataset_assembly.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "data/jsonl/line_chunks.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "io/stream.hpp"
#include "preprocess/bad_lines.hpp"
#include "preprocess/chunk_encoder.hpp"
#include "preprocess/chunk_pipeline.hpp"
#include "preprocess/input_plan.hpp"
#include "preprocess/memory_budget.hpp"
#include "preprocess/part_journal.hpp"
#include "preprocess/part_writer.hpp"
#include "preprocess/run_description.hpp"
#include "preprocess/work_directory.hpp"
#include "text/tokenizer.hpp"

namespace lm::preprocess {
namespace {

struct AssemblyTask {
    const WorkDirectory& work;
    const InputPlan& plan;
    data::TokenType type;
    int n_threads;
    // The common content of all metadata files; counts and digests are filled in for each output.
    data::DatasetMetadata metadata;
};

constexpr i64 max_threads = 8;  // more threads do not make a file system faster

using Outputs = std::vector<data::DatasetAssembly>;          // [keys]
using BlockDigests = std::vector<std::vector<std::string>>;  // [keys][blocks]

Outputs make_outputs(const AssemblyTask& task, const std::vector<PartRecord>& records) {
    Outputs outputs;
    for (size_t k = 0; k < task.work.n_keys(); ++k) {
        std::vector<data::PartState> parts;
        for (const PartRecord& record : records) parts.push_back(record.keys[k]);
        outputs.emplace_back(std::move(parts), task.type, task.work.assembled(k, ".bin"),
                             task.work.assembled(k, ".idx"));
    }
    return outputs;
}

// Copies the parts to their places. If there is only one part, renames its .bin instead.
void place_parts(const AssemblyTask& task, Outputs& outputs, ThreadPool& pool) {
    const bool is_single = task.plan.n_parts == 1;
    for (size_t k = 0; k < outputs.size(); ++k) {
        pool.run(task.plan.n_parts, [&](i64 part, int) {
            const std::string stem = task.work.part_stem(part, k);
            outputs[k].place(part, stem, !is_single);
            if (is_single)
                io::checked::rename(data::DatasetPart::bin_of(stem),
                                    task.work.assembled(k, ".bin"));
        });
    }
}

BlockDigests digest_blocks(const Outputs& outputs, ThreadPool& pool) {
    BlockDigests digests;
    for (const data::DatasetAssembly& output : outputs) {
        std::vector<std::string>& blocks =
            digests.emplace_back(static_cast<size_t>(output.n_blocks()));
        pool.run(output.n_blocks(), [&](i64 block, int) {
            blocks[static_cast<size_t>(block)] = output.block_digest(block);
        });
    }
    return digests;
}

void write_metadata(const AssemblyTask& task, const Outputs& outputs, const BlockDigests& digests) {
    for (size_t k = 0; k < outputs.size(); ++k) {
        data::DatasetMetadata metadata = task.metadata;
        outputs[k].fill_in(metadata, digests[k]);
        io::write_file(task.work.assembled(k, ".json"), metadata.to_json(), io::Overwrite::yes);
    }
    io::write_file(task.work.file("complete"), "", io::Overwrite::yes);
}

// Writes key-K.bin, .idx and .json for each key, and then `complete`. `records` has the record of
// each part, in order.
void assemble_outputs(const AssemblyTask& task, const std::vector<PartRecord>& records) {
    Outputs outputs = make_outputs(task, records);
    ThreadPool pool(static_cast<int>(std::min<i64>(task.n_threads, max_threads)));
    place_parts(task, outputs, pool);
    write_metadata(task, outputs, digest_blocks(outputs, pool));
}

// If there is only one part, the assembly renames its .bin. If an earlier run was killed after this
// rename, restores the name of the part. Does nothing when there are several parts.
void restore_part_bin(const WorkDirectory& work, const InputPlan& plan, i64 part) {
    if (plan.n_parts > 1) return;
    for (size_t k = 0; k < work.n_keys(); ++k) {
        const std::string bin = data::DatasetPart::bin_of(work.part_stem(part, k));
        if (!io::exists(bin) && io::exists(work.assembled(k, ".bin")))
            io::checked::rename(work.assembled(k, ".bin"), bin);
    }
}

// The arguments of encode_part(). The references are to objects that all parts share.
struct PartTask {
    const std::vector<data::InputFile>& inputs;
    std::vector<data::InputPiece> pieces;  // pieces of the inputs, in order
    const EncodeRules& rules;
    const text::Tokenizer& tokenizer;
    int n_workers;
    i64 decoding_memory;  // bytes for decompression (io::open_stream)
    MemoryBudget& budget;
    BadLineWarnings& warnings;
    BuildObserver& observer;
    // A function that the encoding calls several times per second. It throws when another part has
    // failed.
    std::function<void()> check_others;
};

constexpr i64 chunk_bytes = i64{1} << 20;

// Encodes the part from the position at which `writer` has resumed. When the observer requests a
// stop, brings the journal up to date and throws Stopped.
void encode_part(PartWriter& writer, const PartTask& task) {
    if (writer.record().finished) return;
    const auto check = [&] {
        if (task.observer.stop_requested()) {
            writer.save();
            throw Stopped();
        }
        task.check_others();
    };
    data::ChunkReader reader(task.inputs, task.pieces, chunk_bytes, writer.record().next,
                             task.n_workers);
    reader.limit_decoding(task.decoding_memory);
    BadLineReporter bad_lines(task.rules.on_bad_line, task.warnings);
    try {
        ChunkPipeline pipeline(reader, task.rules, task.tokenizer, task.budget, task.n_workers);
        pipeline.start();
        i64 disk_bytes = 0;
        while (const auto item = pipeline.next(check)) {
            check();
            const EncodedChunk& encoded = *item->chunk;
            if (item->ahead) {
                const size_t key = *item->ahead;
                task.observer.advance(writer.append_ahead(encoded.keys[key], key), 0);
                continue;
            }
            const data::LineChunk& chunk = encoded.chunk;
            bad_lines.report(chunk, task.inputs[static_cast<size_t>(chunk.file)].path,
                             writer.lines_before(chunk), encoded.bad);
            task.observer.advance(writer.append(encoded), encoded.compressed_bytes - disk_bytes);
            disk_bytes = encoded.compressed_bytes;
        }
    } catch (const data::BadLineError& bad_line) {
        // If compressed data is corrupt, its text has a bad line long before the decoder reaches
        // the checksum. fail() decodes the data up to the checksum and throws the actual error.
        reader.fail(bad_line, check);
    }
    check();
    writer.finish();
}

// The memory bound in lm-preprocess(1), minus the memory for chunks of ordinary lines.
constexpr i64 long_lines_memory = i64{120} << 20;

struct PartAborted {};  // thrown when another part has failed

class DatasetBuild {
  public:
    DatasetBuild(const BuildOptions& options, BuildObserver& observer)
        : options_(options), observer_(observer), work_(options.output_prefix, options.keys) {}

    BuildResult run() {
        load_tokenizer();
        examine_inputs();
        if (is_complete_already()) return {false, {}, 0, work_.output_prefixes()};
        try {
            return run_in_work_directory();
        } catch (...) {
            if (work_.is_new() && !options_.resume) work_.remove();
            throw;
        }
    }

  private:
    void load_tokenizer() {
        tokenizer_ = text::load_tokenizer(options_.tokenizer);
        if (options_.append_eod && !tokenizer_->eod())
            usage_error("--append-eod",
                        "this tokenizer has no end-of-document token: omit the flag");
        type_ = data::token_type_for(tokenizer_->vocab_size());
        rules_ = {options_.keys, value_in(on_bad_lines, options_.on_bad_line).value(),
                  options_.append_eod, options_.keep_empty, type_ == data::TokenType::i32};
        metadata_.tool = fmt::format("lm-preprocess {}", version());
        if (tokenizer_->eod()) metadata_.eod_id = *tokenizer_->eod();
        metadata_.appended_eod = options_.append_eod;
        metadata_.tokenizer = {std::string(tokenizer_->type()), tokenizer_->digest(),
                               tokenizer_->vocab_size(),
                               text::padded_vocab_size(tokenizer_->vocab_size(),
                                                       options_.divisible_by, options_.pad_to)};
        for (const auto& [name, path] : text::files_of(options_.tokenizer)) {
            metadata_.tokenizer.files.push_back(
                {name, std::filesystem::absolute(path).string(), digest(io::read_file(path))});
        }
    }

    void examine_inputs() {
        n_workers_ = options_.workers > 0 ? static_cast<int>(options_.workers) : available_cores();
        plan_ = make_input_plan(options_, n_workers_);
    }

    // Returns the description of this run. Computes it on the first call only, because it reads
    // both ends of every input.
    const io::OrderedJson& description() {
        if (description_.is_null()) description_ = describe_run(plan_, options_, *tokenizer_);
        return description_;
    }

    // With --resume, returns whether this run has nothing to do, because all outputs are complete
    // and this run would write equal outputs. In this case prints a note and removes the work
    // directory. Throws Error(usage) when this run would write other outputs.
    bool is_complete_already() {
        if (!options_.resume || options_.force || io::exists(work_.run_file())) return false;
        if (!work_.outputs_exist()) return false;
        for (size_t k = 0; k < options_.keys.size(); ++k) {
            const std::string difference = difference_of_output(k);
            if (difference.empty()) continue;
            usage_error(work_.output_prefix(0),
                        "exists and is complete, but {}: replace it with --force, or give another "
                        "--output-prefix",
                        difference);
        }
        work_.remove();  // a killed run may have left some of it
        note("{}: complete already: nothing to do", work_.output_prefix(0));
        return true;
    }

    // Compares the existing output of a key with the output of this run. Returns the difference, or
    // an empty string.
    std::string difference_of_output(size_t key) {
        const auto dataset = data::IndexedDataset::open(work_.output_prefix(key));
        const auto existing = data::read_metadata(dataset);
        if (!existing) return "it has no metadata file that states the options of its run";
        if (existing->tokenizer.digest != tokenizer_->digest())
            return "it was made with another tokenizer";
        const i64 padded = metadata_.tokenizer.padded_vocab_size;
        if (existing->tokenizer.padded_vocab_size != padded) {
            return fmt::format("its metadata file states a padded vocabulary of {}, not {}",
                               existing->tokenizer.padded_vocab_size, padded);
        }
        return difference_of_origins(existing->origin, origin_of(description()));
    }

    BuildResult run_in_work_directory() {
        const bool is_assembled = claim_work_directory();
        if (!is_assembled) build();
        work_.publish(options_.force);
        return {!is_assembled, totals_, resumed_bytes_, work_.output_prefixes()};
    }

    // Returns whether the outputs in the work directory are assembled.
    bool claim_work_directory() {
        // Refuses existing outputs before the directory is created, unless an earlier run may have
        // published some of them.
        if (!options_.resume || !io::exists(work_.run_file()))
            work_.refuse_existing_outputs(options_.force);
        const auto found = work_.claim(options_.resume, options_.force);
        if (found == WorkDirectory::Found::complete) {
            adopt_parts();
            return true;
        }
        if (options_.resume) work_.refuse_existing_outputs(options_.force);
        for (const std::string& prefix : work_.output_prefixes()) {
            note_leftovers(prefix);
            note_links(prefix);
        }
        if (found == WorkDirectory::Found::nothing)
            io::write_file(work_.run_file(), io::json_text(description()), io::Overwrite::no);
        return false;
    }

    // Uses the number of parts of the run that wrote run.json, because the part files of that run
    // exist.
    void adopt_parts() { plan_.n_parts = parts_of_same_run(work_.run_file(), description()); }

    void build() {
        adopt_parts();
        observer_.begin(plan_.shard_bytes());
        encode_parts();
        for (const PartRecord& record : records_) totals_ += record.totals;
        check_documents();
        metadata_.origin = origin_of(description());
        metadata_.origin["totals"] = io::Json(totals_.to_json());
        assemble_outputs({work_, plan_, type_, n_workers_, metadata_}, records_);
    }

    // Encodes the parts, several at a time.
    void encode_parts() {
        const int n_lanes = concurrent_parts(plan_, n_workers_);
        MemoryBudget budget(long_lines_memory);
        BadLineWarnings warnings;
        std::atomic<bool> failed{false};
        records_.resize(static_cast<size_t>(plan_.n_parts));
        ThreadPool lanes(n_lanes);
        lanes.run(plan_.n_parts, [&](i64 part, int) {
            if (failed) return;
            const PartTask task{plan_.files,
                                plan_.part(part),
                                rules_,
                                *tokenizer_,
                                std::max(1, n_workers_ / n_lanes),
                                io::default_decoding_memory / n_lanes,
                                budget,
                                warnings,
                                observer_,
                                [&] {
                                    if (failed) throw PartAborted();
                                }};
            try {
                records_[static_cast<size_t>(part)] = resume_and_encode(part, task);
            } catch (const PartAborted&) {
                return;
            } catch (...) {
                failed = true;
                throw;
            }
        });
        BadLineWarnings::warn_rest(n_skipped_);
    }

    PartRecord resume_and_encode(i64 part, const PartTask& task) {
        restore_part_bin(work_, plan_, part);
        PartWriter writer =
            PartWriter::open(work_.journal(part), work_.part_stems(part), type_,
                             plan_.n_parts > 1 ? io::ReadAgain::yes : io::ReadAgain::no);
        writer.resume([&] {
            if (observer_.stop_requested()) throw Stopped();
            task.check_others();
        });
        const BuildTotals before = writer.record().totals;
        observer_.resumed(before);
        encode_part(writer, task);
        const std::lock_guard lock(mutex_);
        resumed_bytes_ += before.input_bytes;
        n_skipped_ += writer.record().totals.bad - before.bad;
        return writer.record();
    }

    void check_documents() const {
        if (totals_.documents > 0) return;
        if (totals_.bad > 0 && plan_.shard.count == 1) {
            run_error(plan_.files.size() == 1 ? plan_.files[0].path : "--input",
                      "none of the {} lines can be used: check --json-keys", totals_.bad);
        }
        warn("{}: no documents: the output is empty", work_.output_prefix(0));
    }

    const BuildOptions& options_;
    BuildObserver& observer_;
    WorkDirectory work_;

    // load_tokenizer() sets these members:
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    data::TokenType type_ = data::TokenType::u16;
    EncodeRules rules_;
    data::DatasetMetadata metadata_;  // common content of all outputs

    // examine_inputs() sets these members:
    int n_workers_ = 1;
    InputPlan plan_;

    io::OrderedJson description_;      // null until the first call of description()
    std::vector<PartRecord> records_;  // [parts]
    BuildTotals totals_;
    std::mutex mutex_;  // guards the counts below while parts are encoded
    i64 resumed_bytes_ = 0;
    i64 n_skipped_ = 0;  // bad lines that this run has skipped
};

}  // namespace

BuildResult build_datasets(const BuildOptions& options, BuildObserver& observer) {
    return DatasetBuild(options, observer).run();
}

}  // namespace lm::preprocess
