// SPDX-License-Identifier: Apache-2.0
// The main road: inputs through the pipeline into one indexed dataset per key.
// Parts grow in a work directory; when all are there, they are put together and renamed. Under a
// launcher every rank makes its parts and puts them into place itself.
#include <algorithm>
#include <atomic>
#include <mutex>

#include "args.hpp"
#include "base/error.hpp"
#include "base/launcher.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "base/version.hpp"
#include "cli/main.hpp"
#include "cli/signals.hpp"
#include "cluster/file_rendezvous.hpp"
#include "data/indexed/dataset_assembly.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/json.hpp"
#include "outputs.hpp"
#include "part_run.hpp"
#include "plan.hpp"
#include "report.hpp"
#include "work_directory.hpp"

namespace lm::preprocess {
namespace {

EncodeRules rules_of(const Args& args, const text::Tokenizer& tokenizer, data::TokenType type) {
    EncodeRules rules;
    rules.keys = args.keys;
    rules.on_bad_line = parse_on_bad_line(args.on_bad_line);
    rules.append_eod = args.append_eod;
    rules.keep_empty = args.keep_empty;
    rules.wide = type == data::TokenType::i32;
    if (args.append_eod && !tokenizer.eod()) {
        usage_error("--append-eod", "this tokenizer has no end-of-document token");
    }
    return rules;
}

data::DatasetMetadata facts_of(const Args& args, const text::Tokenizer& tokenizer) {
    data::DatasetMetadata facts;
    facts.tool = fmt::format("lm-preprocess {}", version());
    if (tokenizer.eod()) facts.eod_id = *tokenizer.eod();
    facts.appended_eod = args.append_eod;
    facts.tokenizer = {
        std::string(tokenizer.type()), tokenizer.digest(), tokenizer.vocab_size(),
        text::padded_vocab_size(tokenizer.vocab_size(), args.divisible_by, args.pad_to)};
    return facts;
}

// What the memory bound of lm-preprocess(1) leaves for long lines.
constexpr i64 long_lines_memory = i64{120} << 20;

struct LaneStopped {};  // another one failed

// One run from the inputs to the outputs; under a launcher, this rank's share of it.
class Run {
  public:
    explicit Run(const Args& args)
        : args_(args),
          launch_(launched_by({Launcher::open_mpi, Launcher::pmi, Launcher::slurm})),
          tokenizer_(text::load_tokenizer(args.tokenizer)),
          type_(data::token_type_for(tokenizer_->vocab_size())),
          rules_(rules_of(args, *tokenizer_, type_)),
          facts_(facts_of(args, *tokenizer_)),
          n_workers_(args.workers > 0 ? static_cast<int>(args.workers) : available_cores()),
          plan_(make_plan(args, launch_, n_workers_)),
          work_(args.output.prefix, args.keys) {}

    int run() {
        if (nothing_left()) return 0;
        try {
            const bool complete = take_work();
            cluster::FileRendezvous ranks(work_.path(), launch_, args_.rank_timeout.seconds);
            try {
                ranks.publish("begin", complete ? "complete" : "");
                const bool for_all =
                    launch_.size > 1 ? !ranks.gather("begin")[0].empty() : complete;
                if (!for_all) return make(ranks);
                publish(ranks);
                if (is_first()) report_found(args_, prefixes());
                return 0;
            } catch (const Error& error) {
                if (ranks.leave(error.what())) throw JointError(error.code(), error.what());
                throw;
            } catch (const Stopped&) {
                ranks.leave("stopped by a signal");
                throw;
            }
        } catch (...) {
            if (work_.is_begun_here() && !args_.resume) work_.remove();
            throw;
        }
    }

  private:
    bool is_first() const { return launch_.rank == 0; }
    i64 part_of(i64 own) const { return launch_.rank * plan_.parts_per_rank + own; }

