// SPDX-License-Identifier: Apache-2.0
// One slice a line, so that index parts are readable and can be compared with diff(1).
#include "ckpt/index.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "ckpt/damage.hpp"
#include "ckpt/manifest.hpp"
#include "io/json.hpp"

namespace lm::ckpt {
namespace {

constexpr std::string_view format_name = "lm-utils checkpoint index";

io::OrderedJson to_json(const Slice& slice) {
    return {{"tensor", slice.tensor},
            {"kind", name_of(slice.kind)},
            {"dtype", lm::name_of(slice.dtype)},
            {"start", slice.box.start.dims()},
            {"end", slice.box.end.dims()},
            {"flat", {slice.flat_begin, slice.flat_end}},
            {"file", slice.file},
            {"entry", slice.entry},
            {"checksum", slice.checksum}};
}

Shape shape_from(const io::Json& object, const std::string& key, const std::string& path) {
    const auto dims = io::json_get<std::vector<i64>>(object, key, path);
    if (dims.size() > static_cast<size_t>(Shape::max_rank)) {
        damaged(path, "corrupt: expected at most {} dimensions in '{}', got {}", Shape::max_rank,
                key, dims.size());
    }
    return Shape(dims);
}

void check_region(const Slice& slice, const std::string& path) {
    const spec::Box& box = slice.box;
    bool ok = box.start.rank() == box.end.rank();
    for (int dim = 0; ok && dim < box.start.rank(); ++dim) {
        ok = box.start[dim] >= 0 && box.start[dim] < box.end[dim];
    }
    ok = ok && slice.flat_begin >= 0 && slice.flat_begin < slice.flat_end &&
         slice.flat_end <= box.shape().numel();
    if (!ok) {
        damaged(path, "corrupt: slice {} of tensor {}: range empty or out of bounds", slice.entry,
                slice.tensor);
    }
}

// A file name in the index must not lead out of the directory of the checkpoint.
void check_file_name(const std::string& name, const std::string& path) {
    if (name.empty() || name[0] == '.' || name.find('/') != std::string::npos) {
        damaged(path, "corrupt: '{}' is not a plain file name", name);
    }
}

Slice slice_from(const io::Json& object, const std::string& path) {
    Slice slice;
    slice.tensor = io::json_get<std::string>(object, "tensor", path);
    slice.kind = SliceKind::named(io::json_get<std::string>(object, "kind", path));
    slice.dtype = dtype_from_name(io::json_get<std::string>(object, "dtype", path));
    slice.box = {shape_from(object, "start", path), shape_from(object, "end", path)};
    const auto flat = io::json_get<std::vector<i64>>(object, "flat", path);
    if (flat.size() != 2)
        damaged(path, "corrupt: expected two numbers in 'flat', got {}", flat.size());
    slice.flat_begin = flat[0];
    slice.flat_end = flat[1];
    slice.file = io::json_get<std::string>(object, "file", path);
    slice.entry = io::json_get<std::string>(object, "entry", path);
    slice.checksum = io::json_get<std::string>(object, "checksum", path);
    check_region(slice, path);
    return slice;
}

}  // namespace

std::string index_text(const IndexPart& part) {
    std::string text = fmt::format(
        "{{\n\"format\": \"{}\",\n\"format_version\": {},\n\"writer\": {},\n\"files\": [",
        format_name, format_version, part.writer);
    std::string_view separator = "\n";
    for (const DataFile& file : part.files) {
        const io::OrderedJson object = {
            {"name", file.name}, {"size", file.size}, {"header_digest", file.header_digest}};
        text += fmt::format("{}{}", separator, object.dump());
        separator = ",\n";
    }
    text += "\n],\n\"slices\": [";
    separator = "\n";
    for (const Slice& slice : part.slices) {
        text += fmt::format("{}{}", separator, to_json(slice).dump());
        separator = ",\n";
    }
    return text + "\n]\n}\n";
}

IndexPart parse_index(std::string_view text, const std::string& path) {
    const io::Json document = io::parse_json(text, path);
    if (io::json_get<std::string>(document, "format", path) != format_name ||
        io::json_get<i64>(document, "format_version", path) != format_version) {
        run_error(path, "is not an index part of format version {}: use a matching lm-utils",
                  format_version);
    }
    IndexPart part;
    part.writer = io::json_get<i64>(document, "writer", path);
    for (const io::Json& file : io::json_get<std::vector<io::Json>>(document, "files", path)) {
        part.files.push_back({io::json_get<std::string>(file, "name", path),
                              io::json_get<i64>(file, "size", path),
                              io::json_get<std::string>(file, "header_digest", path)});
        check_file_name(part.files.back().name, path);
    }
    for (const io::Json& slice : io::json_get<std::vector<io::Json>>(document, "slices", path)) {
        part.slices.push_back(slice_from(slice, path));
    }
    return part;
}

IndexReference reference_to(const IndexPart& part, std::string_view text,
                            const std::vector<TensorInfo>& tensors) {
    std::map<std::string_view, i64> places;
    for (const TensorInfo& tensor : tensors) {
        places.emplace(tensor.name, static_cast<i64>(places.size()));
    }
    IndexReference reference{index_name(part.writer), digest(text), INT64_MAX, -1, {}};
    reference.totals.files = static_cast<i64>(part.files.size()) + 1;
    reference.totals.bytes = static_cast<i64>(text.size());
    for (const DataFile& file : part.files) reference.totals.bytes += file.size;
    for (const Slice& slice : part.slices) {
        const i64 place = places.at(slice.tensor);
        reference.first_tensor = std::min(reference.first_tensor, place);
        reference.last_tensor = std::max(reference.last_tensor, place);
        reference.totals.add(slice.kind, slice.dtype, slice.numel() * size_of(slice.dtype));
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
