// SPDX-License-Identifier: Apache-2.0
#include "convert/torch/zip_archive.hpp"

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "base/error.hpp"
#include "io/file.hpp"
#include "io/path.hpp"

namespace lm::convert {
namespace {

constexpr u32 end_signature = 0x06054b50;
constexpr u32 end64_signature = 0x06064b50;
constexpr u32 locator_signature = 0x07064b50;
constexpr u32 central_signature = 0x02014b50;
constexpr u32 local_signature = 0x04034b50;
constexpr i64 end_bytes = 22;
constexpr i64 end64_bytes = 56;
constexpr i64 locator_bytes = 20;
constexpr i64 central_bytes = 46;
constexpr i64 local_bytes = 30;
constexpr u32 elsewhere_in_zip64 = 0xffffffff;
constexpr i64 max_directory_bytes = i64{256} << 20;
constexpr i64 max_entries = 2'000'000;

// Reads little-endian fields of a record. The caller has checked that the record is long enough.
class Fields {
  public:
    explicit Fields(std::span<const std::byte> bytes) : bytes_(bytes) {}
    template <typename T>
    T at(i64 offset) const {
        LM_CHECK(offset + static_cast<i64>(sizeof(T)) <= static_cast<i64>(bytes_.size()),
                 "expected a field within {} bytes, got offset {}", bytes_.size(), offset);
        T value;
        std::memcpy(&value, bytes_.data() + offset, sizeof(T));
        return value;
    }
    u16 u16_at(i64 offset) const { return at<u16>(offset); }
    u32 u32_at(i64 offset) const { return at<u32>(offset); }
    u64 u64_at(i64 offset) const { return at<u64>(offset); }

  private:
    std::span<const std::byte> bytes_;
};

struct Directory {
    i64 offset = 0;  // offset in the file
    i64 size = 0;
    i64 n_entries = 0;
};

struct RawEntry {
    ZipEntry entry;
    i64 header = 0;  // offset of the local header in the file
};

// Reads one archive; positions in the archive count from offset `begin` of the file.
class DirectoryReader {
  public:
    DirectoryReader(const std::string& path, i64 begin, i64 end)
        : path_(path), fd_(io::open_read(path)), begin_(begin), end_(end) {}

    std::vector<ZipEntry> run() {
        const Directory directory = find_directory();
        std::vector<RawEntry> raw = read_entries(directory);
        std::ranges::sort(raw, {}, &RawEntry::header);
        std::vector<ZipEntry> entries;
        i64 free_from = begin_;
        for (RawEntry& item : raw) {
            if (item.header < free_from) {
                refuse("entry {} overlaps another entry", item.entry.name);
            }
            locate(item, directory);
            free_from = item.entry.offset + item.entry.size;
            entries.push_back(std::move(item.entry));
        }
        return entries;
    }

  private:
    template <typename... Args>
    [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
        run_error(path_, "corrupt or not written by torch.save: {}",
                  fmt::format(format, std::forward<Args>(args)...));
    }

    std::vector<std::byte> read(i64 offset, i64 n) const {
        if (offset < begin_ || n < 0 || n > end_ - offset) refuse("truncated");
        std::vector<std::byte> bytes(static_cast<size_t>(n));
        io::read_exact(fd_, path_, bytes, offset);
        return bytes;
    }

    // Converts a position in the archive to an offset in the file.
    i64 position(u64 value, std::string_view what) const {
        if (value > static_cast<u64>(end_ - begin_)) refuse("{} exceeds the archive", what);
        return begin_ + static_cast<i64>(value);
    }

    // Returns the offset of the end record. The end record is the last record of the archive: its
    // comment ends where the archive ends.
    i64 find_end() const {
        if (end_ - begin_ < end_bytes) refuse("no end of the directory");
        constexpr i64 max_comment = 65535;
        const i64 from = std::max(begin_, end_ - end_bytes - max_comment);
        const auto tail = read(from, end_ - from);
        const Fields fields(tail);
        for (i64 at = static_cast<i64>(tail.size()) - end_bytes; at >= 0; --at) {
            if (fields.u32_at(at) != end_signature) continue;
            if (at + end_bytes + fields.u16_at(at + 20) == static_cast<i64>(tail.size())) {
                return from + at;
            }
        }
        refuse("no end record of the directory: truncated, or not a ZIP archive");
    }