    // With --resume: the outputs are there already, whole, and what this run would make.
    bool nothing_left() {
        why_not_.clear();
        if (!args_.resume || args_.output.force || io::exists(work_.run_file())) return false;
        if (!work_.outputs_exist()) return false;
        for (size_t k = 0; k < args_.keys.size() && why_not_.empty(); ++k)
            why_not_ = difference_of(k);
        if (!why_not_.empty()) return false;
        if (is_first()) work_.remove();  // killed while it was cleared away
        note("{}: complete already, nothing is left to do", work_.output_prefix(0));
        if (is_first()) report_found(args_, prefixes());
        return true;
    }

    std::vector<std::string> prefixes() const {
        std::vector<std::string> all;
        for (size_t k = 0; k < args_.keys.size(); ++k) all.push_back(work_.output_prefix(k));
        return all;
    }

    // Between the outputs of a key that are there and what this run would make of it.
    std::string difference_of(size_t key) {
        const auto dataset = data::IndexedDataset::open(work_.output_prefix(key));
        const auto metadata = data::read_metadata(dataset);
        if (!metadata) return "without a side file that says of what";
        const data::TokenizerFacts& theirs = metadata->tokenizer;
        if (theirs.digest != tokenizer_->digest()) return "made with another tokenizer";
        if (theirs.padded_vocab_size != facts_.tokenizer.padded_vocab_size) {
            return fmt::format("its side file states a padded vocabulary of {}, not {}",
                               theirs.padded_vocab_size, facts_.tokenizer.padded_vocab_size);
        }
        return difference(metadata->origin, origin_of(description()));
    }

    // Of the plan; the inputs are looked at once.
    const io::OrderedJson& description() {
        if (description_.is_null()) description_ = describe(plan_, args_, *tokenizer_);
        return description_;
    }

    // Rank 0 takes the work directory for all. True: only the publishing is left.
    bool take_work() {
        if (!why_not_.empty()) {
            usage_error(
                work_.output_prefix(0),
                "exists, complete but {}: --force replaces it, another --output-prefix keeps "
                "it",
                why_not_);
        }
        // Before the work directory is made, unless it holds work that may be half published.
        if (!args_.resume || !io::exists(work_.run_file())) {
            work_.refuse_existing_outputs(args_.output.force);
        }
        if (!is_first()) return false;
        const auto found = work_.take(args_.resume, args_.output.force);
        if (found == WorkDirectory::Found::complete_work) {
            adopt_plan();
            return true;
        }
        if (args_.resume) work_.refuse_existing_outputs(args_.output.force);
        for (size_t k = 0; k < args_.keys.size(); ++k) {
            note_leftovers(work_.output_prefix(k));
            note_links(work_.output_prefix(k));
        }
        if (found == WorkDirectory::Found::nothing) {
            io::write_file(work_.run_file(), io::json_text(description()), io::Overwrite::no);
        }
        return false;
    }

    // The parts are cut as the run that began the work cut them.
    void adopt_plan() { plan_.parts_per_rank = parts_of_same_run(work_.run_file(), description()); }

    void publish(cluster::FileRendezvous& ranks) {
        ranks.publish_last("end", "");
        if (!is_first()) return;
        if (launch_.size > 1) (void)ranks.gather("end");
        work_.publish(args_.output.force);
    }

    int make(cluster::FileRendezvous& ranks) {
        adopt_plan();
        cli::install_stop_signals();
        Reporter reporter(args_, rank_bytes());
        encode_parts(ranks, reporter);
        reporter.say_skipped();
        totals_ = gather_parts(ranks);
        const Totals& totals = totals_;
        if (totals.documents == 0 && totals.bad > 0 && plan_.shard.count == 1) {
            run_error(plan_.inputs.size() == 1 ? plan_.inputs[0] : "--input",
                      "none of the {} lines can be used: is --json-keys right?", totals.bad);
        }
        if (totals.documents == 0 && is_first())
            warn("{}: no documents: the output is empty", work_.output_prefix(0));
        put_together(ranks);
        publish(ranks);
        if (!is_first()) return 0;
        report(args_, {totals, resumed_bytes_, reporter.finish()}, prefixes());
        return 0;
    }

