// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <algorithm>

#include "bad_lines.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "cli/main.hpp"
#include "cli/terminal.hpp"
#include "data/indexed/dataset_metadata.hpp"
#include "io/json.hpp"

namespace lm::preprocess {

namespace {

struct Count {
    const char* name;
    i64 Totals::*value;
};
constexpr i64 usual_interval = 1000;  // Megatron-LM's

constexpr Count counts[] = {
    {"documents", &Totals::documents},     {"tokens", &Totals::tokens},
    {"input_bytes", &Totals::input_bytes}, {"text_bytes", &Totals::text_bytes},
    {"blank_lines", &Totals::blank},       {"skipped_lines", &Totals::bad},
    {"replaced_lines", &Totals::replaced},
};

// Documents without tokens that each output lacks.
std::vector<i64> left_out_of(const Totals& totals, const std::vector<std::string>& prefixes) {
    std::vector<i64> left_out;
    for (const std::string& prefix : prefixes) {
        const auto metadata = data::read_metadata(prefix);
        LM_CHECK(metadata.has_value(), "outputs without a side file");
        left_out.push_back(totals.documents - metadata->documents);
    }
    return left_out;
}

void say_left_out(const Totals& totals, const std::vector<i64>& left_out,
                  const std::vector<std::string>& prefixes) {
    for (size_t k = 0; k < prefixes.size(); ++k) {
        if (left_out[k] == 0) continue;
        note("{}: {} of {} documents are left out, without tokens: --keep-empty keeps them{}",
             prefixes[k], left_out[k], totals.documents,
             prefixes.size() > 1 ? ", and the numbers of documents alike for all keys" : "");
    }
}

void write_statistics(const Args& args, const Outcome& outcome, const std::vector<i64>& left_out,
                      const std::vector<std::string>& prefixes) {
    io::OrderedJson j = outcome.totals.to_json();
    for (size_t k = 0; k < args.keys.size(); ++k)
        j["left_out_documents"][args.keys[k]] = left_out[k];
    j["resumed_bytes"] = outcome.resumed_bytes;
    j["seconds"] = outcome.seconds;
    j["MB_per_s"] = outcome.mb_per_s();
    j["prefixes"] = prefixes;
    cli::write_stdout(io::json_line(j));
}

}  // namespace

double Outcome::mb_per_s() const {
    const i64 bytes = totals.input_bytes - resumed_bytes;
    return static_cast<double>(bytes) / std::max(seconds, 1e-9) / 1e6;
}

Totals& Totals::operator+=(const Totals& other) {
    for (const Count& count : counts) this->*count.value += other.*count.value;
    return *this;
}

io::OrderedJson Totals::to_json() const {
    io::OrderedJson j;
    for (const Count& count : counts) j[count.name] = this->*count.value;
    return j;
}

Totals Totals::parse(const io::Json& object, const std::string& path) {
    Totals t;
    for (const Count& count : counts) t.*count.value = io::json_get<i64>(object, count.name, path);
    return t;
}

Reporter::Reporter(const Args& args, i64 total_bytes)
    : interval_(args.log_interval.value_or(usual_interval)),
      every_interval_(args.log_interval.has_value()),
      quiet_(args.quiet),
      terminal_(cli::stderr_is_terminal()),
      bar_("tokenizing", "B", total_bytes, args.quiet || !terminal_) {}

void Reporter::found(const Totals& done, i64 disk_bytes) {
    const std::lock_guard lock(mutex_);
    before_ += done;
    disk_bytes_ += disk_bytes;
    shown_ = before_.documents + totals_.documents;
}

void Reporter::add(const Totals& chunk, i64 disk_bytes) {
    const std::lock_guard lock(mutex_);
    totals_ += chunk;
    disk_bytes_ += disk_bytes;
    const double elapsed_s = std::max(watch_.elapsed_s(), 1e-9);
    if (terminal_) {
        bar_.update(disk_bytes_,
                    fmt::format("{} docs/s, {} tokens/s",
                                human_count(static_cast<double>(totals_.documents) / elapsed_s),
                                human_count(static_cast<double>(totals_.tokens) / elapsed_s)));
    }
    const i64 documents = before_.documents + totals_.documents;
    // Documents come by the chunk: a line for each multiple that this one passes, or for the last.
    const i64 last = documents / interval_ * interval_;
    if (every_interval_) {
        for (i64 at = shown_ / interval_ * interval_ + interval_; at <= last; at += interval_)
            say_processed(at, elapsed_s);
    } else if (!terminal_ && elapsed_s >= next_line_s_ && last > shown_) {
        next_line_s_ = elapsed_s + 60;
        say_processed(last, elapsed_s);
    }
    shown_ = documents;
}

void Reporter::say_processed(i64 documents, double elapsed_s) const {
    if (quiet_) return;
    cli::print_line(fmt::format("Processed {} documents ({:.1f} docs/s, {:.1f} MB/s).", documents,
                                static_cast<double>(documents - before_.documents) / elapsed_s,
                                static_cast<double>(totals_.input_bytes) / elapsed_s / 1e6));
}

void Reporter::say_skipped() {
    const std::lock_guard lock(mutex_);
    BadLineReport::say_rest(totals_.bad);
}

double Reporter::finish() {
    bar_.finish();
    return watch_.elapsed_s();
}

void report(const Args& args, const Outcome& outcome, const std::vector<std::string>& prefixes) {
    const std::vector<i64> left_out = left_out_of(outcome.totals, prefixes);
    if (args.json) write_statistics(args, outcome, left_out, prefixes);
    if (args.quiet) return;
    const Totals& totals = outcome.totals;
    cli::print_line(fmt::format(
        "lm-preprocess: {} documents, {} tokens in {:.1f} s ({:.1f} MB/s){}{}", totals.documents,
        totals.tokens, outcome.seconds, outcome.mb_per_s(),
        totals.bad > 0 ? fmt::format(", {} lines skipped", totals.bad) : "",
        totals.replaced > 0 ? fmt::format(", {} lines with replaced characters", totals.replaced)
                            : ""));
    say_left_out(totals, left_out, prefixes);
}

void report_found(const Args& args, const std::vector<std::string>& prefixes) {
    const auto metadata = data::read_metadata(prefixes[0]);
    LM_CHECK(metadata.has_value(), "outputs without a side file");
    const std::string path = data::metadata_path(prefixes[0]);
    Outcome outcome;
    outcome.totals = Totals::parse(io::json_get<io::Json>(metadata->origin, "totals", path), path);
    outcome.resumed_bytes = outcome.totals.input_bytes;
    const std::vector<i64> left_out = left_out_of(outcome.totals, prefixes);
    if (args.json) write_statistics(args, outcome, left_out, prefixes);
    if (!args.quiet) say_left_out(outcome.totals, left_out, prefixes);
}

}  // namespace lm::preprocess
