// SPDX-License-Identifier: Apache-2.0
#include "ckpt/checkpoint.hpp"

#include <cstring>
#include <map>
#include <mutex>
#include <set>

#include "base/error.hpp"
#include "ckpt/convert.hpp"
#include "ckpt/flat.hpp"
#include "ckpt/geometry.hpp"
#include "ckpt/names.hpp"
#include "ckpt/safetensors.hpp"

namespace lm::ckpt {

struct Checkpoint::State {
    std::string path;
    Manifest manifest;
    std::vector<IndexPart> parts;
    std::map<std::string, SafetensorsReader> files;
    std::map<std::string, const TensorInfo*, std::less<>> tensors;
    std::map<std::pair<std::string, Kind>, std::vector<const Slice*>> slices;
    mutable std::mutex mutex;
    mutable std::set<const Slice*> verified;

    explicit State(const std::string& directory);
    void open_part(const IndexReference& reference);
    void open_file(const DataFile& file);
    void add_slice(const Slice& slice);
    void check_name() const;
    void check_totals() const;
    std::string in(const std::string& file) const { return path + "/" + file; }
};

namespace {

std::string what(const Slice& slice) {
    return fmt::format("tensor {} ({})", slice.tensor, name_of(slice.kind));
}

}  // namespace

Checkpoint::State::State(const std::string& directory) : path(directory) {
    while (path.size() > 1 && path.ends_with('/')) path.pop_back();
    const std::string file = in(std::string(manifest_file));
    if (!io::exists(file)) run_error(path, "is not complete: it has no {}", manifest_file);
    manifest = parse_manifest(io::read_file(file), file);
    check_name();
    for (const TensorInfo& tensor : manifest.tensors) {
        if (!tensors.emplace(tensor.name, &tensor).second) {
            run_error(file, "tensor {} stands twice in the table", tensor.name);
        }
    }
    parts.reserve(manifest.index.size());  // slices are pointed to
    for (const IndexReference& reference : manifest.index) open_part(reference);
    check_totals();
}

// A directory named as a step must be that step: `latest`, prune and a resume go by the name.
void Checkpoint::State::check_name() const {
    const i64 step = step_from_name(path.substr(path.rfind('/') + 1));
    const i64 iteration = manifest.counters.iteration;
    if (step >= 0 && step != iteration) {
        run_error(path, "its manifest is that of iteration {}: renamed? Give it its name {} again",
                  iteration, step_name(iteration));
    }
}

void Checkpoint::State::open_part(const IndexReference& reference) {
    const std::string file = in(reference.file);
    const std::string text = io::read_file(file);
    if (digest(text) != reference.digest) {
        run_error(file, "does not fit the digest in {}: damaged or edited", manifest_file);
    }
    parts.push_back(parse_index(text, file));
    for (const DataFile& data : parts.back().files) open_file(data);
    for (const Slice& slice : parts.back().slices) add_slice(slice);
}

void Checkpoint::State::open_file(const DataFile& file) {
    const std::string name = in(file.name);
    const i64 size = io::file_size(name);
    if (size != file.size) {
        run_error(name, "has {} bytes instead of {}: damaged or incomplete", size, file.size);
    }
    SafetensorsReader reader(name);
    if (digest(reader.header_bytes()) != file.header_digest) {
        run_error(name, "its header does not fit the digest in the index: damaged or edited");
    }
    if (!files.emplace(file.name, std::move(reader)).second) {
        run_error(name, "stands in two index parts");
    }
}

void Checkpoint::State::add_slice(const Slice& slice) {
    const auto tensor = tensors.find(slice.tensor);
    if (tensor == tensors.end()) run_error(path, "{} is not in the tensor table", what(slice));
    const Shape& shape = tensor->second->shape;
    bool inside = slice.box.end.rank() == shape.rank();
    for (int dim = 0; inside && dim < shape.rank(); ++dim) {
        inside = slice.box.end[dim] <= shape[dim];
    }
    if (!inside) run_error(path, "{}: a slice reaches out of its shape", what(slice));
    const DType wanted = slice.kind == Kind::weight ? tensor->second->dtype : DType::fp32;
    const auto file = files.find(slice.file);
    if (file == files.end()) run_error(in(slice.file), "is not in the index");
    const SafetensorsEntry* entry = file->second.find(slice.entry);
    if (!entry || slice.dtype != wanted || entry->dtype != safetensors_name(wanted) ||
        entry->end - entry->begin != slice.numel() * size_of(wanted)) {
        run_error(in(slice.file), "{}: the entry {} is missing or of another size or type",
                  what(slice), slice.entry);
    }
    slices[{slice.tensor, slice.kind}].push_back(&slice);
}

// Every tensor has all its elements, for every kind that this checkpoint has at all.
void Checkpoint::State::check_totals() const {
    std::set<Kind> kinds{Kind::weight};
    for (const auto& [key, list] : slices) kinds.insert(key.second);
    for (const TensorInfo& tensor : manifest.tensors) {
        for (const Kind kind : kinds) {
            const auto found = slices.find({tensor.name, kind});
            i64 n = 0;
            if (found != slices.end()) {
                for (const Slice* slice : found->second) n += slice->numel();
            }
            if (n != tensor.shape.numel()) {
                run_error(path, "tensor {} ({}) has {} of {} elements", tensor.name, name_of(kind),
                          n, tensor.shape.numel());
            }
        }
    }
}

Checkpoint::Checkpoint(const std::string& path) : state_(std::make_shared<State>(path)) {}

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
    const auto found = state_->tensors.find(tensor);
    return found == state_->tensors.end() ? nullptr : found->second;
}