    i64 rank_bytes() const {
        return plan_.input_bytes < 0 ? -1 : plan_.input_bytes / plan_.shard.count / plan_.n_ranks;
    }

    // This rank's parts, several at a time when there are several.
    void encode_parts(cluster::FileRendezvous& ranks, Reporter& reporter) {
        const auto n_parts = static_cast<size_t>(plan_.parts_per_rank);
        const int n_lanes = lanes_for(plan_, n_workers_);
        MemoryBudget budget(long_lines_memory);
        records_.resize(n_parts);
        ThreadPool lanes(n_lanes);
        std::atomic<bool> failed{false};
        std::mutex mutex;
        lanes.run(plan_.parts_per_rank, [&](i64 own, int) {
            if (failed) return;
            try {
                const i64 part = part_of(own);
                std::vector<std::string> stems;
                for (size_t k = 0; k < args_.keys.size(); ++k) {
                    stems.push_back(work_.part_stem(part, k));
                    restore_bin(part, k);
                }
                PartRun run(work_.journal(part), stems, type_,
                            plan_.n_parts() > 1 ? io::ReadAgain::yes : io::ReadAgain::no);
                const auto check = [&] {
                    if (failed) throw LaneStopped();
                    ranks.check();
                };
                run.resume(check);
                reporter.found(run.record().totals, 0);
                {
                    const std::lock_guard lock(mutex);
                    resumed_bytes_ += run.record().totals.input_bytes;
                }
                run.run({&plan_.files, plan_.part(part), &rules_, tokenizer_.get(),
                         std::max(1, n_workers_ / n_lanes), &budget,
                         io::default_decoding_memory / n_lanes, &reporter, check});
                records_[static_cast<size_t>(own)] = run.record();
            } catch (const LaneStopped&) {
                return;
            } catch (...) {
                failed = true;
                throw;
            }
        });
    }

    // A run that was killed while it put a single part together had renamed its tokens already.
    void restore_bin(i64 part, size_t key) const {
        const std::string bin = data::DatasetPart::bin_of(work_.part_stem(part, key));
        if (plan_.n_parts() == 1 && !io::exists(bin) && io::exists(work_.assembled(key, ".bin")))
            io::checked::rename(work_.assembled(key, ".bin"), bin);
    }

    // Tells the others about this rank's parts, and learns about theirs.
    Totals gather_parts(cluster::FileRendezvous& ranks) {
        if (launch_.size > 1) {
            std::string own = std::to_string(resumed_bytes_) + "\n";
            for (const PartRecord& record : records_) own += record.to_line();
            ranks.publish("done", own);
            records_.clear();
            resumed_bytes_ = 0;
            for (const std::string& lines : ranks.gather("done")) {
                std::string_view rest = lines;
                resumed_bytes_ += std::stoll(std::string(data::take_line(rest)));
                while (!rest.empty()) {
                    auto record = PartRecord::parse(data::take_line(rest), work_.path());
                    if (!record)
                        run_error(work_.path(), "what a rank says of its parts is damaged");
                    records_.push_back(std::move(*record));
                }
            }
        }
        Totals totals;
        for (const PartRecord& record : records_) totals += record.totals;
        return totals;
    }

