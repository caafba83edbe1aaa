// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <algorithm>
#include <cstdio>

#include "bad_lines.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "cli/main.hpp"
#include "cli/terminal.hpp"
#include "data/side_file.hpp"
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

}  // namespace

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
                    fmt::format("{} documents/s, {} tokens/s",
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
    std::fprintf(stderr, "Processed %lld documents (%.1f docs/s, %.1f MB/s).\n",
                 static_cast<long long>(documents),
                 static_cast<double>(documents - before_.documents) / elapsed_s,
                 static_cast<double>(totals_.input_bytes) / elapsed_s / 1e6);
}

void Reporter::say_skipped() {
    const std::lock_guard lock(mutex_);
    BadLineReport::say_rest(totals_.bad);
}

double Reporter::finish() {
    bar_.finish();
    return watch_.elapsed_s();
}

void report(const Args& args, const Totals& totals, i64 resumed_bytes, double seconds,
            const std::vector<std::string>& prefixes) {
    const double mb_per_s =
        static_cast<double>(totals.input_bytes - resumed_bytes) / std::max(seconds, 1e-9) / 1e6;
    if (args.json) {
        io::OrderedJson j = totals.to_json();
        j["resumed_bytes"] = resumed_bytes;
        j["seconds"] = seconds;
        j["MB_per_s"] = mb_per_s;
        j["prefixes"] = prefixes;
        cli::write_stdout(io::json_line(j));
    }
    if (args.quiet) return;
    std::fprintf(stderr, "lm-preprocess: %lld documents, %lld tokens in %.1f s (%.1f MB/s)%s%s\n",
                 static_cast<long long>(totals.documents), static_cast<long long>(totals.tokens),
                 seconds, mb_per_s,
                 totals.bad > 0 ? fmt::format(", {} lines skipped", totals.bad).c_str() : "",
                 totals.replaced > 0
                     ? fmt::format(", {} lines with replaced characters", totals.replaced).c_str()
                     : "");
}

void report_found(const std::vector<std::string>& prefixes) {
    const auto side = data::read_side_file(prefixes[0]);
    LM_CHECK(side.has_value(), "outputs without a side file");
    io::OrderedJson j;
    if (side->origin.contains("totals")) {
        j = io::OrderedJson(side->origin["totals"]);
    } else {
        j["documents"] = side->documents;
        j["tokens"] = side->tokens;
    }
    j["resumed_bytes"] = j.value("input_bytes", i64{0});
    j["seconds"] = 0.0;
    j["MB_per_s"] = 0.0;
    j["prefixes"] = prefixes;
    cli::write_stdout(io::json_line(j));
}

}  // namespace lm::preprocess
