// SPDX-License-Identifier: Apache-2.0
#include "ckpt/save.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "ckpt/checkpoint.hpp"
#include "ckpt/index.hpp"
#include "ckpt/safetensors.hpp"
#include "ckpt/steps.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"

namespace lm::ckpt {
namespace {

std::string final_path(const Generation& generation, i64 iteration) {
    return generation.directory + "/" + step_name(iteration);
}

std::string temporary_path(const Generation& generation, i64 iteration) {
    return fmt::format("{}{}{}", final_path(generation, iteration), temporary_mark,
                       generation.number);
}

Slice slice_of(const Piece& piece, const spec::TensorSpec& tensor) {
    const Shape shape = piece.box.shape();
    LM_CHECK(shape.rank() == tensor.shape.rank(), "a piece whose rank is not its tensor's");
    for (int dim = 0; dim < shape.rank(); ++dim) {
        LM_CHECK(piece.box.start[dim] >= 0 && piece.box.end[dim] <= tensor.shape[dim],
                 "a piece that reaches out of its tensor");
    }
    LM_CHECK(piece.flat_begin >= 0 && piece.flat_end <= shape.numel(),
             "a piece that reaches out of its box");
    return {.tensor = tensor.name,
            .kind = piece.kind,
            .dtype = piece.dtype,
            .box = piece.box,
            .flat_begin = piece.flat_begin,
            .flat_end = piece.flat_end,
            .file = {},
            .entry = {},
            .checksum = {}};
}

// A slice and the memory it is written from.
struct Source {
    Slice slice;
    const Piece* piece = nullptr;
};

std::string entry_name(const Slice& slice, std::set<std::string>& taken) {
    std::string base = slice.tensor;
    if (slice.kind != SliceKind::weight) base += fmt::format(".{}", name_of(slice.kind));
    std::string name = base;
    for (int part = 1; !taken.insert(name).second; ++part) name = fmt::format("{}.{}", base, part);
    return name;
}

SafetensorsEntry entry_of(const Slice& slice) {
    SafetensorsEntry entry;
    entry.name = slice.entry;
    entry.dtype = safetensors_name(slice.dtype);
    const Shape shape = slice.box.shape();
    entry.shape = {slice.numel()};
    if (slice.whole_box()) entry.shape.assign(shape.dims().begin(), shape.dims().end());
    return entry;
}

void append(SafetensorsWriter& writer, const Piece& piece, i64 n_bytes) {
    if (!piece.read) {
        writer.append({static_cast<const std::byte*>(piece.data), static_cast<size_t>(n_bytes)});
        return;
    }
    constexpr i64 most = i64{32} << 20;
    std::vector<std::byte> buffer(static_cast<size_t>(std::min(n_bytes, most)));
    for (i64 offset = 0; offset < n_bytes; offset += most) {
        const auto part =
            std::span(buffer).first(static_cast<size_t>(std::min(n_bytes - offset, most)));
        piece.read(part, offset);
        writer.append(part);
    }
}

// Writes one file of the sources' data and completes their slices.
DataFile write_data(const std::string& directory, const std::string& name,
                    std::vector<Source>& sources) {
    std::set<std::string> taken;
    std::vector<SafetensorsEntry> entries;
    std::map<std::string, Source*> by_entry;
    for (Source& source : sources) {
        source.slice.file = name;
        source.slice.entry = entry_name(source.slice, taken);
        by_entry[source.slice.entry] = &source;
        entries.push_back(entry_of(source.slice));
    }
    auto writer =
        SafetensorsWriter::create(directory + "/" + name, std::move(entries), {{"format", "pt"}});
    for (size_t i = 0; i < writer.entries().size(); ++i) {
        Source& source = *by_entry.at(writer.entries()[i].name);
        const i64 n_bytes = source.slice.numel() * size_of(source.slice.dtype);
        append(writer, *source.piece, n_bytes);
        source.slice.checksum = writer.checksum(i);
    }
    writer.commit();
    return {name, writer.size(), writer.header_digest()};
}

Manifest manifest_of(const Generation& generation, const SaveInfo& info,
                     const std::vector<IndexReference>& parts) {
    Manifest manifest;
    manifest.model = info.model;
    manifest.parallel = info.parallel;
    manifest.counters = info.counters;
    manifest.tokenizer = info.tokenizer;
    manifest.seed = info.seed;
    manifest.state = info.state;
    manifest.generation = generation.number;
    manifest.tool_version = version();
    manifest.command_line = info.command_line;
    manifest.created = iso_time(static_cast<i64>(unix_time_s()));
    for (const spec::TensorSpec& tensor : spec::tensor_table(info.model)) {
        manifest.tensors.push_back({tensor.name, tensor.shape, info.weights});
    }
    manifest.index = parts;
    return manifest;
}

i64 bytes_in(const std::string& directory) {
    i64 total = 0;
    for (const std::string& name : io::list_directory(directory)) {
        total += io::file_size(directory + "/" + name);
    }
    return total;
}

// Makes the temporary directory the step, in place of an older one of that name if there is one.
void make_visible(const std::string& temporary, const std::string& path) {
    if (io::exists(path)) {
        io::checked::exchange_directories(temporary, path);
    } else if (!io::checked::rename_new(temporary, path)) {
        run_error(path, "came to exist while it was being written: it was left as it is");
    }
    io::checked::fsync_parent_of(path);
}

}  // namespace

std::string begin_save(const Generation& generation, i64 iteration) {
    check_not_superseded(generation);
    const std::string temporary = temporary_path(generation, iteration);
    io::remove_tree(temporary);
    io::checked::make_directory(temporary);
    return temporary;
}

IndexPart write_pieces(const std::string& temporary, const SaveInfo& info, i64 writer,
                       const std::vector<Piece>& pieces) {
    const std::vector<spec::TensorSpec> table = spec::tensor_table(info.model);
    std::map<std::string, std::vector<Source>> files;
    for (const Piece& piece : pieces) {
        if (piece.flat_begin >= piece.flat_end) continue;
        Slice slice = slice_of(piece, table.at(static_cast<size_t>(piece.tensor)));
        files[data_file_name(piece.kind, writer)].push_back({std::move(slice), &piece});
    }
    IndexPart part;
    part.writer = writer;
    for (auto& [name, sources] : files) {
        part.files.push_back(write_data(temporary, name, sources));
        for (Source& source : sources) part.slices.push_back(std::move(source.slice));
    }
    return part;
}

void append(IndexPart& part, IndexPart other) {
    std::ranges::move(other.files, std::back_inserter(part.files));
    std::ranges::move(other.slices, std::back_inserter(part.slices));
}

IndexReference write_index(const std::string& temporary, const SaveInfo& info,
                           const IndexPart& part) {
    std::map<std::string, i64> places;
    for (const spec::TensorSpec& tensor : spec::tensor_table(info.model)) {
        places.emplace(tensor.name, static_cast<i64>(places.size()));
    }
    const std::string text = index_text(part);
    IndexReference reference{index_name(part.writer), digest(text), INT64_MAX, -1};
    for (const Slice& slice : part.slices) {
        const i64 place = places.at(slice.tensor);
        reference.first_tensor = std::min(reference.first_tensor, place);
        reference.last_tensor = std::max(reference.last_tensor, place);
    }
    io::write_file(temporary + "/" + reference.file, text, io::Overwrite::no);
    return reference;
}

IndexReference write_part(const std::string& temporary, const SaveInfo& info, i64 writer,
                          const std::vector<Piece>& pieces) {
    return write_index(temporary, info, write_pieces(temporary, info, writer, pieces));
}

SaveResult commit_save(const Generation& generation, const SaveInfo& info,
                       const std::vector<IndexReference>& parts) {
    const i64 iteration = info.counters.iteration;
    const std::string temporary = temporary_path(generation, iteration);
    const std::string path = final_path(generation, iteration);
    const std::string text = manifest_text(manifest_of(generation, info, parts));
    io::write_file(fmt::format("{}/{}", temporary, manifest_file), text, io::Overwrite::no);
    const SaveResult result{path, bytes_in(temporary)};
    check_not_superseded(generation);
    make_visible(temporary, path);
    set_latest(generation.directory, iteration);
    io::remove_tree(temporary);  // an older step of that name, if there was one
    return result;
}

void abandon_save(const Generation& generation, i64 iteration) noexcept {
    try {
        io::remove_tree(temporary_path(generation, iteration));
    } catch (const std::exception& error) {
        warn("{}", error.what());
    }
}

SaveResult save(const Generation& generation, const SaveInfo& info,
                const std::vector<Piece>& pieces) {
    try {
        const std::string temporary = begin_save(generation, info.counters.iteration);
        return commit_save(generation, info, {write_part(temporary, info, 0, pieces)});
    } catch (...) {
        abandon_save(generation, info.counters.iteration);
        check_not_superseded(generation);  // a newer run may have removed our directory
        throw;
    }
}

}  // namespace lm::ckpt
