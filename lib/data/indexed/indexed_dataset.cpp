// SPDX-License-Identifier: Apache-2.0
#include "data/indexed/indexed_dataset.hpp"

#include <cstring>
#include <limits>

#include "base/error.hpp"
#include "io/fault.hpp"
#include "io/other_format.hpp"

namespace lm::data {
namespace {

template <typename T>
T load(const std::byte* at) {
    T value;
    std::memcpy(&value, at, sizeof value);
    return value;
}

template <typename From, typename To>
void convert(const std::byte* from, std::span<To> out, const std::string& path) {
    for (size_t i = 0; i < out.size(); ++i) {
        const From value = load<From>(from + i * sizeof(From));
        if constexpr (sizeof(From) > sizeof(To)) {
            if (value != static_cast<To>(value))
                run_error(path, "token {} does not fit in 32 bits", value);
        }
        out[i] = static_cast<To>(value);
    }
}

constexpr std::string_view magic("MMIDIDX\0\0", 9);
constexpr std::string_view old_magic("TNTIDX\0\0", 8);
constexpr u64 version = 1;

TokenType checked_type(u8 code, const std::string& path) {
    switch (code) {
        case 1:
        case 2:
        case 3:
        case 4:
        case 5:
        case 8:
            return static_cast<TokenType>(code);
        case 6:
        case 7:
            run_error(path, "holds floating point values (dtype code {}), not tokens", code);
        default:
            run_error(path, "unknown dtype code {}", code);
    }
}

}  // namespace

i64 size_of(TokenType type) {
    switch (type) {
        case TokenType::u8:
        case TokenType::i8:
            return 1;
        case TokenType::i16:
        case TokenType::u16:
            return 2;
        case TokenType::i32:
            return 4;
        case TokenType::i64:
            return 8;
    }
    return 0;
}

std::string_view name_of(TokenType type) {
    switch (type) {
        case TokenType::u8:
            return "uint8";
        case TokenType::i8:
            return "int8";
        case TokenType::i16:
            return "int16";
        case TokenType::i32:
            return "int32";
        case TokenType::i64:
            return "int64";
        case TokenType::u16:
            return "uint16";
    }
    return "?";
}

i64 largest_id(TokenType type) {
    switch (type) {
        case TokenType::u8:
            return std::numeric_limits<lm::u8>::max();
        case TokenType::i8:
            return std::numeric_limits<lm::i8>::max();
        case TokenType::i16:
            return std::numeric_limits<lm::i16>::max();
        case TokenType::i32:
            return std::numeric_limits<lm::i32>::max();
        case TokenType::i64:
            return std::numeric_limits<lm::i64>::max();
        case TokenType::u16:
            return std::numeric_limits<lm::u16>::max();
    }
    return 0;
}

TokenType token_type_for(i64 vocab_size) {
    return vocab_size < 65500 ? TokenType::u16 : TokenType::i32;
}

std::string bin_path(std::string_view prefix) {
    return std::string(prefix) + ".bin";
}
std::string idx_path(std::string_view prefix) {
    return std::string(prefix) + ".idx";
}
std::string metadata_path(std::string_view prefix) {
    return std::string(prefix) + ".json";
}

std::array<std::byte, idx_header_bytes> to_bytes(const IdxHeader& header) {
    std::array<std::byte, idx_header_bytes> bytes{};
    std::memcpy(bytes.data(), magic.data(), magic.size());
    std::memcpy(bytes.data() + 9, &version, 8);
    std::memcpy(bytes.data() + 17, &header.type, 1);
    std::memcpy(bytes.data() + 18, &header.n_sequences, 8);
    std::memcpy(bytes.data() + 26, &header.n_document_entries, 8);
    return bytes;
}

IdxHeader parse_idx_header(std::span<const std::byte> idx, const std::string& path) {
    const i64 size = static_cast<i64>(idx.size());
    const std::string_view head(reinterpret_cast<const char*>(idx.data()), idx.size());
    if (head.substr(0, old_magic.size()) == old_magic) {
        run_error(path, "is in the old TNTIDX format: run the preprocessing again");
    }
    if (size == 0) run_error(path, "is empty: not an indexed dataset");
    if (head.substr(0, magic.size()) != magic) {
        const auto other = io::other_format(head);
        if (!other.empty()) run_error(path, "is {}", other);
        run_error(path, "is not an indexed dataset (wrong magic)");
    }
    if (size < idx_header_bytes)
        run_error(path, "truncated: {} bytes, the header alone has 34", size);
    const u64 found = load<u64>(idx.data() + 9);
    if (found != version) run_error(path, "expected version {1}, got {0}", found, version);
    const TokenType type = checked_type(load<u8>(idx.data() + 17), path);
    const u64 sequences = load<u64>(idx.data() + 18);
    const u64 entries = load<u64>(idx.data() + 26);
    constexpr u64 limit = u64{1} << 56;  // far above any file size, far below overflow
    if (sequences > limit || entries > limit) {
        run_error(path, "corrupt header: {} sequences and {} document entries exceed the file",
                  sequences, entries);
    }
    const i64 n = static_cast<i64>(sequences);
    const i64 d = static_cast<i64>(entries);
    if (d < 1) run_error(path, "corrupt header: 0 document entries, at least 1 is required");
    const i64 want = idx_header_bytes + 12 * n + 8 * d;
    if (size != want && size != want + n) {
        run_error(path, "{} bytes, but its header ({} sequences, {} documents) requires {}: {}",
                  size, n, d - 1, want, size < want ? "truncated" : "has trailing bytes");
    }
    return {type, n, d};
}

namespace {

// Returns the prefix of the dataset that lm-preprocess writes for `prefix`, which is an output
// prefix or the path of a text file: NAME_text_document. Returns "" if no such dataset exists.
std::string near_dataset(const std::string& prefix) {
    const std::string text = prefix.substr(0, prefix.find(".json", prefix.rfind('/') + 1));
    std::string candidate = text + "_text_document";
    return io::exists(idx_path(candidate)) ? candidate : "";
}

// Returns the remedy for a missing dataset `prefix`, with a leading ": "; "" without a remedy.
std::string remedy_for(const std::string& prefix) {
    if (prefix.find_first_not_of("0123456789.eE+-") == prefix.npos)
        return ": give a weight before every prefix, or no weights";
    const std::string first = prefix.substr(0, prefix.find(','));
    if (first != prefix && io::exists(idx_path(first)))
        return ": separate the prefixes by blanks, not by commas";
    const std::string near = near_dataset(prefix);
    return near.empty() ? "" : fmt::format(": did you mean {}?", near);
}

}  // namespace

void require_dataset(const std::string& prefix) {
    for (const std::string& path : {idx_path(prefix), bin_path(prefix)}) {
        if (io::exists(path)) continue;
        if ((prefix.ends_with(".idx") || prefix.ends_with(".bin")) && io::exists(prefix)) {
            usage_error(prefix, "is a file of a dataset: give the path without its ending, {}",
                        prefix.substr(0, prefix.size() - 4));
        }
        if (path == idx_path(prefix) && io::exists(prefix) && !io::is_directory(prefix)) {
            const std::string near = near_dataset(prefix);
            usage_error(prefix, "is a file, but not a dataset: {}",
                        near.empty()
                            ? "run lm-preprocess on the text first, then give PREFIX_text_document"
                            : fmt::format("did you mean {}?", near));
        }
        usage_error(prefix, "no such dataset: {} does not exist{}", path, remedy_for(prefix));
    }
}

IndexedDataset IndexedDataset::open(const std::string& prefix) {
    require_dataset(prefix);
    IndexedDataset d;
    d.prefix_ = prefix;
    const std::string idx = idx_path(prefix);
    const std::string bin = bin_path(prefix);
    d.idx_ = io::MappedFile::open(idx);
    d.bin_ = io::MappedFile::open(bin);
    const std::string_view head(reinterpret_cast<const char*>(d.bin_.bytes().data()),
                                d.bin_.bytes().size());
    if (io::is_lfs_pointer(head)) run_error(bin, "is {}", io::other_format(head));
    const IdxHeader header = parse_idx_header(d.idx_.bytes(), idx);
    d.type_ = header.type;
    d.item_ = size_of(header.type);
    d.n_sequences_ = header.n_sequences;
    d.n_documents_ = header.n_document_entries - 1;
    d.lengths_ = d.idx_.bytes().data() + idx_header_bytes;
    d.pointers_ = d.lengths_ + 4 * d.n_sequences_;
    d.documents_ = d.pointers_ + 8 * d.n_sequences_;

    // Checks only the first and the last sequence. The last sequence must end at the end of the
    // .bin. The accessors check the other entries when they read them.
    const i64 bin_size = static_cast<i64>(d.bin_.bytes().size());
    i64 bytes = 0;
    if (d.n_sequences_ > 0) {
        const i64 last = load<i64>(d.pointers_ + 8 * (d.n_sequences_ - 1));
        const i64 length = load<i32>(d.lengths_ + 4 * (d.n_sequences_ - 1));
        if (const i64 first = load<i64>(d.pointers_); first != 0)
            run_error(idx, "first pointer is {}, expected 0", first);
        if (last < 0 || length < 0)
            run_error(idx, "corrupt: its last sequence has {} tokens at byte {}", length, last);
        if (last > bin_size)
            run_error(bin, "truncated: it has {} bytes, but {} has an entry at byte {}", bin_size,
                      idx, last);
        bytes = last + length * d.item_;
    }
    if (bytes != bin_size) {
        run_error(bin, "{} bytes, but its index requires {}: {}", bin_size, bytes,
                  bin_size < bytes ? "truncated" : "it may belong to another index");
    }
    if (load<i64>(d.documents_) != 0 ||
        load<i64>(d.documents_ + 8 * d.n_documents_) != d.n_sequences_) {
        run_error(idx, "document index does not run from 0 to the number of sequences");
    }
    d.n_tokens_ = bytes / d.item_;
    return d;
}

i64 IndexedDataset::length(i64 sequence) const {
    LM_CHECK(sequence >= 0 && sequence < n_sequences_, "expected a sequence below {}, got {}",
             n_sequences_, sequence);
    const i64 value = load<i32>(lengths_ + 4 * sequence);
    if (value < 0) run_error(idx_.path(), "length {} of sequence {} is negative", value, sequence);
    if (value > n_tokens_ - position(sequence)) {
        run_error(idx_.path(), "sequence {} with {} tokens ends after the {} tokens of the dataset",
                  sequence, value, n_tokens_);
    }
    return value;
}

std::span<const std::byte> IndexedDataset::raw_lengths(i64 begin, i64 end) const {
    LM_CHECK(begin >= 0 && begin <= end && end <= n_sequences_,
             "expected a range within [0, {}) sequences, got [{}, {})", n_sequences_, begin, end);
    return {lengths_ + 4 * begin, static_cast<size_t>(4 * (end - begin))};
}

i64 IndexedDataset::position(i64 sequence) const {
    LM_CHECK(sequence >= 0 && sequence <= n_sequences_, "expected a sequence of at most {}, got {}",
             n_sequences_, sequence);
    if (sequence == n_sequences_) return n_tokens_;
    const i64 value = load<i64>(pointers_ + 8 * sequence);
    if (value < 0 || value % item_ != 0 || value / item_ > n_tokens_) {
        run_error(idx_.path(), "pointer {} of sequence {} is corrupt", value, sequence);
    }
    return value / item_;
}

i64 IndexedDataset::document(i64 index) const {
    LM_CHECK(index >= 0 && index <= n_documents_, "expected an entry of at most {}, got {}",
             n_documents_, index);
    const i64 value = load<i64>(documents_ + 8 * index);
    if (value < 0 || value > n_sequences_) {
        run_error(idx_.path(), "document {1} has the first sequence {0}, which is out of range",
                  value, index);
    }
    return value;
}

IndexedDataset::FlatRange IndexedDataset::document_extent(i64 index) const {
    const i64 first = document(index);
    const i64 behind = document(index + 1);
    if (behind < first)
        run_error(idx_.path(), "document index not monotonic at entry {}", index + 1);
    i64 end = position(first);
    const i64 begin = end;
    for (i64 s = first; s < behind; ++s) {
        end += length(s);
        if (const i64 next = position(s + 1); next != end) {
            run_error(idx_.path(),
                      "sequence {} begins at token {}, but the previous one ends at {}", s + 1,
                      next, end);
        }
    }
    return {begin, end};
}

i64 IndexedDataset::sequence_at(i64 position_in_stream) const {
    LM_CHECK(position_in_stream >= 0 && position_in_stream < n_tokens_,
             "expected a token below {}, got {}", n_tokens_, position_in_stream);
    i64 low = 0;  // position(low) <= position_in_stream < position(high)
    i64 high = n_sequences_;
    while (high - low > 1) {
        const i64 middle = low + (high - low) / 2;
        (position(middle) <= position_in_stream ? low : high) = middle;
    }
    return low;
}

template <typename T>
void IndexedDataset::read_as(i64 begin, std::span<T> out) const {
    const std::byte* from = raw(begin, begin + static_cast<i64>(out.size())).data();
    io::fault::delay_mapped_read();
    switch (type_) {
        case TokenType::u8:
            return convert<lm::u8>(from, out, bin_.path());
        case TokenType::i8:
            return convert<lm::i8>(from, out, bin_.path());
        case TokenType::i16:
            return convert<lm::i16>(from, out, bin_.path());
        case TokenType::u16:
            return convert<lm::u16>(from, out, bin_.path());
        case TokenType::i32:
            return convert<lm::i32>(from, out, bin_.path());
        case TokenType::i64:
            return convert<lm::i64>(from, out, bin_.path());
    }
}

void IndexedDataset::read(i64 begin, std::span<i32> out) const {
    read_as(begin, out);
}
void IndexedDataset::read(i64 begin, std::span<i64> out) const {
    read_as(begin, out);
}

std::span<const std::byte> IndexedDataset::raw(i64 begin, i64 end) const {
    LM_CHECK(begin >= 0 && begin <= end && end <= n_tokens_,
             "expected a range within [0, {}) tokens, got [{}, {})", n_tokens_, begin, end);
    return bin_.bytes().subspan(static_cast<size_t>(begin * item_),
                                static_cast<size_t>((end - begin) * item_));
}

void IndexedDataset::prefetch(i64 begin, i64 end) const {
    const auto bytes = raw(begin, end);
    bin_.advise_will_need(begin * item_, static_cast<i64>(bytes.size()));
}

}  // namespace lm::data
