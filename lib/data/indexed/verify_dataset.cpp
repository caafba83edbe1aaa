// SPDX-License-Identifier: Apache-2.0
#include "data/indexed/verify_dataset.hpp"

#include <algorithm>
#include <set>
#include <utility>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "data/indexed/indexed_dataset.hpp"

namespace lm::data {
namespace {

constexpr i64 block_tokens = i64{1} << 20;

class Verifier {
  public:
    Verifier(const std::string& prefix, const VerifyRules& rules,
             const std::function<void(i64)>& progress)
        : prefix_(prefix), rules_(rules), progress_(progress) {}

    VerifyResult run() {
        // Opens the files first, because a file that cannot be read is an Error, not a fault of the
        // dataset.
        for (const std::string& path : {idx_path(prefix_), bin_path(prefix_)})
            (void)io::MappedFile::open(path);
        try {
            const IndexedDataset dataset = IndexedDataset::open(prefix_);
            result_.documents = dataset.n_documents();
            result_.sequences = dataset.n_sequences();
            result_.tokens = dataset.n_tokens();
            read_side(dataset);
            check_sequences(dataset);
            check_documents(dataset);
            check_tokens(dataset);
            check_eod(dataset);
            check_side(dataset);
        } catch (const Error& error) {
            add(error.what());
        }
        if (full())
            result_.faults.push_back(
                fmt::format("{}: stopped after {} faults", prefix_, rules_.max_faults));
        return std::move(result_);
    }

  private:
    // Every check ends when the result is full; further faults are not added.
    bool full() const { return static_cast<i64>(result_.faults.size()) >= rules_.max_faults; }

    void add(std::string fault) {
        if (!full()) result_.faults.push_back(std::move(fault));
    }

    template <typename... Args>
    void fault(const std::string& path, fmt::format_string<Args...> format, Args&&... args) {
        add(path + ": " + fmt::format(format, std::forward<Args>(args)...));
    }

    // Runs `read` and adds its error to the faults.
    template <typename Read>
    void guarded(Read read) {
        try {
            read();
        } catch (const Error& error) {
            add(error.what());
        }
    }

    void read_side(const IndexedDataset& dataset) {
        guarded([&] { metadata_ = read_metadata(dataset); });
        result_.had_metadata = metadata_.has_value();
    }

    // Checks that each sequence begins where the previous one ends. open() has checked the first
    // and the last sequence.
    void check_sequences(const IndexedDataset& dataset) {
        // Sequence s should begin at `end`: the pointer of sequence s - 1 plus its length. If that
        // pointer differed from the end of sequence s - 2, one of the two is wrong, but it is
        // unknown which. Then sequence s may also begin at `other_end`: the end of s - 2 plus the
        // length of s - 1. `end` and `other_end` are nullopt after a corrupt entry.
        std::optional<i64> end = 0, other_end;
        for (i64 s = 0; s < dataset.n_sequences() && !full(); ++s) {
            const auto begin = std::exchange(end, std::nullopt);
            const auto other_begin = std::exchange(other_end, std::nullopt);
            bool fits = false;
            guarded([&] {
                const i64 position = dataset.position(s);
                fits = !begin || position == *begin || position == other_begin;
                if (!fits) {
                    fault(idx_path(prefix_),
                          "sequence {} begins at token {}, but the previous one ends at {}", s,
                          position, *begin);
                }
                const i64 length = dataset.length(s);
                end = position + length;
                if (!fits) other_end = *begin + length;
            });
            if (!fits) doubtful_.insert(s);
        }
    }

    void check_documents(const IndexedDataset& dataset) {
        i64 before = 0;
        for (i64 d = 0; d <= dataset.n_documents() && !full(); ++d) {
            guarded([&] {
                const i64 at = dataset.document(d);
                if (at < before)
                    fault(idx_path(prefix_), "document index not monotonic at entry {}", d);
                before = at;
            });
        }
    }

    void check_tokens(const IndexedDataset& dataset) {
        std::optional<i64> vocab = rules_.vocab_size;
        if (!vocab && metadata_) vocab = metadata_->tokenizer.vocab_size;
        std::vector<i64> ids;
        BlockDigester digester;
        for (i64 begin = 0; begin < dataset.n_tokens() && !full(); begin += block_tokens) {
            const i64 end = std::min(begin + block_tokens, dataset.n_tokens());
            ids.resize(static_cast<size_t>(end - begin));
            dataset.read(begin, ids);
            digester.update(dataset.raw(begin, end));
            for (size_t i = 0; i < ids.size(); ++i) {
                result_.largest_id = std::max(result_.largest_id, ids[i]);
                if (ids[i] >= 0 && (!vocab || ids[i] < *vocab)) continue;
                fault(bin_path(prefix_), "token {} is {}, outside the vocabulary{}",
                      begin + static_cast<i64>(i), ids[i],
                      vocab ? fmt::format(" of {}", *vocab) : "");
            }
            if (progress_) progress_(end * size_of(dataset.token_type()));
        }
        bin_digest_ = digester.finish();
    }

    void check_eod(const IndexedDataset& dataset) {
        std::optional<i64> eod = rules_.eod_id;
        if (!eod && metadata_ && metadata_->appended_eod) eod = metadata_->eod_id;
        if (!eod) return;
        for (i64 d = 0; d < dataset.n_documents() && !full(); ++d) {
            const auto [begin, end] = tokens_of(dataset, d);
            if (begin >= end) continue;
            i64 last = 0;
            dataset.read(end - 1, std::span(&last, 1));
            if (last != *eod)
                fault(bin_path(prefix_), "document {} ends with id {}, expected {}", d, last, *eod);
        }
    }

    // Returns the document's range of tokens. The range is empty when an entry is wrong; the fault
    // of that entry has been added already.
    std::pair<i64, i64> tokens_of(const IndexedDataset& dataset, i64 document) const {
        try {
            const i64 first = dataset.document(document);
            const i64 behind = dataset.document(document + 1);
            if (doubtful_.contains(first) || doubtful_.contains(behind)) return {0, 0};
            return {dataset.position(first), dataset.position(behind)};
        } catch (const Error&) {
            return {0, 0};
        }
    }

    void check_side(const IndexedDataset& dataset) {
        if (!metadata_ || full()) return;
        const std::string path = metadata_path(prefix_);
        if (metadata_->largest_id != result_.largest_id) {
            fault(path, "states largest id {}, but the .bin has {}", metadata_->largest_id,
                  result_.largest_id);
        }
        if (metadata_->bin.digest != bin_digest_)
            fault(bin_path(prefix_), "the bytes of the file have changed since {} was written",
                  path);
        const auto idx = io::MappedFile::open(idx_path(dataset.prefix()));
        BlockDigester idx_digest;
        idx_digest.update(idx.bytes());
        if (metadata_->idx.digest != idx_digest.finish()) {
            fault(idx_path(prefix_), "the bytes of the file have changed since {} was written",
                  path);
        }
    }

    const std::string& prefix_;
    const VerifyRules& rules_;
    const std::function<void(i64)>& progress_;
    std::optional<DatasetMetadata> metadata_;
    std::set<i64> doubtful_;  // sequences whose begin may be wrong; at most max_faults
    std::string bin_digest_;
    VerifyResult result_;
};

}  // namespace

VerifyResult verify_dataset(const std::string& prefix, const VerifyRules& rules,
                            const std::function<void(i64)>& progress) {
    return Verifier(prefix, rules, progress).run();
}

}  // namespace lm::data
