// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/checkpoint.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <mutex>
#include <set>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/flat_pieces.hpp"
#include "ckpt/format/index.hpp"
#include "io/checked.hpp"
#include "io/path.hpp"

namespace lm::ckpt {

namespace {

// Returns the size of a data file. Throws DamageError for a missing file, and Error for an error of
// the system.
i64 size_on_disk(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) == 0) return status.st_size;
    if (errno == ENOENT) damaged(path, "is missing: use another step");
    io::system_error(path, "get the status", errno);
}

}  // namespace

struct Checkpoint::State {
    std::string path;
    Manifest manifest;
    std::map<std::string, i64, std::less<>> places;  // index into Manifest::tensors by tensor name
    std::unique_ptr<BlockReader> reader;

    mutable std::mutex mutex;      // guards the members after it
    std::vector<IndexPart> parts;  // one for each reference of the manifest; empty: not open yet
    std::vector<bool> open_parts;
    std::set<std::string> known_files;
    std::map<std::pair<i64, SliceKind>, std::vector<SliceIn>> slices;

    void open(const std::string& directory, const Share& share, Manifest read);
    // Locking: open() needs no lock, because it runs before other threads have access to the
    // object. slices_of() locks `mutex`. open_part(), open_parts_of() and add_slice() are called
    // with `mutex` locked, or by open().
    void open_part(size_t at);
    void open_parts_of(i64 place);
    void add_slice(const DataFile& file, const Slice& slice);
    std::vector<SliceIn> slices_of(i64 place, SliceKind kind);
    void check_name() const;
    void check_totals() const;
    std::string in(const std::string& file) const { return path + "/" + file; }
    std::string what(const Slice& slice) const { return ckpt::describe(slice, manifest); }
};

void Checkpoint::State::open(const std::string& directory, const Share& share, Manifest read) {
    path = io::without_trailing_slashes(directory);
    // The manifest contains its own digest and the digests of the index parts. An index part
    // contains the digests of the blocks, which are verified when they are read.
    manifest = std::move(read);
    reader = std::make_unique<BlockReader>(path, manifest);
    check_name();
    for (const TensorInfo& tensor : manifest.tensors) {
        if (!places.emplace(tensor.name, static_cast<i64>(places.size())).second) {
            damaged(in(std::string(manifest_file)), "corrupt: tensor {} is listed twice",
                    tensor.name);
        }
    }
    parts.resize(
        manifest.index.size());  // never resized later, because `slices` points into `parts`
    open_parts.resize(parts.size());
    for (size_t at = 0; at < parts.size(); ++at) {
        // Parts are assigned round robin, so that the files of all writers are spread over the
        // ranks that open the step.
        if (static_cast<i64>(at) % share.count == share.index) open_part(at);
    }
    // The totals of a share are not checked, because a share has only some of the slices; load()
    // detects missing elements.
    if (share.count == 1) check_totals();
}

// Checks that the number in the name of a step is the step's iteration, because `latest`, prune and
// resume use the name.
void Checkpoint::State::check_name() const {
    const i64 step = step_from_name(io::base_name(path));
    const i64 iteration = manifest.counters.iteration;
    if (step >= 0 && step != iteration) {
        damaged(path, "its manifest is of iteration {}: rename the directory to {}", iteration,
                step_name(iteration));
    }
}

void Checkpoint::State::open_part(size_t at) {
    const IndexReference& reference = manifest.index[at];
    const std::string file = in(reference.file);
    (void)size_on_disk(file);
    const std::string text = read_step_file(file);
    if (digest(text) != reference.digest) {
        damaged(file, "does not match its digest in {}: corrupt or edited: use another step",
                manifest_file);
    }
    // The digest of the part has been checked, so the file names and sizes in the part can be used.
    parts[at] = parse_index(text, file);
    open_parts[at] = true;
    for (const DataFile& data : parts[at].files) {
        if (!known_files.insert(data.name).second)
            damaged(in(data.name), "corrupt: listed in two index parts");
        const i64 size = size_on_disk(in(data.name));
        if (size != data.size) {
            damaged(in(data.name),
                    "corrupt or incomplete: expected {} bytes, got {}: use another step", data.size,
                    size);
        }
        for (const Slice& slice : data.slices) add_slice(data, slice);
    }
}

