// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes as the lines of training logs (lm-train, --log-json, Megatron-LM, launchers)
// and as an event file of TensorBoard. The numbers of a parsed line are in range, and the summary
// of any log has no undefined behaviour.
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <string>

#include "base/error.hpp"
#include "base/host_list.hpp"
#include "base/printable.hpp"
#include "metrics/event_file.hpp"
#include "metrics/log_cause.hpp"
#include "metrics/log_parser.hpp"
#include "metrics/log_summary.hpp"

namespace {

using namespace lm;

void require(bool condition) {
    if (!condition) std::abort();
}

// Calls `each` for each line of `text`.
template <typename F>
void for_each_line(std::string_view text, const F& each) {
    while (!text.empty()) {
        const size_t end = std::min(text.find('\n'), text.size());
        each(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
    }
}

void read_line(std::string_view line) {
    const metrics::LogLine read = metrics::parse_log_line(line);
    if (const metrics::LoggedIteration* logged = read.iteration()) {
        require(logged->step_s >= 0 && std::isfinite(logged->step_s));
        require(logged->iteration >= 0);
    }
    (void)metrics::time_stamp_in(line);
    (void)expand_hosts(line);
    for (const char c : printable(line)) require(static_cast<unsigned char>(c) >= ' ' && c != 0x7F);
}

void read_log(std::string_view text) {
    metrics::LogReader reader;
    metrics::LogCause cause;
    reader.skip_overlaps();
    reader.begin_log();
    int n = 0;
    for_each_line(text, [&](std::string_view line) {
        if (n++ == 20) reader.begin_log();
        reader.add(line);
        cause.add(line);
    });
    const metrics::LogSummary summary = reader.summary();
    require(summary.stops.n_restarts >= 0);
    if (summary.empty()) return;
    (void)summary.rates.recent();
    (void)summary.rates.sums().mean_step_s();
}

// Sets the length and the checksums of the first record, so that its content is read.
std::string with_valid_record(std::string text) {
    constexpr size_t head = 12;
    constexpr size_t tail = 4;
    if (text.size() < head + tail) return text;
    const u64 n = std::min<u64>(text.size() - head - tail, static_cast<u8>(text[0]) * u64{3});
    const auto masked = [](std::string_view bytes) {
        const u32 crc = metrics::crc32c(bytes);
        return ((crc >> 15) | (crc << 17)) + 0xA282EAD8U;
    };
    std::memcpy(text.data(), &n, sizeof n);
    const u32 of_length = masked(std::string_view(text).substr(0, 8));
    std::memcpy(text.data() + 8, &of_length, sizeof of_length);
    const u32 of_bytes = masked(std::string_view(text).substr(head, n));
    std::memcpy(text.data() + head + n, &of_bytes, sizeof of_bytes);
    return text;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    for_each_line(text, read_line);
    read_log(text);
    size_t n_bytes = 0;
    for (const std::string& file : {text, with_valid_record(text)}) {
        n_bytes = 0;
        for (const metrics::EventRecord& record : metrics::event_records(file)) {
            n_bytes += record.bytes.size();
        }
        require(n_bytes <= file.size());
    }
    return 0;
}