bool Checkpoint::has(Kind kind) const {
    const auto& slices = state_->slices;
    return std::any_of(slices.begin(), slices.end(),
                       [&](const auto& item) { return item.first.second == kind; });
}

std::span<const std::byte> Checkpoint::bytes(const Slice& slice) const {
    const SafetensorsReader& reader = state_->files.at(slice.file);
    return reader.bytes(*reader.find(slice.entry));
}

void Checkpoint::check(const Slice& slice) const {
    {
        const std::lock_guard lock(state_->mutex);
        if (state_->verified.contains(&slice)) return;
    }
    if (digest(bytes(slice)) != slice.checksum) {
        run_error(state_->in(slice.file),
                  "{}: its bytes do not fit their checksum: damaged: go back to another step (see "
                  "lm-ckpt verify, lm-ckpt latest)",
                  what(slice));
    }
    const std::lock_guard lock(state_->mutex);
    state_->verified.insert(&slice);
}

void Checkpoint::load(const std::string& tensor, Kind kind, const Target& target) const {
    const TensorInfo* info = find(tensor);
    if (!info) run_error(path(), "has no tensor {}", tensor);
    if (kind == Kind::master && !state_->slices.contains({tensor, kind})) kind = Kind::weight;
    const auto found = state_->slices.find({tensor, kind});
    if (found == state_->slices.end()) {
        run_error(path(), "has no {} of tensor {}", name_of(kind), tensor);
    }
    const Region wanted{target.box, target.flat_begin, target.flat_end};
    i64 n_copied = 0;
    for (const Slice* slice : found->second) {
        spec::Box common;
        if (!intersect(slice->box, target.box, common)) continue;
        const std::byte* from = bytes(*slice).data();
        bool checked = false;
        for_each_common_run(
            {slice->box, slice->flat_begin, slice->flat_end}, wanted,
            [&](i64 at_slice, i64 at_target, i64 n) {
                if (!checked) check(*slice);
                checked = true;
                convert(from + at_slice * size_of(slice->dtype), slice->dtype,
                        static_cast<std::byte*>(target.data) + at_target * size_of(target.dtype),
                        target.dtype, n);
                n_copied += n;
            });
    }
    if (n_copied != target.flat_end - target.flat_begin) {
        run_error(path(), "tensor {} ({}): its slices hold {} of the {} elements wanted", tensor,
                  name_of(kind), n_copied, target.flat_end - target.flat_begin);
    }
}

void Checkpoint::load(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
                      Kind kind, DType dtype, void* data, i64 begin, i64 end) const {
    for (const spec::LocalTensor& local : layout.tensors) {
        const spec::TensorSpec& tensor = table.at(static_cast<size_t>(local.index));
        const TensorInfo* info = find(tensor.name);
        if (!info) usage_error(path(), "has no tensor {}: another model", tensor.name);
        if (info->shape != tensor.shape) {
            usage_error(path(), "tensor {} is {} there and {} in this model", tensor.name,
                        info->shape.str(), tensor.shape.str());
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
                      Kind kind, DType dtype, void* data) const {
    load(table, layout, kind, dtype, data, 0, layout.n_elements);
}

std::vector<float> Checkpoint::load_fp32(const std::string& tensor, Kind kind) const {
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
