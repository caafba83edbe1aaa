// SPDX-License-Identifier: Apache-2.0
#include "convert/torch/torch_writer.hpp"

#include <libdeflate.h>

#include <algorithm>
#include <bit>

#include "base/error.hpp"
#include "convert/source_tensor.hpp"
#include "convert/torch/pickle_globals.hpp"
#include "convert/torch/pickle_opcodes.hpp"

namespace lm::convert {
namespace {

constexpr u64 in_zip64 = 0xffffffff;
constexpr i64 alignment = 64;  // bytes, for torch.load(mmap=True)
constexpr u16 utf8_names = 0x0800;
constexpr u16 date_1980 = 0x0021;

template <typename T>
void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof(T));
}

// Appends to `out` the fields that a local header and an entry of the directory have in common. The
// CRC is at byte 10 of these fields.
void put_common(std::string& out, bool zip64, u32 crc, u64 size, size_t name, size_t extra) {
    put(out, static_cast<u16>(zip64 ? 45 : 20));
    put(out, utf8_names);
    put(out, u16{0});  // method: stored
    put(out, u16{0});
    put(out, date_1980);
    put(out, crc);
    const auto size32 = static_cast<u32>(zip64 ? in_zip64 : size);
    put(out, size32);
    put(out, size32);
    put(out, static_cast<u16>(name));
    put(out, static_cast<u16>(extra));
}

}  // namespace

i64 PickleWriter::Tensor::bytes() const {
    return numel(shape) * size_of(dtype);
}

PickleWriter::PickleWriter() : bytes_("\x80\x02", 2) {}

void PickleWriter::open_dict() {
    bytes_ += {static_cast<char>(EMPTY_DICT), static_cast<char>(MARK)};
}
void PickleWriter::close_dict() {
    bytes_ += static_cast<char>(SETITEMS);
}
void PickleWriter::open_list() {
    bytes_ += {static_cast<char>(EMPTY_LIST), static_cast<char>(MARK)};
}
void PickleWriter::close_list() {
    bytes_ += static_cast<char>(APPENDS);
}

void PickleWriter::text(std::string_view value) {
    bytes_ += static_cast<char>(BINUNICODE);
    put(bytes_, static_cast<u32>(value.size()));
    bytes_ += value;
}

void PickleWriter::integer(i64 value) {
    if (value >= 0 && value < 256) {
        bytes_ += static_cast<char>(BININT1);
        put(bytes_, static_cast<u8>(value));
    } else if (value == static_cast<i32>(value)) {
        bytes_ += static_cast<char>(BININT);
        put(bytes_, static_cast<i32>(value));
    } else {
        bytes_ += static_cast<char>(LONG1);
        bytes_ += '\x08';
        put(bytes_, value);
    }
}

void PickleWriter::real(double value) {
    bytes_ += static_cast<char>(BINFLOAT);
    put(bytes_, __builtin_bswap64(std::bit_cast<u64>(value)));
}
void PickleWriter::boolean(bool value) {
    bytes_ += static_cast<char>(value ? NEWTRUE : NEWFALSE);
}
void PickleWriter::none() {
    bytes_ += static_cast<char>(NONE);
}

void PickleWriter::open_tuple() {
    bytes_ += static_cast<char>(MARK);
}
void PickleWriter::close_tuple() {
    bytes_ += static_cast<char>(TUPLE);
}

void PickleWriter::tuple(std::span<const i64> values) {
    open_tuple();
    for (const i64 value : values) integer(value);
    close_tuple();
}

void PickleWriter::type(DType dtype) {
    bytes_ += fmt::format("ctorch\n{}\n", torch_dtype(dtype));
}

void PickleWriter::size(const std::vector<i64>& shape) {
    bytes_ += "ctorch\nSize\n";
    tuple(shape);
    bytes_ += {static_cast<char>(TUPLE1), static_cast<char>(REDUCE)};
}

// Writes torch._utils._rebuild_tensor_v2(storage, 0, shape, strides, False, OrderedDict()).
void PickleWriter::tensor(DType dtype, std::vector<i64> shape) {
    bytes_ += "ctorch._utils\n_rebuild_tensor_v2\n((";
    text("storage");
    bytes_ += fmt::format("ctorch\n{}Storage\n", torch_storage(dtype));
    text(std::to_string(tensors_.size()));
    text("cpu");
    integer(numel(shape));
    bytes_ += {static_cast<char>(TUPLE), static_cast<char>(BINPERSID)};
    integer(0);
    tuple(shape);
    tuple(contiguous_strides(shape));
    boolean(false);
    bytes_ += "ccollections\nOrderedDict\n)R";
    bytes_ += {static_cast<char>(TUPLE), static_cast<char>(REDUCE)};
    tensors_.push_back({dtype, std::move(shape)});
}

void PickleWriter::open_object(std::string_view module, std::string_view name) {
    bytes_ += fmt::format("c{}\n{}\n)", module, name);
    bytes_ += static_cast<char>(NEWOBJ);
    open_dict();
}
void PickleWriter::close_object() {
    close_dict();
    bytes_ += static_cast<char>(BUILD);
}

std::string PickleWriter::finish() {
    bytes_ += static_cast<char>(STOP);
    return std::move(bytes_);
}

TorchWriter::TorchWriter(io::AtomicFile file)
    : file_(std::move(file)), stream_(io::BlockFile::open_write(file_.temporary())) {}