// Opens the index parts that can have slices of tensor number `place`, by the range of tensors that
// the manifest states for each part.
void Checkpoint::State::open_parts_of(i64 place) {
    for (size_t at = 0; at < parts.size(); ++at) {
        const IndexReference& reference = manifest.index[at];
        const bool has = reference.first_tensor <= place && place <= reference.last_tensor;
        if (has && !open_parts[at]) open_part(at);
    }
}

// Checks that a slice fits the tensor table: its box is within the shape of its tensor, and weights
// have the dtype of the tensor.
void Checkpoint::State::add_slice(const DataFile& file, const Slice& slice) {
    if (slice.tensor >= static_cast<i64>(manifest.tensors.size())) {
        damaged(in(file.name),
                "corrupt: expected tensor numbers below {}, got a slice of tensor number {}",
                manifest.tensors.size(), slice.tensor);
    }
    const TensorInfo& tensor = manifest.tensors[static_cast<size_t>(slice.tensor)];
    bool inside = slice.box.end.rank() == tensor.shape.rank();
    for (int dim = 0; inside && dim < tensor.shape.rank(); ++dim) {
        inside = slice.box.end[dim] <= tensor.shape[dim];
    }
    if (!inside) {
        damaged(path, "{}: corrupt: a slice exceeds the shape {}", what(slice), tensor.shape.str());
    }
    if (slice.kind == SliceKind::weight && slice.dtype != tensor.dtype) {
        damaged(in(file.name), "{}: corrupt: expected {}, got {}", what(slice),
                lm::name_of(tensor.dtype), lm::name_of(slice.dtype));
    }
    slices[{slice.tensor, slice.kind}].push_back({&file, &slice});
}

// Returns the slices of tensor number `place`. Opens all index parts that may list slices of this
// tensor.
std::vector<SliceIn> Checkpoint::State::slices_of(i64 place, SliceKind kind) {
    const std::lock_guard lock(mutex);
    open_parts_of(place);
    // A checkpoint with fp32 weights, or without optimizer state, has no masters, so its weights
    // are returned as the masters.
    if (kind == SliceKind::master && !slices.contains({place, kind})) kind = SliceKind::weight;
    const auto found = slices.find({place, kind});
    if (found == slices.end()) {
        damaged(path, "has no {} of tensor {}", name_of(kind),
                manifest.tensors[static_cast<size_t>(place)].name);
    }
    return found->second;
}

// Checks, for each kind of state that the checkpoint has, that the slices of each tensor have as
// many elements as the tensor.
void Checkpoint::State::check_totals() const {
    std::set<SliceKind> kinds{SliceKind::weight};
    for (const auto& [key, list] : slices) kinds.insert(key.second);
    for (size_t place = 0; place < manifest.tensors.size(); ++place) {
        const TensorInfo& tensor = manifest.tensors[place];
        for (const SliceKind kind : kinds) {
            const auto found = slices.find({static_cast<i64>(place), kind});
            i64 n = 0;
            if (found != slices.end()) {
                for (const SliceIn& in : found->second) n += in.slice->numel();
            }
            if (n != tensor.shape.numel()) {
                damaged(path, "corrupt: tensor {} ({}): expected {} elements, got {}", tensor.name,
                        name_of(kind), tensor.shape.numel(), n);
            }
        }
    }
}

