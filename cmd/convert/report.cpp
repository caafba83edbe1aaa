// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <algorithm>
#include <utility>

#include "base/log.hpp"
#include "base/units.hpp"
#include "cli/main.hpp"

namespace lm {

void Drift::add(const std::string& tensor, double difference) {
    if (n++ == 0) first = tensor;
    largest = std::max(largest, difference);
}

Report::Report(std::string in, std::string out, bool quiet, bool json)
    : in_(std::move(in)), out_(std::move(out)), quiet_(quiet), json_(json) {}

void Report::compared(const check::Comparison& result) {
    checks_.push_back({{"kind", "logits"},
                       {"program", result.theirs.empty() ? "lm-convert" : result.theirs},
                       {"largest_difference", result.largest},
                       {"root_mean_square", result.rms},
                       {"perplexity", {result.our_perplexity, result.their_perplexity}},
                       {"tokens", result.tokens}});
    if (!notes()) return;
    note(
        "--check: logits differ by at most {:.2e}{} (root mean square of the logits: {:.2e}); "
        "perplexity {:.4f} (lm-train's code) and {:.4f} ({}), measured on {}",
        result.largest, result.theirs.empty() ? "" : fmt::format(" from {}", result.theirs),
        result.rms, result.our_perplexity, result.their_perplexity,
        result.theirs.empty() ? "lm-convert's own reference; transformers: see --check-python"
                              : result.theirs,
        result.tokens);
}

void Report::imported(const check::ImportCheck& result) {
    checks_.push_back(
        {{"kind", "perplexity"}, {"perplexity", result.perplexity}, {"tokens", result.tokens}});
    if (notes())
        note("--check: perplexity {:.4f}, measured on {}", result.perplexity, result.tokens);
}

void Report::read_again(i64 n_tensors) {
    checks_.push_back({{"kind", "bits"}, {"tensors", n_tensors}});
    if (notes()) note("--check: {} tensors were read again and are bitwise equal", n_tensors);
}

void Report::converted(const Formats& formats, const convert::ConversionReport& result,
                       const Drift& drift) {
    if (drift.n > 0) {
        warn(
            "{}: number of tensors whose copies on several ranks differ: {}, by up to {:.2e} "
            "(first: {}): the copies of rank 0 are used: see lm-ckpt repair",
            in_, drift.n, drift.largest, drift.first);
    }
    const bool no_tokenizer = formats.to.is_hugging_face() && !result.has_tokenizer;
    const bool no_end = result.end_of_document < 0;
    print(
        {{"in", in_},
         {"out", out_},
         {"from", name_of(formats.from)},
         {"to", name_of(formats.to)},
         {"action", "converted"},
         {"tensors", result.n_tensors},
         {"bytes", result.n_bytes},
         {"seconds", watch_.elapsed_s()},
         {"has_tokenizer", result.has_tokenizer},
         {"end_of_document", no_end ? io::OrderedJson() : io::OrderedJson(result.end_of_document)},
         {"differing_copies", drift.n},
         {"checks", checks_}});
    if (!notes()) return;
    if (no_tokenizer) {
        note(
            "{}: written without tokenizer files, because the vocabulary is not GPT-2's: give "
            "--tokenizer",
            out_);
    }
    if (no_end) note("{}: the end-of-document id is unknown", out_);
    note("{}: {} tensors, {}", out_, result.n_tensors, human_size(result.n_bytes));
}

void Report::skipped(const Formats& formats) {
    print({{"in", in_},
           {"out", out_},
           {"from", name_of(formats.from)},
           {"to", name_of(formats.to)},
           {"action", "skipped"}});
    if (notes()) note("{}: exists already: skipped", out_);
}

void Report::proved(const std::string& against) {
    print({{"in", in_}, {"against", against}, {"action", "compared"}, {"checks", checks_}});
}

void Report::print(io::OrderedJson object) const {
    if (json_) cli::write_stdout(io::json_line(object));
}

}  // namespace lm
