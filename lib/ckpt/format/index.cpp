// SPDX-License-Identifier: Apache-2.0
// The text has one line for each slice, so that index parts are readable and can be compared with
// diff(1).
#include "ckpt/format/index.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdint>

#include "ckpt/format/damage.hpp"
#include "ckpt/format/safetensors_header.hpp"
#include "io/json.hpp"
#include "io/path.hpp"

namespace lm::ckpt {
namespace {

constexpr std::string_view index_format = "lm-utils checkpoint index";
constexpr size_t hex_digits = 32;
constexpr i64 max_file_bytes = i64{1} << 60;  // sums of sizes and offsets fit in 64 bits

void append_slice(std::string& text, const DataFile& file, const Slice& slice) {
    text +=
        fmt::format("[{},{},[{},{}],[", slice.tensor, slice.offset,
                    fmt::join(slice.box.start.dims(), ","), fmt::join(slice.box.end.dims(), ","));
    if (!slice.whole_box()) text += fmt::format("{},{}", slice.flat_begin, slice.flat_end);
    text += "],\"";
    for (i64 block = 0; block < slice.n_blocks(); ++block) {
        text += hex_of(file.digest_of(slice, block));
    }
    text += "\"]";
}

// Appends the JSON of a file. The slices of one kind and type form a group, which states its kind
// and type once.
void append_file(std::string& text, const DataFile& file) {
    const io::OrderedJson name = file.name;
    text += fmt::format("\n{{\"name\":{},\"size\":{},\"header\":[{},\"{}\"],\"groups\":[",
                        name.dump(), file.size, file.header_bytes, file.header_digest);
    const Slice* last = nullptr;
    for (const Slice& slice : file.slices) {
        if (last == nullptr || last->kind != slice.kind || last->dtype != slice.dtype) {
            const io::OrderedJson kind = name_of(slice.kind);
            text +=
                fmt::format("{}\n{{\"kind\":{},\"dtype\":\"{}\",\"slices\":[\n",
                            last == nullptr ? "" : "]},", kind.dump(), lm::name_of(slice.dtype));
        } else {
            text += ",\n";
        }
        append_slice(text, file, slice);
        last = &slice;
    }
    text += last == nullptr ? "]}" : "]}]}";
}

void check_region(const DataFile& file, const Slice& slice, const std::string& path) {
    const spec::Box& box = slice.box;
    bool ok = slice.tensor >= 0;
    for (int dim = 0; ok && dim < box.start.rank(); ++dim) {
        ok = box.start[dim] >= 0 && box.start[dim] < box.end[dim];
    }
    ok = ok && slice.flat_begin >= 0 && slice.flat_begin < slice.flat_end &&
         slice.flat_end <= box.shape().numel() && slice.numel() <= file.size && slice.offset >= 0 &&
         slice.offset <= file.size;
    const i64 after = file.slices.empty() ? file.header_bytes : file.slices.back().end();
    // The gap between two slices is at most the padding up to the next multiple of 4096.
    ok = ok && slice.offset >= after && slice.offset <= round_up(after, io::block_alignment) &&
         slice.end() <= file.size;
    if (!ok) {
        damaged(path,
                "corrupt: {}: slice of tensor {} at byte {}: its range is empty, or its range or "
                "offset is out of bounds",
                file.name, slice.tensor, slice.offset);
    }
}

void parse_box(const std::vector<i64>& box, Slice& slice, const std::string& path) {
    const size_t rank = box.size() / 2;
    if (box.size() % 2 != 0 || rank > static_cast<size_t>(Shape::max_rank)) {
        damaged(path, "corrupt: expected start and end of at most {} dimensions, got {} numbers",
                Shape::max_rank, box.size());
    }
    slice.box = {Shape(std::span(box).first(rank)), Shape(std::span(box).subspan(rank))};
}

void parse_digests(const std::string& digits, DataFile& file, Slice& slice,
                   const std::string& path) {
    slice.first_digest = static_cast<i64>(file.digests.size());
    bool ok = digits.size() == static_cast<size_t>(slice.n_blocks()) * hex_digits;
    for (size_t at = 0; ok && at < digits.size(); at += hex_digits) {
        ok =
            parse_hex(std::string_view(digits).substr(at, hex_digits), file.digests.emplace_back());
    }
    if (!ok) {
        damaged(path, "corrupt: {}: expected {} digests of {} hex digits at byte {}", file.name,
                slice.n_blocks(), hex_digits, slice.offset);
    }
}

void parse_slice(const io::Json& row, Slice slice, DataFile& file, const std::string& path) {
    if (!row.is_array() || row.size() != 5)
        damaged(path, "corrupt: expected a slice of 5 items, got {}", row.dump());
    slice.tensor = io::json_as<i64>(row[0], "tensor", path);
    slice.offset = io::json_as<i64>(row[1], "offset", path);
    parse_box(io::json_as<std::vector<i64>>(row[2], "box", path), slice, path);
    const auto flat = io::json_as<std::vector<i64>>(row[3], "range", path);
    slice.flat_begin = flat.size() == 2 ? flat[0] : 0;
    slice.flat_end = flat.size() == 2 ? flat[1] : slice.box.shape().numel();
    check_region(file, slice, path);
    parse_digests(io::json_as<std::string>(row[4], "digests", path), file, slice, path);
    file.slices.push_back(slice);
}

DataFile parse_file(const io::Json& object, const std::string& path) {
    DataFile file;
    file.name = io::json_get<std::string>(object, "name", path);
    if (!io::is_plain_name(file.name))
        damaged(path, "corrupt: '{}' is not a plain file name", file.name);
    file.size = io::json_integer(object, "size", 0, max_file_bytes, path);
    const auto header = io::json_get<std::vector<io::Json>>(object, "header", path);
    if (header.size() != 2)
        damaged(path, "corrupt: expected 2 items in 'header', size and digest, got {}",
                header.size());
    file.header_bytes = io::json_as<i64>(header[0], "header", path);
    const i64 largest = std::min(file.size, max_safetensors_header);
    // A plan of a file that is not written yet has no header (train/save/node_files.hpp).
    const bool planned = header[0] == 0 && header[1] == "";
    if (!planned && (file.header_bytes < 8 || file.header_bytes > largest)) {
        damaged(path, "corrupt: {}: expected a header of 8 to {} bytes, got {}", file.name, largest,
                file.header_bytes);
    }
    file.header_digest = io::json_as<std::string>(header[1], "header", path);
    const auto groups = object.find("groups");
    if (groups == object.end()) damaged(path, "corrupt: 'groups' is missing");
    for (const io::Json& group : *groups) {
        Slice slice;
        slice.kind = SliceKind::named(io::json_get<std::string>(group, "kind", path));
        slice.dtype = dtype_from_name(io::json_get<std::string>(group, "dtype", path));
        const auto slices = group.find("slices");
        if (slices == group.end()) damaged(path, "corrupt: 'slices' is missing");
        for (const io::Json& row : *slices) parse_slice(row, slice, file, path);
    }
    return file;
}

IndexPart index_part_from(const io::Json& document, const std::string& path) {
    if (io::json_get<std::string>(document, "format", path) != index_format) {
        damaged(path, "is not an index part: its 'format' is not '{}'", index_format);
    }
    IndexPart part;
    part.writer = io::json_integer(document, "writer", 0, INT64_MAX, path);
    const auto files = document.find("files");
    if (files == document.end()) damaged(path, "corrupt: 'files' is missing");
    for (const io::Json& file : *files) part.files.push_back(parse_file(file, path));
    return part;
}

}  // namespace

std::string index_text(const IndexPart& part) {
    std::string text = fmt::format(
        "{{\n\"format\": \"{}\",\n\"format_version\": {},\n\"writer\": {},\n\"files\": [",
        index_format, format_version, part.writer);
    for (const DataFile& file : part.files) {
        if (&file != part.files.data()) text += ",";
        append_file(text, file);
    }
    return text + "\n]\n}\n";
}

IndexPart parse_index(std::string_view text, const std::string& path) {
    return parsed(path, [&] { return index_part_from(io::parse_json(text, path), path); });
}

IndexReference reference_to(const IndexPart& part, std::string_view text) {
    IndexReference reference{index_name(part.writer), digest(text), INT64_MAX, -1, {}};
    reference.totals.files = static_cast<i64>(part.files.size()) + 1;
    reference.totals.bytes = static_cast<i64>(text.size());
    for (const DataFile& file : part.files) {
        reference.totals.bytes += file.size;
        for (const Slice& slice : file.slices) {
            reference.first_tensor = std::min(reference.first_tensor, slice.tensor);
            reference.last_tensor = std::max(reference.last_tensor, slice.tensor);
            reference.totals.add(slice.kind, slice.dtype, slice.n_bytes());
        }
    }
    return reference;
}

std::string index_name(i64 writer) {
    return fmt::format("index-{:05}.json", writer);
}

std::string data_file_name(SliceKind kind, i64 writer) {
    return fmt::format("{}-{:05}.safetensors", kind == SliceKind::weight ? "weights" : "optim",
                       writer);
}

}  // namespace lm::ckpt