Checkpoint Checkpoint::open(const std::string& path, const Share& share) {
    for (;;) {
        Manifest manifest = read_manifest(path);
        Checkpoint checkpoint(std::make_shared<State>());
        try {
            checkpoint.state_->open(path, share, std::move(manifest));
            return checkpoint;
        } catch (const DamageError&) {
            if (checkpoint.is_current()) throw;
        }
    }
}

Checkpoint Checkpoint::open(const std::string& path, const Share& share,
                            std::string_view manifest) {
    auto state = std::make_shared<State>();
    state->open(path, share, parse_manifest(manifest, fmt::format("{}/{}", path, manifest_file)));
    return Checkpoint(std::move(state));
}

Checkpoint::Checkpoint(std::shared_ptr<State> state) : state_(std::move(state)) {}

const std::string& Checkpoint::path() const {
    return state_->path;
}

const Manifest& Checkpoint::manifest() const {
    return state_->manifest;
}

bool Checkpoint::is_current() const {
    try {
        return read_manifest(path()).digest == manifest().digest;
    } catch (const DamageError&) {
        return io::checked::exists(fmt::format("{}/{}", path(), manifest_file));
    }
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
    return state_->reader->n_files_opened();
}

std::span<std::byte> Checkpoint::read(const DataFile& file, i64 begin, i64 end,
                                      io::AlignedBlock& block) const {
    return state_->reader->read(file, begin, end, block);
}

std::string Checkpoint::describe(const Slice& slice) const {
    return ckpt::describe(slice, manifest());
}

void Checkpoint::load(const std::vector<Request>& requests) const {
    std::vector<BlockUse> uses;
    std::vector<Target> targets;
    for (const Request& request : requests) {
        const auto place = state_->places.find(request.tensor);
        if (place == state_->places.end()) run_error(path(), "has no tensor {}", request.tensor);
        const auto slices = state_->slices_of(place->second, request.kind);
        // Slices of one kind do not overlap (lm-ckpt verify checks that). So the target is complete
        // when the slices have as many elements as the target.
        const i64 n = add_uses(uses, slices, request.target, targets.size());
        const i64 wanted = request.target.flat_end - request.target.flat_begin;
        if (n != wanted) {
            damaged(path(), "corrupt: tensor {} ({}): expected {} elements in its slices, got {}",
                    request.tensor, name_of(request.kind), wanted, n);
        }
        targets.push_back(request.target);
    }
    state_->reader->load(uses, targets);
}

void Checkpoint::load(const std::string& tensor, SliceKind kind, const Target& target) const {
    load(std::vector<Request>{{tensor, kind, target}});
}

void Checkpoint::load(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
                      SliceKind kind, DType dtype, void* data, i64 begin, i64 end) const {
    std::vector<Request> requests;
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
        auto* const to = static_cast<std::byte*>(data) + part.buffer_offset * size_of(dtype);
        requests.push_back(
            {tensor.name, kind, {local.box, part.flat_begin, part.flat_end, dtype, to}});
    }
    load(requests);
}

void Checkpoint::load(const std::vector<spec::TensorSpec>& table, const spec::RankLayout& layout,
                      SliceKind kind, DType dtype, void* data) const {
    load(table, layout, kind, dtype, data, 0, layout.n_elements);
}

void Checkpoint::load_staged(const std::vector<spec::TensorSpec>& table,
                             const spec::RankLayout& layout, SliceKind kind, DType dtype, i64 begin,
                             i64 end, const Store& store) const {
    constexpr i64 max_elements = i64{16} << 20;
    std::vector<std::byte> host;
    for (const spec::LocalTensor& tensor : layout.tensors) {
        const spec::RankLayout alone{.tensors = {tensor}, .n_elements = layout.n_elements};
        // Padded vocabulary rows follow the elements of the box and are in no checkpoint.
        const i64 tensor_end = std::min(end, tensor.offset + tensor.box.shape().numel());
        for (i64 at = std::max(begin, tensor.offset); at < tensor_end; at += max_elements) {
            const i64 part_end = std::min(at + max_elements, tensor_end);
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
