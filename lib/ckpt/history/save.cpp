// SPDX-License-Identifier: Apache-2.0
// Why a directory that is renamed, with a manifest that is written last, and `latest` in addition.
//
// A step consists of up to thousands of files of thousands of processes, and a file system has no
// transaction over several files. It has one operation that no reader sees half done, rename(). So
// all files of a step are written below a name that every reader ignores, and one rename publishes
// them.
//
// Megatron-LM and DeepSpeed write into the directory with the final name, and afterwards replace a
// text file that names the step. A save that is killed then leaves a directory that looks like a
// step. Only a program that reads the text file first can know that it is none; rsync, a script
// that keeps the newest three, and a user who gives the iteration do not. And where each rank
// writes by torch.save, a second save under an existing number, after a rollback, overwrites the
// old files one by one, so that a crash leaves a mixture of two steps. Here the old and the new
// directory exchange their names.
//
// - The manifest is last because it has the digests of the index parts, which their writers compute
//   while they write. So its existence proves that all writers have finished, also for a program
//   that sees the directory under its temporary name.
// - Each writer flushes its own files. The committer cannot do that for the others: fsync() on one
//   node does not write what is in the page cache of another node. The order matters, because a
//   file system may make a rename durable before the content of the renamed files.
// - `latest` is needed although the newest directory could be found by listing. A rollback
//   (ckpt/history/rollback.hpp) abandons several steps at once, and the replacement of this one
//   file is its commit; the renames that follow are not atomic together. `latest` is replaced after
//   the rename of a new step, because in the other order a crash leaves the name of a step that
//   does not exist. In this order a crash costs the iterations since the previous step.
// - The generation is read again immediately before the rename. A node that was cut off from the
//   network for an hour may arrive here while another run has already replaced its run.
//
// The price is room: the disk holds one step more while a step is saved. And all ranks must have
// written before any file counts, so that one slow node delays the whole step, although by default
// not the training, which continues meanwhile.
//
// tests/ckpt/save_fault_test.cpp fails or kills the save at each of its operations, and
// save_reorder_test.cpp loses each operation that is not durable, as a power failure may. An object
// store has no rename of directories. For one, the manifest under a unique name would have to be
// the only commit, and `latest` the only list of steps.
#include "ckpt/history/save.hpp"

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <span>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/units.hpp"
#include "base/version.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/history/abandon.hpp"
#include "ckpt/history/steps.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/directory.hpp"
#include "io/file.hpp"

