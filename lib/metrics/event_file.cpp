// SPDX-License-Identifier: Apache-2.0
#include "metrics/event_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cstring>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/machine.hpp"
#include "io/checked.hpp"

namespace lm::metrics {
namespace {

// Returns the table of CRC-32C (Castagnoli) with the reflected polynomial 0x82F63B78: RFC 3720,
// appendix B.4.
constexpr std::array<u32, 256> make_crc_table() {
    std::array<u32, 256> table{};
    for (u32 n = 0; n < 256; ++n) {
        u32 c = n;
        for (int k = 0; k < 8; ++k) c = (c & 1) != 0 ? (c >> 1) ^ 0x82F63B78U : c >> 1;
        table[n] = c;
    }
    return table;
}
constexpr std::array<u32, 256> crc_table = make_crc_table();

// Returns the CRC of `bytes`, masked as TFRecord requires (tensorflow/core/lib/hash/crc32c.h),
// because a CRC of data that contains CRCs detects fewer errors unless the contained CRCs are
// masked.
u32 masked_crc(std::string_view bytes) {
    return std::rotr(crc32c(bytes), 15) + 0xA282EAD8U;
}

template <typename T>
void put_fixed(std::string& out, T value) {
    static_assert(std::endian::native == std::endian::little);
    char bytes[sizeof(T)];
    std::memcpy(bytes, &value, sizeof value);
    out.append(bytes, sizeof bytes);
}

// Appends `value` in base 128, least significant group first (Protocol Buffers, Encoding).
void put_varint(std::string& out, u64 value) {
    for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7F) | 0x80);
    out += static_cast<char>(value);
}

void put_message(std::string& out, char tag, std::string_view message) {
    out += tag;
    put_varint(out, message.size());
    out += message;
}

// Tags (field number << 3 | wire type) of Event, Summary, Summary.Value and SessionLog.
constexpr char event_wall_time = 0x09;
constexpr char event_step = 0x10;
constexpr char event_file_version = 0x1A;
constexpr char event_summary = 0x2A;
constexpr char event_session_log = 0x3A;
constexpr char summary_value = 0x0A;
constexpr char value_tag = 0x0A;
constexpr char value_simple = 0x15;
constexpr char session_status = 0x08;
constexpr char session_start = 1;

std::string event_head(double unix_time_s, i64 step) {
    LM_CHECK(step >= 0, "expected a TensorBoard step >= 0, got {}", step);
    std::string out(1, event_wall_time);
    put_fixed(out, unix_time_s);
    if (step > 0) {
        out += event_step;
        put_varint(out, static_cast<u64>(step));
    }
    return out;
}

// Returns `payload` as a TFRecord: length, CRC of the length, payload, CRC of the payload.
std::string framed(std::string_view payload) {
    std::string out;
    put_fixed(out, static_cast<u64>(payload.size()));
    put_fixed(out, masked_crc(out));
    out += payload;
    put_fixed(out, masked_crc(payload));
    return out;
}

template <typename T>
T fixed_at(std::string_view text, size_t at) {
    T value{};
    std::memcpy(&value, text.data() + at, sizeof value);
    return value;
}

// Returns the number in base 128 that begins at `at`, and moves `at` to the end of the number.
u64 varint_at(std::string_view text, size_t& at) {
    u64 value = 0;
    for (int shift = 0; at < text.size() && shift < 64; shift += 7) {
        const auto byte = static_cast<u8>(text[at++]);
        value |= u64{byte & 0x7FU} << shift;
        if (byte < 0x80) break;
    }
    return value;
}

// Returns the field `step` of an Event; 0 when the Event has no such field.
i64 step_of(std::string_view event) {
    for (size_t at = 0; at < event.size();) {
        const u64 key = varint_at(event, at);
        if (key == static_cast<u64>(event_step)) return static_cast<i64>(varint_at(event, at));
        switch (key & 7) {
            case 0:
                varint_at(event, at);
                break;
            case 1:
                at += 8;
                break;
            case 2: {
                const u64 length = varint_at(event, at);
                if (length > event.size()) return 0;
                at += length;
                break;
            }
            case 5:
                at += 4;
                break;
            default:
                return 0;
        }
    }
    return 0;
}

}  // namespace

std::vector<EventRecord> event_records(std::string_view text) {
    constexpr size_t head = sizeof(u64) + sizeof(u32);
    std::vector<EventRecord> records;
    for (size_t at = 0; at + head + sizeof(u32) <= text.size();) {
        const auto length = fixed_at<u64>(text, at);
        const bool valid =
            fixed_at<u32>(text, at + sizeof(u64)) == masked_crc(text.substr(at, sizeof(u64)));
        if (!valid || length > text.size() - at - head - sizeof(u32)) break;
        const std::string_view payload = text.substr(at + head, length);
        if (fixed_at<u32>(text, at + head + length) != masked_crc(payload)) break;
        records.push_back({step_of(payload), text.substr(at, head + length + sizeof(u32))});
        at += head + length + sizeof(u32);
    }
    return records;
}

u32 crc32c(std::string_view bytes) {
    u32 c = ~0U;
    for (const char b : bytes) c = crc_table[(c ^ static_cast<u8>(b)) & 0xFF] ^ (c >> 8);
    return ~c;
}

std::string version_event(double unix_time_s) {
    std::string event = event_head(unix_time_s, 0);
    put_message(event, event_file_version, "brain.Event:2");
    return framed(event);
}

std::string purge_event(double unix_time_s, i64 step) {
    std::string event = event_head(unix_time_s, step);
    put_message(event, event_session_log, std::string{session_status, session_start});
    return framed(event);
}

std::string scalar_event(double unix_time_s, i64 step, std::string_view tag, float value) {
    std::string one;
    put_message(one, value_tag, tag);
    one += value_simple;
    put_fixed(one, value);
    std::string summary;
    put_message(summary, summary_value, one);
    std::string event = event_head(unix_time_s, step);
    put_message(event, event_summary, summary);
    return framed(event);
}

EventFile EventFile::create(const std::string& directory, std::optional<i64> resume_step) {
    io::make_directories(directory);
    const double now = unix_time_s();
    const std::string stem = fmt::format("{}/events.out.tfevents.{:010}.{}.{}", directory,
                                         static_cast<i64>(now), host_name(), ::getpid());
    std::string path;
    io::Fd fd;
    for (int n = 0; !fd.valid(); ++n) {
        path = fmt::format("{}.{}", stem, n);
        fd = io::Fd(io::checked::create(path, O_WRONLY | O_APPEND | O_EXCL));
    }
    EventFile file(std::move(path), std::move(fd));
    file.queue_ = version_event(now);
    if (resume_step) file.queue_ += purge_event(now, *resume_step);
    file.flush();
    return file;
}

void EventFile::scalar(i64 step, std::string_view tag, double value) {
    if (!fd_.valid()) return;
    queue_ += scalar_event(unix_time_s(), step, tag, static_cast<float>(value));
    ++n_queued_;
}

void EventFile::flush() {
    if (fd_.valid() && !queue_.empty()) {
        try {
            // With O_APPEND, Linux ignores the offset of pwrite() and appends (pwrite(2), BUGS).
            io::checked::write_at(fd_.get(), path_, std::as_bytes(std::span(queue_)), 0);
        } catch (const Error& error) {
            warn("{}: training continues without this TensorBoard file", error.what());
            fd_ = io::Fd();
        }
    }
    queue_.clear();
    n_queued_ = 0;
}

}  // namespace lm::metrics
