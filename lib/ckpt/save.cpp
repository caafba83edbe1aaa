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
#include "ckpt/abandon.hpp"
#include "ckpt/checkpoint.hpp"
#include "ckpt/damage.hpp"
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
    LM_CHECK(shape.rank() == tensor.shape.rank(), "{}: expected a piece of {} dimensions, got {}",
             tensor.name, tensor.shape.rank(), shape.rank());
    for (int dim = 0; dim < shape.rank(); ++dim) {
        LM_CHECK(piece.box.start[dim] >= 0 && piece.box.end[dim] <= tensor.shape[dim],
                 "{}: expected a piece within [0, {}) of dimension {}, got [{}, {})", tensor.name,
                 tensor.shape[dim], dim, piece.box.start[dim], piece.box.end[dim]);
    }
    LM_CHECK(piece.flat_begin >= 0 && piece.flat_end <= shape.numel(),
             "{}: expected flat elements within [0, {}), got [{}, {})", tensor.name, shape.numel(),
             piece.flat_begin, piece.flat_end);
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

// A slice and the piece of memory that holds its data.
struct Source {
    Slice slice;
    const Piece* piece = nullptr;
};

// Returns the name of a slice in its file: "TENSOR", "TENSOR.exp_avg", and a number when a writer
// has several slices of one tensor.
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

// Appends a piece. GPU memory is read through a buffer of 32 MiB; host memory is written directly.
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

// Writes the data of all sources into one file and completes their slices: file, entry and
// checksum.
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
    // The writer has sorted the entries: the data follows in that order.
    for (size_t i = 0; i < writer.entries().size(); ++i) {
        Source& source = *by_entry.at(writer.entries()[i].name);
        const i64 n_bytes = source.slice.numel() * size_of(source.slice.dtype);
        append(writer, *source.piece, n_bytes);
        source.slice.checksum = writer.checksum(i);
    }
    writer.commit();
    return {name, writer.size(), writer.header_digest()};
}

std::vector<TensorInfo> tensors_of(const SaveInfo& info) {
    std::vector<TensorInfo> tensors;
    for (const spec::TensorSpec& tensor : spec::tensor_table(info.model)) {
        tensors.push_back({tensor.name, tensor.shape, info.weights});
    }
    return tensors;
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
    manifest.run_id = info.run_id.empty() ? generation.run_id : info.run_id;
    manifest.parent = info.parent;
    manifest.lineage = info.lineage.empty() ? generation.lineage : info.lineage;
    if (manifest.lineage.empty()) {
        manifest.lineage.push_back({generation.number, manifest.run_id, std::nullopt});
    }
    manifest.writer = this_writer();
    manifest.tool_version = version();
    manifest.command_line = info.command_line;
    manifest.created = iso_time(static_cast<i64>(unix_time_s()));
    manifest.tensors = tensors_of(info);
    manifest.index = parts;
    return manifest;
}

// Sets a step of this name aside unless it is on the branch of the new step `tip`: a step of
// another branch, or one whose manifest is damaged, is never replaced.
void make_way(const Generation& generation, const Tip& tip, const std::string& path) {
    if (!io::exists(path)) return;
    try {
        if (on_branch(read_manifest(path), tip)) return;
    } catch (const DamageError&) {
        // A damaged step is set aside, too: its data may still be useful.
    }
    const std::string aside =
        set_aside(generation.directory, step_name(tip.step.iteration), generation.number);
    note("{}: is not a step of the current branch: set aside as {}", path, aside);
}

// Renames the temporary directory to the step. An older step of that name gets the temporary name.
void publish(const std::string& temporary, const std::string& path) {
    if (io::exists(path)) {
        io::checked::exchange_directories(temporary, path);
    } else if (!io::checked::rename_new(temporary, path)) {
        run_error(path,
                  "was created by another program while it was being written: left unchanged");
    }
    io::checked::fsync_parent_of(path);
}

}  // namespace

// The temporary directory has the generation in its name: a superseded run never writes into the
// directory of its successor.
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
    const std::string text = index_text(part);
    IndexReference reference = reference_to(part, text, tensors_of(info));
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
    Manifest manifest = manifest_of(generation, info, parts);
    const std::string text = manifest_text(manifest);
    manifest.digest = digest_of_manifest(text);
    // All data files and index parts are durable: their writers committed them. The manifest makes
    // the directory a complete step, so it comes last.
    io::write_file(fmt::format("{}/{}", temporary, manifest_file), text, io::Overwrite::no);
    const SaveResult result{path, manifest.totals().bytes + static_cast<i64>(text.size()),
                            manifest.reference()};
    // The last moment to stop: after the rename a resumed run may load this step.
    check_not_superseded(generation);
    make_way(generation, tip_of(manifest), path);
    publish(temporary, path);
    // A crash before this line leaves `latest` at the previous step, which is complete, too.
    set_latest(generation.directory, tip_of(manifest));
    io::remove_tree(temporary);  // the older step, after an exchange
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
        // A newer run may have removed our directory; in that case that is the error to report.
        check_not_superseded(generation);
        throw;
    }
}

}  // namespace lm::ckpt