TorchWriter TorchWriter::create(const std::string& path, PickleWriter pickle,
                                io::Overwrite overwrite) {
    TorchWriter writer(io::AtomicFile::create(path, overwrite));
    // As torch.save does, names the folder in the archive after the file, without the ending.
    writer.folder_ = path.substr(path.rfind('/') + 1);
    if (const size_t dot = writer.folder_.rfind('.'); dot != std::string::npos && dot > 0) {
        writer.folder_.resize(dot);
    }
    writer.tensors_ = pickle.tensors();
    writer.write_entry("data.pkl", pickle.finish());
    writer.write_entry("byteorder", "little");
    writer.skip_empty();
    return writer;
}

void TorchWriter::begin_entry(const std::string& name, i64 size) {
    Entry entry{folder_ + "/" + name, stream_.size(), size, 0};
    const bool zip64 = static_cast<u64>(size) >= in_zip64;
    std::string extra;
    if (zip64) {
        put(extra, u16{1});
        put(extra, u16{16});
        put(extra, size);
        put(extra, size);
    }
    // PyTorch aligns the data by an extra field of the id "FB", filled with Z.
    const i64 fixed = entry.header + 30 + static_cast<i64>(entry.name.size() + extra.size()) + 4;
    const i64 padding = (alignment - fixed % alignment) % alignment;
    extra += "FB";
    put(extra, static_cast<u16>(padding));
    extra.append(static_cast<size_t>(padding), 'Z');
    std::string header("PK\x03\x04", 4);
    put_common(header, zip64, 0, static_cast<u64>(size), entry.name.size(), extra.size());
    append_text(header + entry.name + extra);
    entries_.push_back(std::move(entry));
}

void TorchWriter::append_text(std::string_view text) {
    stream_.append(std::as_bytes(std::span(text)));
}

void TorchWriter::write_entry(const std::string& name, std::string_view data) {
    begin_entry(name, static_cast<i64>(data.size()));
    append_text(data);
    entries_.back().crc = libdeflate_crc32(0, data.data(), data.size());
}

// Creates the entries of the next tensors, up to the first tensor that has data. The entry of a
// tensor without data needs no append().
void TorchWriter::skip_empty() {
    while (current_ < tensors_.size()) {
        const i64 size = tensors_[current_].bytes();
        begin_entry(fmt::format("data/{}", current_), size);
        if (size > 0) return;
        ++current_;
    }
}

void TorchWriter::append(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
        LM_CHECK(current_ < tensors_.size(),
                 "expected no data after the last of {} tensors, got {} bytes", tensors_.size(),
                 bytes.size());
        Entry& entry = entries_.back();
        const auto part =
            bytes.first(std::min(bytes.size(), static_cast<size_t>(entry.size - done_)));
        stream_.append(part);
        entry.crc = libdeflate_crc32(entry.crc, part.data(), part.size());
        done_ += static_cast<i64>(part.size());
        bytes = bytes.subspan(part.size());
        if (done_ < entry.size) return;
        ++current_;
        done_ = 0;
        skip_empty();
    }
}

void TorchWriter::commit() {
    LM_CHECK(current_ == tensors_.size(), "expected data of {} tensors, got {}", tensors_.size(),
             current_);
    write_entry("version", "3\n");
    write_directory();
    stream_.finish();
    write_checksums();
    file_.commit();
}

// Writes the CRCs, which were not known before the data, into the local headers.
void TorchWriter::write_checksums() {
    constexpr i64 crc_offset = 14;
    for (const Entry& entry : entries_) {
        file_.write_at(std::as_bytes(std::span(&entry.crc, 1)), entry.header + crc_offset);
    }
}

void TorchWriter::write_directory() {
    const i64 start = stream_.size();
    for (const Entry& entry : entries_) {
        const auto size = static_cast<u64>(entry.size);
        const auto header = static_cast<u64>(entry.header);
        std::string extra;
        if (size >= in_zip64) {
            put(extra, size);
            put(extra, size);
        }
        if (header >= in_zip64) put(extra, header);
        if (!extra.empty()) {
            std::string head;
            put(head, u16{1});
            put(head, static_cast<u16>(extra.size()));
            extra = head + extra;
        }
        std::string record("PK\x01\x02", 4);
        put(record, u16{45});
        put_common(record, size >= in_zip64, entry.crc, size, entry.name.size(), extra.size());
        put(record, u16{0});  // comment
        put(record, u16{0});  // disk
        put(record, u16{0});
        put(record, u32{0});
        put(record, static_cast<u32>(std::min(header, in_zip64)));
        append_text(record + entry.name + extra);
    }
    const i64 size = stream_.size() - start;
    const i64 end64 = stream_.size();
    const auto n = static_cast<u64>(entries_.size());
    std::string end("PK\x06\x06", 4);
    put(end, u64{44});
    put(end, u16{45});
    put(end, u16{45});
    put(end, u32{0});
    put(end, u32{0});
    put(end, n);
    put(end, n);
    put(end, size);
    put(end, start);
    end.append("PK\x06\x07", 4);
    put(end, u32{0});
    put(end, end64);
    put(end, u32{1});
    end.append("PK\x05\x06", 4);
    put(end, u32{0});
    put(end, static_cast<u16>(std::min<u64>(n, 0xffff)));
    put(end, static_cast<u16>(std::min<u64>(n, 0xffff)));
    put(end, static_cast<u32>(std::min<u64>(static_cast<u64>(size), in_zip64)));
    put(end, static_cast<u32>(std::min<u64>(static_cast<u64>(start), in_zip64)));
    put(end, u16{0});
    append_text(end);
}

}  // namespace lm::convert