    Directory find_directory() const {
        const i64 end = find_end();
        const auto record = read(end, end_bytes);
        const Fields fields(record);
        if (fields.u16_at(4) != 0 || fields.u16_at(6) != 0)
            refuse("the archive is split into several files");
        Directory directory{0, fields.u32_at(12), fields.u16_at(10)};
        u64 offset = fields.u32_at(16);
        u64 size = fields.u32_at(12);
        u64 n = fields.u16_at(10);
        i64 limit = end;
        if (const auto end64 = find_end64(end)) {
            const auto record64 = read(*end64, end64_bytes);
            const Fields fields64(record64);
            if (fields64.u32_at(0) != end64_signature)
                refuse("no zip64 end record of the directory");
            n = fields64.u64_at(32);
            size = fields64.u64_at(40);
            offset = fields64.u64_at(48);
            limit = *end64;
        } else if (offset == elsewhere_in_zip64 || size == elsewhere_in_zip64) {
            refuse("no zip64 locator");
        }
        directory.offset = position(offset, "the directory");
        if (size > static_cast<u64>(limit - directory.offset)) refuse("the directory is too long");
        directory.size = static_cast<i64>(size);
        if (directory.size > max_directory_bytes || n > static_cast<u64>(max_entries)) {
            refuse("the archive has {} entries in {} bytes: too many", n, size);
        }
        directory.n_entries = static_cast<i64>(n);
        return directory;
    }

    std::optional<i64> find_end64(i64 end) const {
        if (end - begin_ < locator_bytes) return std::nullopt;
        const auto record = read(end - locator_bytes, locator_bytes);
        const Fields fields(record);
        if (fields.u32_at(0) != locator_signature) return std::nullopt;
        return position(fields.u64_at(8), "the zip64 end");
    }

    std::vector<RawEntry> read_entries(const Directory& directory) const {
        const auto bytes = read(directory.offset, directory.size);
        std::vector<RawEntry> entries;
        i64 at = 0;
        for (i64 i = 0; i < directory.n_entries; ++i) {
            if (directory.size - at < central_bytes) refuse("the directory is truncated");
            const Fields fields{std::span<const std::byte>(bytes).subspan(static_cast<size_t>(at))};
            if (fields.u32_at(0) != central_signature) refuse("entry {} has no signature", i);
            const i64 name = fields.u16_at(28);
            const i64 extra = fields.u16_at(30);
            const i64 length = central_bytes + name + extra + fields.u16_at(32);
            if (directory.size - at < length) refuse("the directory is truncated");
            entries.push_back(parse_entry(
                std::span(bytes).subspan(static_cast<size_t>(at), static_cast<size_t>(length))));
            at += length;
        }
        if (at != directory.size)
            refuse("the directory has {} bytes too many", directory.size - at);
        return entries;
    }

    RawEntry parse_entry(std::span<const std::byte> record) const {
        const Fields fields(record);
        const auto name_length = static_cast<size_t>(fields.u16_at(28));
        RawEntry raw;
        raw.entry.name.assign(reinterpret_cast<const char*>(record.data()) + central_bytes,
                              name_length);
        check_name(raw.entry.name);
        const std::string& name = raw.entry.name;
        if ((fields.u16_at(8) & 1U) != 0) refuse("entry {} is encrypted", name);
        if (fields.u16_at(10) != 0) refuse("entry {} is compressed", name);
        raw.entry.crc = fields.u32_at(16);
        u64 stored = fields.u32_at(20);
        u64 size = fields.u32_at(24);
        u64 header = fields.u32_at(42);
        const auto extra = record.subspan(static_cast<size_t>(central_bytes) + name_length,
                                          static_cast<size_t>(fields.u16_at(30)));
        read_zip64(extra, name, {&size, &stored, &header});
        if (stored != size) refuse("entry {} states two different sizes", name);
        raw.header = position(header, "the header of " + name);
        if (size > static_cast<u64>(end_ - begin_))
            refuse("entry {} is longer than the file", name);
        raw.entry.size = static_cast<i64>(size);
        return raw;
    }

