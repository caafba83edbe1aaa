// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/safetensors.hpp"

#include <algorithm>
#include <cstring>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "io/atomic.hpp"
#include "io/json.hpp"

namespace lm::ckpt {
namespace {

// A chunk of this size is hashed, then written while it is still in the CPU cache.
constexpr size_t chunk_bytes = size_t{8} << 20;

// Sorts as the reference implementation does (serialize() in tensor.rs): by type, descending, so
// that every tensor is aligned; then by name.
void sort_and_place(std::vector<SafetensorsEntry>& entries) {
    std::ranges::sort(entries, [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
        const int rank_a = safetensors_rank(a.dtype);
        const int rank_b = safetensors_rank(b.dtype);
        return rank_a != rank_b ? rank_a > rank_b : a.name < b.name;
    });
    i64 offset = 0;
    for (SafetensorsEntry& entry : entries) {
        i64 n_bits = safetensors_bits(entry.dtype);
        LM_CHECK(n_bits > 0, "entry {}: {} is not an element type of safetensors", entry.name,
                 entry.dtype);
        for (const i64 dim : entry.shape) n_bits = checked_mul(n_bits, dim);
        entry.begin = offset;
        entry.end = offset + n_bits / 8;
        offset = entry.end;
    }
}

}  // namespace

std::string safetensors_header(const std::vector<SafetensorsEntry>& entries,
                               const Metadata& metadata, i64 alignment) {
    const auto quoted = [](const std::string& text) { return io::Json(text).dump(); };
    u64 length = 0;  // little-endian in the file, as on every supported machine
    std::string text(sizeof length, '\0');
    text += "{";
    if (!metadata.empty()) {
        text += "\"__metadata__\":{";
        for (const auto& [key, value] : metadata) text += quoted(key) + ":" + quoted(value) + ",";
        text.back() = '}';
        text += ",";
    }
    for (const SafetensorsEntry& entry : entries) {
        text += fmt::format(R"({}:{{"dtype":"{}","shape":{},"data_offsets":[{},{}]}},)",
                            quoted(entry.name), entry.dtype, io::Json(entry.shape).dump(),
                            entry.begin, entry.end);
    }
    if (text.back() == ',') text.pop_back();
    text += "}";
    text.resize(static_cast<size_t>(round_up(static_cast<i64>(text.size()), alignment)), ' ');
    length = text.size() - sizeof length;
    std::memcpy(text.data(), &length, sizeof length);
    return text;
}

SafetensorsWriter SafetensorsWriter::create(const std::string& path,
                                            std::vector<SafetensorsEntry> entries,
                                            const Metadata& metadata, io::Overwrite overwrite) {
    sort_and_place(entries);
    SafetensorsWriter writer(io::AtomicFile::create(path, overwrite), std::move(entries));
    writer.write_header(metadata);
    return writer;
}

SafetensorsWriter::SafetensorsWriter(io::AtomicFile file, std::vector<SafetensorsEntry> entries)
    : file_(std::move(file)),
      stream_(io::BlockFile::open_write(file_.temporary())),
      entries_(std::move(entries)),
      checksums_(entries_.size()) {}

void SafetensorsWriter::write_header(const Metadata& metadata) {
    const std::string header = safetensors_header(entries_, metadata, 8);
    header_digest_ = digest(header);
    stream_.append(std::as_bytes(std::span(header)));
    finish_full();
}

void SafetensorsWriter::finish_full() {
    while (current_ < entries_.size() &&
           done_ == entries_[current_].end - entries_[current_].begin) {
        checksums_[current_++] = digester_.finish();
        digester_ = Digester();
        done_ = 0;
    }
}

void SafetensorsWriter::append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        LM_CHECK(current_ < entries_.size(), "{}: all {} entries are full, got {} more bytes",
                 file_.path(), entries_.size(), bytes.size());
        const i64 left = entries_[current_].end - entries_[current_].begin - done_;
        const size_t n = std::min({bytes.size(), static_cast<size_t>(left), chunk_bytes});
        digester_.update(bytes.first(n));
        stream_.append(bytes.first(n));
        done_ += static_cast<i64>(n);
        bytes = bytes.subspan(n);
        finish_full();
    }
}

void SafetensorsWriter::sync() {
    LM_CHECK(current_ == entries_.size(), "{}: expected {} full entries, got {}", file_.path(),
             entries_.size(), current_);
    stream_.finish();
    file_.sync();
}

void SafetensorsWriter::commit() {
    sync();
    file_.commit();
}

}  // namespace lm::ckpt