namespace lm::ckpt {
namespace {

std::string final_path(const Generation& generation, i64 iteration) {
    return generation.directory + "/" + step_name(iteration);
}

void check_piece(const Piece& piece, const TensorInfo& tensor) {
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
}

// Writes a new file and makes its content durable. The file needs no temporary name, because its
// directory is temporary.
void write_durable(const std::string& path, std::string_view text) {
    const io::Fd fd(io::checked::create(path, O_WRONLY | O_EXCL));
    if (!fd.valid()) run_error(path, "exists already: another process writes this file");
    io::checked::write_at(fd.get(), path, std::as_bytes(std::span(text)), 0);
    io::checked::fsync(fd.get(), path);
}

// Sets aside an existing step `path` that is not on the branch of the new step `tip`, or whose
// manifest is damaged, because a save never replaces such a step.
void make_way(const Generation& generation, const Tip& tip, const std::string& path) {
    if (!io::exists(path)) return;
    try {
        if (on_branch(read_manifest(path), tip)) return;
    } catch (const DamageError&) {
        // A damaged step is set aside, too, because its data may still be useful.
    }
    const std::string aside =
        set_aside(generation.directory, step_name(tip.step.iteration), generation.number);
    note("{}: is not a complete step of the current branch: set aside as {}", path, aside);
}

// Gives the temporary directory the name `path` of the step. An older step of this name gets the
// temporary name.
void publish(const io::Directory& directory, const std::string& temporary,
             const std::string& path) {
    directory.check_name();
    if (io::exists(path)) {
        io::checked::exchange_directories(temporary, path);
    } else if (!io::checked::rename_new(temporary, path)) {
        run_error(path, "exists: another program created it during this save: left unchanged");
    }
    io::checked::fsync_parent_of(path);
}

}  // namespace

std::vector<TensorInfo> tensors_of(const spec::ModelConfig& model, DType weights) {
    std::vector<TensorInfo> tensors;
    for (const spec::TensorSpec& tensor : spec::tensor_table(model)) {
        tensors.push_back({tensor.name, tensor.shape, weights});
    }
    return tensors;
}

// The name of the temporary directory contains the generation, so that a superseded run never
// writes into the directory of its successor.
std::string temporary_path(const Generation& generation, i64 iteration) {
    return fmt::format("{}{}{}", final_path(generation, iteration), temporary_mark,
                       generation.number);
}

std::string begin_save(const Generation& generation, i64 iteration) {
    check_not_superseded(generation);
    const std::string temporary = temporary_path(generation, iteration);
    io::remove_tree(temporary);
    io::checked::make_directory(temporary);
    return temporary;
}

std::vector<DataShare> plan_shares(const std::vector<TensorInfo>& tensors, i64 writer,
                                   const std::vector<Piece>& pieces) {
    std::map<std::string, std::vector<const Piece*>> files;
    for (const Piece& piece : pieces) {
        if (piece.flat_begin >= piece.flat_end) continue;
        check_piece(piece, tensors.at(static_cast<size_t>(piece.tensor)));
        files[data_file_name(piece.kind, writer)].push_back(&piece);
    }
    std::vector<DataShare> shares;
    for (const auto& [name, own] : files) shares.push_back(plan_share(name, own));
    return shares;
}

IndexPart write_pieces(const std::string& temporary, const SaveInfo& info, i64 writer,
                       const std::vector<Piece>& pieces) {
    const std::vector<TensorInfo> tensors = tensors_of(info.model, info.weights);
    std::vector<DataShare> shares = plan_shares(tensors, writer, pieces);
    for (DataShare& share : shares) share.header = place_shares(std::array{&share.file}, tensors);
    write_shares(temporary, shares);
    IndexPart part{.writer = writer, .files = {}};
    for (DataShare& share : shares) part.files.push_back(std::move(share.file));
    return part;
}

void append(IndexPart& part, IndexPart other) {
    std::ranges::move(other.files, std::back_inserter(part.files));
}

IndexReference write_index(const std::string& temporary, const IndexPart& part) {
    const std::string text = index_text(part);
    write_durable(io::Directory::open(temporary) / index_name(part.writer), text);
    return reference_to(part, text);
}

IndexReference write_part(const std::string& temporary, const SaveInfo& info, i64 writer,
                          const std::vector<Piece>& pieces) {
    return write_index(temporary, write_pieces(temporary, info, writer, pieces));
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
    // A step that is rewritten, for example for another layout, keeps the generation of the run
    // that saved it.
    manifest.generation = info.lineage.empty() ? generation.number : info.lineage.back().generation;
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
    manifest.tensors = tensors_of(info.model, info.weights);
    manifest.index = parts;
    return manifest;
}

SaveResult commit_save(const Generation& generation, const SaveInfo& info,
                       const std::vector<IndexReference>& parts) {
    Manifest manifest = manifest_of(generation, info, parts);
    const std::string text = manifest_text(manifest);
    manifest.digest = digest_of_manifest(text);
    return publish_step(generation, manifest, text);
}

SaveResult publish_step(const Generation& generation, const Manifest& manifest,
                        std::string_view text) {
    const i64 iteration = manifest.counters.iteration;
    const std::string temporary = temporary_path(generation, iteration);
    const auto directory = io::Directory::open(temporary);
    const std::string path = final_path(generation, iteration);
    i64 bytes = manifest.totals().bytes + static_cast<i64>(text.size());
    for (const TokenizerFile& file : manifest.tokenizer.files) {
        bytes += file.bytes;
        if (file.text) write_durable(directory / file.name, *file.text);
    }
    // All data files and index parts are durable, because their writers have called fsync(). The
    // manifest is written last, because it makes the directory a complete step.
    write_durable(directory / std::string(manifest_file), text);
    // The content of every file is durable now. This call makes the names durable.
    io::checked::fsync_path(directory.path());
    const SaveResult result{path, bytes, manifest.reference()};
    // A superseded run must stop here at the latest, because another run may load this step after
    // the rename.
    check_not_superseded(generation);
    make_way(generation, tip_of(manifest), path);
    publish(directory, temporary, path);
    // After a crash before this line, `latest` names the previous step, which is complete, too.
    set_latest(generation.directory, tip_of(manifest));
    io::remove_tree(temporary);  // the older step, if names were exchanged
    return result;
}

void discard_save(const Generation& generation, i64 iteration) noexcept {
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
        discard_save(generation, info.counters.iteration);
        // If the save failed because a newer run removed the temporary directory, reports that run.
        check_not_superseded(generation);
        throw;
    }
}

}  // namespace lm::ckpt
