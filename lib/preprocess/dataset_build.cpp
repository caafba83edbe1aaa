// SPDX-License-Identifier: Apache-2.0
#include "preprocess/dataset_build.hpp"

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>

#include "base/error.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "base/version.hpp"
#include "cluster/file_rendezvous.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "io/json.hpp"
#include "io/stream.hpp"
#include "preprocess/encode_part.hpp"
#include "preprocess/input_plan.hpp"
#include "preprocess/output_assembly.hpp"
#include "preprocess/output_notes.hpp"
#include "preprocess/run_description.hpp"
#include "preprocess/work_directory.hpp"

namespace lm::preprocess {
namespace {

// The memory bound in lm-preprocess(1), minus the memory for chunks of ordinary lines.
constexpr i64 long_lines_memory = i64{120} << 20;

struct PartAborted {};  // thrown when another part of this rank has failed

class DatasetBuild {
  public:
    DatasetBuild(const BuildOptions& options, const Launched& launch, BuildObserver& observer)
        : options_(options),
          launch_(launch),
          observer_(observer),
          work_(options.output_prefix, options.keys) {}

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
    bool is_rank0() const { return launch_.rank == 0; }

    void load_tokenizer() {
        tokenizer_ = text::load_tokenizer(options_.tokenizer);
        if (options_.append_eod && !tokenizer_->eod())
            usage_error("--append-eod",
                        "this tokenizer has no end-of-document token: omit the flag");
        type_ = data::token_type_for(tokenizer_->vocab_size());
        rules_ = {options_.keys, parse_on_bad_line(options_.on_bad_line), options_.append_eod,
                  options_.keep_empty, type_ == data::TokenType::i32};
        metadata_.tool = fmt::format("lm-preprocess {}", version());
        if (tokenizer_->eod()) metadata_.eod_id = *tokenizer_->eod();
        metadata_.appended_eod = options_.append_eod;
        metadata_.tokenizer = {std::string(tokenizer_->type()), tokenizer_->digest(),
                               tokenizer_->vocab_size(),
                               text::padded_vocab_size(tokenizer_->vocab_size(),
                                                       options_.divisible_by, options_.pad_to)};
    }

    void examine_inputs() {
        n_workers_ = options_.workers > 0 ? static_cast<int>(options_.workers) : available_cores();
        plan_ = make_input_plan(options_, launch_.size, n_workers_);
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
        if (is_rank0()) work_.remove();  // a killed run may have left some of it
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
        cluster::FileRendezvous ranks(work_.path(), launch_, options_.rank_timeout_s);
        ranks.join();
        try {
            // Only rank 0 has read the directory; the other ranks use its result.
            ranks.publish("begin", is_assembled ? "complete" : "");
            const bool only_publish =
                launch_.size > 1 ? !ranks.gather("begin")[0].empty() : is_assembled;
            if (!only_publish) build(ranks);
            publish(ranks);
            return {!only_publish, totals_, resumed_bytes_, work_.output_prefixes()};
        } catch (const Error& error) {
            if (ranks.leave(error.what())) throw JointError(error.code(), error.what());
            throw;
        } catch (const Stopped&) {
            ranks.leave("stopped by a signal");
            throw;
        }
    }

    // Rank 0 claims the work directory for all ranks. Returns whether the outputs in it are
    // assembled.
    bool claim_work_directory() {
        // Refuses existing outputs before the directory is created, unless an earlier run may have
        // published some of them.
        if (!options_.resume || !io::exists(work_.run_file()))
            work_.refuse_existing_outputs(options_.force);
        if (!is_rank0()) return false;
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
    void adopt_parts() {
        plan_.parts_per_rank = parts_of_same_run(work_.run_file(), description());
    }

    void build(cluster::FileRendezvous& ranks) {
        adopt_parts();
        observer_.begin(plan_.bytes_per_rank());
        encode_parts(ranks);
        exchange_records(ranks);
        check_documents();
        metadata_.origin = origin_of(description());
        metadata_.origin["totals"] = io::Json(totals_.to_json());
        assemble_outputs({work_, plan_, launch_, type_, n_workers_, metadata_}, records_, ranks);
    }

    // Encodes this rank's parts, several at a time.
    void encode_parts(cluster::FileRendezvous& ranks) {
        const int n_lanes = concurrent_parts(plan_, n_workers_);
        MemoryBudget budget(long_lines_memory);
        BadLineWarnings warnings;
        std::atomic<bool> failed{false};
        records_.resize(static_cast<size_t>(plan_.parts_per_rank));
        ThreadPool lanes(n_lanes);
        lanes.run(plan_.parts_per_rank, [&](i64 own, int) {
            if (failed) return;
            const i64 part = launch_.rank * plan_.parts_per_rank + own;
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
                                    ranks.check();
                                }};
            try {
                records_[static_cast<size_t>(own)] = resume_and_encode(part, task);
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
                             plan_.n_parts() > 1 ? io::ReadAgain::yes : io::ReadAgain::no);
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

    // Exchanges records_ and resumed_bytes_, which then cover all ranks, and sets totals_.
    // Collective.
    void exchange_records(cluster::FileRendezvous& ranks) {
        if (launch_.size > 1) {
            std::string own = std::to_string(resumed_bytes_) + "\n";
            for (const PartRecord& record : records_) own += record.to_line();
            ranks.publish("done", own);
            records_.clear();
            resumed_bytes_ = 0;
            for (const std::string& lines : ranks.gather("done")) add_records(lines);
        }
        for (const PartRecord& record : records_) totals_ += record.totals;
    }

    void add_records(std::string_view lines) {
        resumed_bytes_ += std::stoll(std::string(data::next_line(lines)));
        while (!lines.empty()) {
            auto record = PartRecord::parse(data::next_line(lines), work_.path());
            if (!record) run_error(work_.path(), "the part records that a rank sent are corrupt");
            records_.push_back(std::move(*record));
        }
    }

    void check_documents() const {
        if (totals_.documents > 0) return;
        if (totals_.bad > 0 && plan_.shard.count == 1) {
            run_error(plan_.files.size() == 1 ? plan_.files[0].path : "--input",
                      "none of the {} lines can be used: check --json-keys", totals_.bad);
        }
        if (is_rank0()) warn("{}: no documents: the output is empty", work_.output_prefix(0));
    }

    void publish(cluster::FileRendezvous& ranks) {
        ranks.publish_last("end", "");
        if (!is_rank0()) return;
        if (launch_.size > 1) (void)ranks.gather("end");
        work_.publish(options_.force);
    }

    const BuildOptions& options_;
    const Launched& launch_;
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

    io::OrderedJson description_;  // null until the first call of description()
    std::vector<PartRecord>
        records_;            // records of this rank's parts; later of all parts of all ranks
    BuildTotals totals_;     // totals of all ranks
    std::mutex mutex_;       // guards the counts below while parts are encoded
    i64 resumed_bytes_ = 0;  // bytes of this rank; later of all ranks
    i64 n_skipped_ = 0;      // bad lines that this rank has skipped in this run
};

}  // namespace

BuildResult build_datasets(const BuildOptions& options, const Launched& launch,
                           BuildObserver& observer) {
    return DatasetBuild(options, launch, observer).run();
}

}  // namespace lm::preprocess