    void put_together(cluster::FileRendezvous& ranks) {
        std::vector<data::DatasetAssembly> outputs;
        for (size_t k = 0; k < args_.keys.size(); ++k) {
            std::vector<data::PartState> parts;
            for (const PartRecord& record : records_) parts.push_back(record.keys[k]);
            outputs.emplace_back(std::move(parts), type_, work_.assembled(k, ".bin"),
                                 work_.assembled(k, ".idx"));
        }
        ThreadPool pool(static_cast<int>(std::min<i64>(n_workers_, 8)));
        for (size_t k = 0; k < outputs.size(); ++k) {
            pool.run(plan_.parts_per_rank, [&](i64 own, int) {
                const i64 part = part_of(own);
                const std::string stem = work_.part_stem(part, k);
                outputs[k].place(part, stem, plan_.n_parts() > 1);
                if (plan_.n_parts() == 1)
                    io::checked::rename(data::DatasetPart::bin_of(stem),
                                        work_.assembled(k, ".bin"));
            });
        }
        ranks.publish("placed", "");
        if (launch_.size > 1) (void)ranks.gather("placed");
        complete(outputs, digest_blocks(ranks, pool, outputs));
    }

    using BlockDigests = std::vector<std::vector<std::string>>;  // by output

    // Every rank digests its share of the blocks.
    BlockDigests digest_blocks(cluster::FileRendezvous& ranks, ThreadPool& pool,
                               const std::vector<data::DatasetAssembly>& outputs) {
        BlockDigests digests;
        for (const data::DatasetAssembly& output : outputs) {
            std::vector<std::string>& blocks =
                digests.emplace_back(static_cast<size_t>(output.n_blocks()));
            const i64 own = ceil_div(output.n_blocks() - launch_.rank, i64{launch_.size});
            pool.run(std::max<i64>(own, 0), [&](i64 i, int) {
                const i64 block = launch_.rank + i * launch_.size;
                blocks[static_cast<size_t>(block)] = output.block_digest(block);
            });
        }
        if (launch_.size == 1) return digests;
        ranks.publish("digests", io::Json(digests).dump());
        if (!is_first()) return {};
        int rank = 0;
        for (const std::string& text : ranks.gather("digests")) {
            const auto theirs = io::parse_json(text, work_.path()).get<BlockDigests>();
            for (size_t k = 0; k < digests.size(); ++k) {
                for (auto b = static_cast<size_t>(rank); b < digests[k].size();
                     b += static_cast<size_t>(launch_.size))
                    digests[k][b] = theirs[k][b];
            }
            ++rank;
        }
        return digests;
    }

    void complete(const std::vector<data::DatasetAssembly>& outputs, const BlockDigests& digests) {
        if (!is_first()) return;
        for (size_t k = 0; k < outputs.size(); ++k) {
            data::DatasetMetadata facts = facts_;
            facts.origin = origin_of(description());
            facts.origin["totals"] = io::Json::parse(io::json_text(totals_.to_json()));
            outputs[k].fill_in(facts, digests[k]);
            io::write_file(work_.assembled(k, ".json"), facts.to_json(), io::Overwrite::yes);
        }
        io::write_file(work_.file("complete"), "", io::Overwrite::yes);
    }

    const Args& args_;
    Launched launch_;
    std::shared_ptr<const text::Tokenizer> tokenizer_;
    data::TokenType type_;
    EncodeRules rules_;
    data::DatasetMetadata facts_;
    int n_workers_;
    Plan plan_;
    WorkDirectory work_;
    io::OrderedJson description_;      // null until it is asked for
    std::vector<PartRecord> records_;  // of this rank's parts, later of all
    Totals totals_;                    // of all
    std::string why_not_;              // outputs that are there are not what --resume would make
    i64 resumed_bytes_ = 0;            // found done, by this rank, later by all
};

}  // namespace

int preprocess(const Args& args) {
    check(args);
    try {
        return Run(args).run();
    } catch (const Stopped&) {
        // The usual end of a program that a signal ended: the unfinished outputs are gone.
        if (!args.resume) cli::end_by_signal(cli::stop_signal_number());
        note("{}.unfinished: keeps what was done: the same command goes on with it",
             args.output.prefix);
        return static_cast<int>(Exit::run_again);
    }
}

}  // namespace lm::preprocess