    // Replaces each of `values` that is 0xffffffff by its 64-bit value. The extra field of zip64
    // has these 64-bit values in the order of `values`.
    void read_zip64(std::span<const std::byte> extra, const std::string& name,
                    std::initializer_list<u64*> values) const {
        const auto is_large = [](const u64* value) { return *value == elsewhere_in_zip64; };
        if (std::ranges::none_of(values, is_large)) return;
        const Fields fields(extra);
        const auto size = static_cast<i64>(extra.size());
        for (i64 at = 0; at + 4 <= size;) {
            const i64 length = fields.u16_at(at + 2);
            if (fields.u16_at(at) != 1) {
                at += 4 + length;
                continue;
            }
            const i64 end = at + 4 + length;
            at += 4;
            for (u64* value : values) {
                if (!is_large(value)) continue;
                if (at + 8 > end || at + 8 > size) refuse("entry {} has no 64-bit size", name);
                *value = fields.u64_at(at);
                at += 8;
            }
            return;
        }
        refuse("entry {} has no 64-bit size", name);
    }

    // No entry is ever extracted, but a name that leads out of the archive shows tampering.
    void check_name(const std::string& name) const {
        if (!io::is_plain_path(name)) refuse("the name '{}' is not a plain path", name);
    }

    // Finds the data after the local header. Does not read the sizes in the local header, because
    // these are 0 when a data descriptor follows.
    void locate(RawEntry& raw, const Directory& directory) const {
        const auto record = read(raw.header, local_bytes);
        const Fields fields(record);
        const std::string& name = raw.entry.name;
        if (fields.u32_at(0) != local_signature) refuse("entry {} has no local header", name);
        const i64 name_length = fields.u16_at(26);
        const auto local_name = read(raw.header + local_bytes, name_length);
        if (name_length != static_cast<i64>(name.size()) ||
            std::memcmp(local_name.data(), name.data(), name.size()) != 0) {
            refuse("entry {} has another name in its local header", name);
        }
        raw.entry.offset = raw.header + local_bytes + name_length + fields.u16_at(28);
        if (raw.entry.offset > directory.offset ||
            raw.entry.size > directory.offset - raw.entry.offset) {
            refuse("entry {} overlaps the directory", name);
        }
    }

    const std::string& path_;
    io::Fd fd_;
    i64 begin_;
    i64 end_;
};

}  // namespace

ZipArchive ZipArchive::open(const std::string& path, i64 begin, i64 end) {
    ZipArchive archive;
    archive.path_ = path;
    archive.entries_ = DirectoryReader(path, begin, end).run();
    archive.by_name_.resize(archive.entries_.size());
    for (size_t i = 0; i < archive.by_name_.size(); ++i) archive.by_name_[i] = i;
    const auto name = [&](size_t i) -> const std::string& { return archive.entries_[i].name; };
    std::ranges::sort(archive.by_name_, {}, name);
    const auto twice = std::ranges::adjacent_find(archive.by_name_, {}, name);
    if (twice != archive.by_name_.end()) {
        run_error(path, "corrupt or not written by torch.save: entry {} is listed twice",
                  name(*twice));
    }
    return archive;
}

const ZipEntry* ZipArchive::find(std::string_view name) const {
    const auto found = std::ranges::lower_bound(
        by_name_, name, {}, [&](size_t i) -> std::string_view { return entries_[i].name; });
    if (found == by_name_.end() || entries_[*found].name != name) return nullptr;
    return &entries_[*found];
}

}  // namespace lm::convert
