// SPDX-License-Identifier: Apache-2.0
#include "ckpt/checkpoint.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "base/error.hpp"
#include "ckpt/elements.hpp"
#include "ckpt/flat.hpp"
#include "ckpt/geometry.hpp"
#include "ckpt/index.hpp"
#include "ckpt/safetensors.hpp"
#include "ckpt/steps.hpp"

namespace lm::ckpt {

struct Checkpoint::State {
    std::string path;
    Manifest manifest;
    std::vector<IndexPart> parts;  // one for each reference of the manifest; empty: not open yet
    std::vector<bool> open_parts;
    std::map<std::string, DataFile> known_files;
    std::map<std::string, SafetensorsReader> files;
    std::map<std::string, i64, std::less<>> places;  // index in the tensor table by name
    std::map<std::pair<std::string, SliceKind>, std::vector<const Slice*>> slices;
    std::set<const Slice*> verified;
    std::mutex mutex;  // guards everything except path, manifest and places, which do not change

    void open(const std::string& directory, const Share& share);
    // open() runs before the object is shared. The other functions expect a locked `mutex`, except
    // slices_of(), which locks it.
    void open_part(size_t at);
    const SafetensorsReader& open_file(const std::string& name);
    void open_parts_of(i64 place);
    void add_slice(const Slice& slice);
    const SafetensorsEntry& entry_of(const Slice& slice);
    std::vector<const Slice*> slices_of(const std::string& tensor, SliceKind kind);
    void check_name() const;
    void check_totals() const;
    std::string in(const std::string& file) const { return path + "/" + file; }
};

namespace {

std::string what(const Slice& slice) {
    return fmt::format("tensor {} ({})", slice.tensor, name_of(slice.kind));
}

}  // namespace

void Checkpoint::State::open(const std::string& directory, const Share& share) {
    path = directory;
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    const std::string file = in(std::string(manifest_file));
    // The chain of trust: the manifest contains its own digest and the digests of the index parts.
    // An index part contains the digests of file headers and of slices. Slices are verified at
    // their first use.
    manifest = read_manifest(path);
    check_name();
    for (const TensorInfo& tensor : manifest.tensors) {
        if (!places.emplace(tensor.name, static_cast<i64>(places.size())).second) {
            run_error(file, "corrupt: tensor {} is listed twice", tensor.name);
        }
    }
    parts.resize(manifest.index.size());  // never resized again: `slices` points into it
    open_parts.resize(parts.size());
    for (size_t at = 0; at < parts.size(); ++at) {
        // Parts are assigned round robin, so that the files of all writers are spread over the
        // ranks that open the step.
        if (static_cast<i64>(at) % share.count != share.index) continue;
        open_part(at);
        for (const DataFile& data : parts[at].files) open_file(data.name);
        for (const Slice& slice : parts[at].slices) entry_of(slice);
    }
    // A share has only some slices, so the totals are not checked; load() detects missing elements.
    if (share.count == 1) check_totals();
}

// Checks that the number in the name of a step is its iteration: `latest`, prune and resume use the
// name.
void Checkpoint::State::check_name() const {
    const i64 step = step_from_name(path.substr(path.rfind('/') + 1));
    const i64 iteration = manifest.counters.iteration;
    if (step >= 0 && step != iteration) {
        run_error(path, "its manifest is of iteration {}: rename the directory to {}", iteration,
                  step_name(iteration));
    }
}

void Checkpoint::State::open_part(size_t at) {
    const IndexReference& reference = manifest.index[at];
    const std::string file = in(reference.file);
    const std::string text = io::read_file(file);
    if (digest(text) != reference.digest) {
        run_error(file, "does not match its digest in {}: corrupt or edited: use another step",
                  manifest_file);
    }
    // The part is verified before it is parsed: file names and sizes in it are used below.
    parts[at] = parse_index(text, file);
    open_parts[at] = true;
    for (const DataFile& data : parts[at].files) {
        if (!known_files.emplace(data.name, data).second) {
            run_error(in(data.name), "corrupt: listed in two index parts");
        }
    }
    for (const Slice& slice : parts[at].slices) add_slice(slice);
}

// The manifest states the range of tensors of each part, so that a load opens only parts that can
// have slices of its tensor.
void Checkpoint::State::open_parts_of(i64 place) {
    for (size_t at = 0; at < parts.size(); ++at) {
        const IndexReference& reference = manifest.index[at];
        const bool has = reference.first_tensor <= place && place <= reference.last_tensor;
        if (has && !open_parts[at]) open_part(at);
    }
}

// Maps a data file and checks size and header. Its tensor data is read later, when a slice is used.
const SafetensorsReader& Checkpoint::State::open_file(const std::string& name) {
    if (const auto open = files.find(name); open != files.end()) return open->second;
    const auto known = known_files.find(name);
    if (known == known_files.end()) run_error(in(name), "corrupt: not in the index");
    const i64 size = io::file_size(in(name));
    if (size != known->second.size) {
        run_error(in(name), "corrupt or incomplete: expected {} bytes, got {}: use another step",
                  known->second.size, size);
    }
    auto reader = SafetensorsReader::open(in(name));
    if (digest(reader.header_bytes()) != known->second.header_digest) {
        run_error(in(name),
                  "its header does not match its digest in the index: corrupt or edited: use "
                  "another step");
    }
    return files.emplace(name, std::move(reader)).first->second;
}

void Checkpoint::State::add_slice(const Slice& slice) {
    const auto place = places.find(slice.tensor);
    if (place == places.end())
        run_error(path, "corrupt: {} is not in the tensor table", what(slice));
    const Shape& shape = manifest.tensors[static_cast<size_t>(place->second)].shape;
    bool inside = slice.box.end.rank() == shape.rank();
    for (int dim = 0; inside && dim < shape.rank(); ++dim) {
        inside = slice.box.end[dim] <= shape[dim];
    }
    if (!inside)
        run_error(path, "{}: corrupt: a slice exceeds the shape {}", what(slice), shape.str());
    slices[{slice.tensor, slice.kind}].push_back(&slice);
}

// Returns the entry of a slice after checking that index, tensor table and file header agree on it:
// weights have the type of the table, optimizer state is fp32.
const SafetensorsEntry& Checkpoint::State::entry_of(const Slice& slice) {
    const TensorInfo& tensor = manifest.tensors[static_cast<size_t>(places.at(slice.tensor))];
    const DType wanted = slice.kind == SliceKind::weight ? tensor.dtype : DType::fp32;
    const SafetensorsEntry* entry = open_file(slice.file).find(slice.entry);
    if (!entry || slice.dtype != wanted || entry->dtype != safetensors_name(wanted) ||
        entry->end - entry->begin != slice.numel() * size_of(wanted)) {
        run_error(
            in(slice.file),
            "{}: expected entry {} with {} {} elements, which the file does not have: corrupt",
            what(slice), slice.entry, slice.numel(), lm::name_of(wanted));
    }
    return *entry;
}

// Opens all index parts that may list slices of the tensor.
std::vector<const Slice*> Checkpoint::State::slices_of(const std::string& tensor, SliceKind kind) {
    const std::lock_guard lock(mutex);
    open_parts_of(places.at(tensor));
    // Weights stand for missing masters: fp32 weights are their own masters, and a checkpoint
    // without optimizer state has no masters.
    if (kind == SliceKind::master && !slices.contains({tensor, kind})) kind = SliceKind::weight;
    const auto found = slices.find({tensor, kind});
    if (found == slices.end()) run_error(path, "has no {} of tensor {}", name_of(kind), tensor);
    return found->second;
}

// Checks, for every kind of which the checkpoint has slices, that every tensor has all its
// elements.
void Checkpoint::State::check_totals() const {
    std::set<SliceKind> kinds{SliceKind::weight};
    for (const auto& [key, list] : slices) kinds.insert(key.second);
    for (const TensorInfo& tensor : manifest.tensors) {
        for (const SliceKind kind : kinds) {
            const auto found = slices.find({tensor.name, kind});
            i64 n = 0;
            if (found != slices.end()) {
                for (const Slice* slice : found->second) n += slice->numel();
            }
            if (n != tensor.shape.numel()) {
                run_error(path, "corrupt: tensor {} ({}): expected {} elements, got {}",
                          tensor.name, name_of(kind), tensor.shape.numel(), n);
            }
        }
    }
}

Checkpoint Checkpoint::open(const std::string& path, const Share& share) {
    auto state = std::make_shared<State>();
    state->open(path, share);
    return Checkpoint(std::move(state));
}

Checkpoint::Checkpoint(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& Checkpoint::path() const {
    return state_->path;
}

const Manifest& Checkpoint::manifest() const {
    return state_->manifest;
}

const std::vector<IndexPart>& Checkpoint::parts() const {
    return state_->parts;
}

const TensorInfo* Checkpoint::find(std::string_view tensor) const {
    const auto found = state_->places.find(tensor);
    if (found == state_->places.end()) return nullptr;
    return &state_->manifest.tensors[static_cast<size_t>(found->second)];
}

bool Checkpoint::has(SliceKind kind) const {
    return state_->manifest.has(kind);
}

i64 Checkpoint::n_parts_read() const {
    const std::lock_guard lock(state_->mutex);
    return std::ranges::count(state_->open_parts, true);
}

i64 Checkpoint::n_files_opened() const {
    const std::lock_guard lock(state_->mutex);
    return static_cast<i64>(state_->files.size());
}

std::span<const std::byte> Checkpoint::bytes(const Slice& slice) const {
    const std::lock_guard lock(state_->mutex);
    const SafetensorsEntry& entry = state_->entry_of(slice);
    return state_->open_file(slice.file).bytes(entry);
}

// Hashing runs without the lock, so that threads verify different slices at once; two threads may
// hash the same slice, which is harmless.
void Checkpoint::check(const Slice& slice) const {
    {
        const std::lock_guard lock(state_->mutex);
        if (state_->verified.contains(&slice)) return;
    }
    if (digest(bytes(slice)) != slice.checksum) {
        throw DamageError(
            Exit::failure,
            fmt::format("{}: {}: checksum mismatch: corrupt: use another step (see lm-ckpt verify, "
                        "lm-ckpt latest)",
                        state_->in(slice.file), what(slice)));
    }
    const std::lock_guard lock(state_->mutex);
    state_->verified.insert(&slice);
}

void Checkpoint::load(const std::string& tensor, SliceKind kind, const Target& target) const {
    const TensorInfo* info = find(tensor);
    if (!info) run_error(path(), "has no tensor {}", tensor);
    const Region wanted{target.box, target.flat_begin, target.flat_end};
    // Slices of one kind do not overlap (lm-ckpt verify checks that), so the target is complete
    // when the number of copied elements is right.
    i64 n_copied = 0;
    for (const Slice* slice : state_->slices_of(tensor, kind)) {
        // Set and verified at the first common run; most slices have no common run.
        const std::byte* from = nullptr;
        for_each_common_run({slice->box, slice->flat_begin, slice->flat_end}, wanted,
                            [&](i64 at_slice, i64 at_target, i64 n) {
                                if (from == nullptr) {
                                    check(*slice);
                                    from = bytes(*slice).data();
                                }
                                convert_elements(from + at_slice * size_of(slice->dtype),
                                                 slice->dtype,
                                                 static_cast<std::byte*>(target.data) +
                                                     at_target * size_of(target.dtype),
                                                 target.dtype, n);
                                n_copied += n;
                            });
    }
    if (n_copied != target.flat_end - target.flat_begin) {
        run_error(path(), "corrupt: tensor {} ({}): expected {} elements in its slices, got {}",
                  tensor, name_of(kind), target.flat_end - target.flat_begin, n_copied);
    }
}

void Checkpoint::load(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
                      SliceKind kind, DType dtype, void* data, i64 begin, i64 end) const {
    for (const spec::LocalTensor& local : layout.tensors) {
        const spec::TensorSpec& tensor = table.at(static_cast<size_t>(local.index));
        const TensorInfo* info = find(tensor.name);
        if (!info)
            usage_error(path(), "has no tensor {}: it is a checkpoint of another model",
                        tensor.name);
        if (info->shape != tensor.shape) {
            usage_error(path(),
                        "tensor {}: expected shape {}, got {}: it is a checkpoint of another model",
                        tensor.name, tensor.shape.str(), info->shape.str());
        }
        const FlatPart part = part_in(local, begin, end);
        if (part.empty()) continue;
        load(tensor.name, kind,
             {.box = local.box,
              .flat_begin = part.flat_begin,
              .flat_end = part.flat_end,
              .dtype = dtype,
              .data = static_cast<std::byte*>(data) + part.buffer_offset * size_of(dtype)});
    }
}

void Checkpoint::load(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
                      SliceKind kind, DType dtype, void* data) const {
    load(table, layout, kind, dtype, data, 0, layout.n_elements);
}

void Checkpoint::load_staged(const std::vector<spec::TensorSpec>& table,
                             const spec::RankLayout& layout, SliceKind kind, DType dtype, i64 begin,
                             i64 end, const Store& store) const {
    constexpr i64 most_elements = i64{16} << 20;
    std::vector<std::byte> host;
    for (const spec::LocalTensor& tensor : layout.tensors) {
        const spec::RankLayout alone{.tensors = {tensor}, .n_elements = layout.n_elements};
        // Padded vocabulary rows follow the elements of the box and are in no checkpoint.
        const i64 tensor_end = std::min(end, tensor.offset + tensor.box.shape().numel());
        for (i64 at = std::max(begin, tensor.offset); at < tensor_end; at += most_elements) {
            const i64 part_end = std::min(at + most_elements, tensor_end);
            host.resize(static_cast<size_t>((part_end - at) * size_of(dtype)));
            load(table, alone, kind, dtype, host.data(), at, part_end);
            store(at, part_end, host.data());
        }
    }
}

std::vector<float> Checkpoint::load_fp32(const std::string& tensor, SliceKind kind) const {
    const TensorInfo* info = find(tensor);
    if (!info) run_error(path(), "has no tensor {}", tensor);
    const Region all = whole(info->shape);
    std::vector<float> values(static_cast<size_t>(info->shape.numel()));
    load(tensor, kind,
         {.box = all.box,
          .flat_begin = 0,
          .flat_end = all.flat_end,
          .dtype = DType::fp32,
          .data = values.data()});
    return values;
}

}  // namespace lm::ckpt
