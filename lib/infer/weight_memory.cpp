// SPDX-License-Identifier: Apache-2.0
#include "infer/weight_memory.hpp"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <numeric>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/units.hpp"
#include "cluster/limits.hpp"

namespace lm::infer {
namespace {

constexpr i64 page = 4096;
// The largest number of bytes that a thread reads at a time, as fp32. It is the size of a block of
// a checkpoint.
constexpr i64 part_bytes = i64{16} << 20;
// The share of the free memory that weights may use. Keys, values, activations and the page cache
// use the rest.
constexpr double usable = 0.8;

}  // namespace

LazyPages LazyPages::reserve(i64 bytes, bool huge_pages) {
    void* const data = mmap(nullptr, static_cast<size_t>(bytes), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (data == MAP_FAILED) {
        run_error("weights", "cannot reserve {} of address space: {}: raise the limit (ulimit -v)",
                  human_size(bytes), std::strerror(errno));
    }
    if (huge_pages) madvise(data, static_cast<size_t>(bytes), MADV_HUGEPAGE);
    return {static_cast<std::byte*>(data), bytes};
}

LazyPages::~LazyPages() {
    if (data_ != nullptr) munmap(data_, static_cast<size_t>(bytes_));
}

LazyPages::LazyPages(LazyPages&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), bytes_(other.bytes_) {}

LazyPages& LazyPages::operator=(LazyPages&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    return *this;
}

void LazyPages::drop(i64 begin, i64 end) const {
    begin = round_up(begin, page);
    end = end / page * page;
    if (begin < end) madvise(data_ + begin, static_cast<size_t>(end - begin), MADV_DONTNEED);
}

WeightMemory::WeightMemory(const ckpt::TensorSource& source, DType dtype)
    : source_(&source), config_(source.model()), map_(config_, {}, 0, 0) {
    residency_.dtype = dtype;
}

WeightMemory WeightMemory::load(const ckpt::TensorSource& source,
                                const eval::EngineOptions& options, ThreadPool& pool) {
    WeightMemory weights(source, options.dtype.value_or(source.tensors().at(0).dtype));
    weights.reserve();
    weights.decide(options);
    std::vector<i64> units{spec::embedding_unit, spec::head_unit(weights.config_)};
    for (i64 layer = 0; layer < weights.config_.n_layers; ++layer) {
        if (weights.kept_[static_cast<size_t>(layer)]) {
            units.push_back(spec::unit_of_layer(layer));
        }
    }
    const double start = monotonic_s();
    weights.read(units, pool);
    const double seconds = monotonic_s() - start;
    i64 bytes = 0;
    for (const i64 unit : units) bytes += weights.unit_bytes(unit);
    if (seconds > 0) weights.residency_.bytes_per_s = static_cast<double>(bytes) / seconds;
    return weights;
}

void WeightMemory::reserve() {
    const i64 n = map_.layout().n_elements;
    const DType dtype = residency_.dtype;
    matrix_pages_ = LazyPages::reserve(n * size_of(dtype), true);
    vector_pages_ = LazyPages::reserve(n * size_of(DType::fp32), false);
    matrices_ = map_.bind({matrix_pages_.data(), dtype, {n}});
    vectors_ = map_.bind({vector_pages_.data(), DType::fp32, {n}});
}

bool WeightMemory::is_matrix(const spec::LocalTensor& local) const {
    return local.shape.rank() > 1;
}

DType WeightMemory::dtype_of(const spec::LocalTensor& local) const {
    return is_matrix(local) ? residency_.dtype : DType::fp32;
}

std::byte* WeightMemory::address_of(const spec::LocalTensor& local) const {
    const LazyPages& pages = is_matrix(local) ? matrix_pages_ : vector_pages_;
    return pages.data() + local.offset * size_of(dtype_of(local));
}

i64 WeightMemory::unit_bytes(i64 unit) const {
    i64 bytes = 0;
    for (const spec::LocalTensor& local : map_.layout().tensors) {
        if (local.unit == unit) bytes += local.numel() * size_of(dtype_of(local));
    }
    return bytes;
}

// Decides which layers stay in memory: as many of the first layers as fit together with the
// embedding, the head and one more layer. Each pass reads the other layers.
void WeightMemory::decide(const eval::EngineOptions& options) {
    const auto n_layers = static_cast<size_t>(config_.n_layers);
    kept_.assign(n_layers, true);
    i64 ends = unit_bytes(spec::embedding_unit) + unit_bytes(spec::head_unit(config_));
    std::vector<i64> layers(n_layers);
    for (size_t i = 0; i < n_layers; ++i) {
        layers[i] = unit_bytes(spec::unit_of_layer(static_cast<i64>(i)));
    }
    residency_.bytes = std::accumulate(layers.begin(), layers.end(), ends);
    residency_.limit = options.memory;
    residency_.whose = "--memory";
    if (options.memory == 0) {
        const std::optional<cluster::MemoryRoom> room = cluster::memory_room();
        if (!room) return;
        residency_.limit = static_cast<i64>(usable * static_cast<double>(room->bytes));
        residency_.whose = room->whose;
    }
    if (residency_.bytes <= residency_.limit) return;
    i64 used = ends + layers.front();
    for (size_t i = 0; i < n_layers; ++i) {
        used += layers[i];
        kept_[i] = used <= residency_.limit;
        if (kept_[i]) continue;
        ++residency_.n_layers_read;
        residency_.bytes_read += layers[i];
    }
}

void WeightMemory::read(const std::vector<i64>& units, ThreadPool& pool) {
    struct Part {
        const spec::LocalTensor* local;
        i64 begin, end;
    };
    std::vector<Part> parts;
    for (const spec::LocalTensor& local : map_.layout().tensors) {
        if (std::ranges::find(units, local.unit) == units.end()) continue;
        const i64 n = local.box.shape().numel();
        const i64 most = part_bytes / size_of(DType::fp32);
        for (i64 begin = 0; begin < n; begin += most) {
            parts.push_back({&local, begin, std::min(begin + most, n)});
        }
    }
    pool.run(std::ssize(parts), [&](i64 task, int) {
        const Part& part = parts[static_cast<size_t>(task)];
        const DType dtype = dtype_of(*part.local);
        const std::string& name = map_.spec_of(*part.local).name;
        const ckpt::TensorInfo* const stored = source_->find(name);
        if (stored == nullptr) run_error(source_->path(), "has no tensor {}", name);
        // If the caller asks for fp32 matrices and the stored weights have 16 bits, reads the
        // master weights, which are more exact.
        const bool masters = residency_.dtype == DType::fp32 && is_half(stored->dtype);
        source_->load(name, masters ? ckpt::SliceKind::master : ckpt::SliceKind::weight,
                      {.box = part.local->box,
                       .flat_begin = part.begin,
                       .flat_end = part.end,
                       .dtype = dtype,
                       .data = address_of(*part.local) + part.begin * size_of(dtype)});
    });
}

void WeightMemory::use(i64 layer, ThreadPool& pool) {
    if (kept_[static_cast<size_t>(layer)] || read_layer_ == layer) return;
    if (read_layer_ >= 0) {
        for (const spec::LocalTensor& local : map_.layout().tensors) {
            if (local.unit != spec::unit_of_layer(read_layer_) || !is_matrix(local)) continue;
            const i64 size = size_of(residency_.dtype);
            matrix_pages_.drop(local.offset * size, local.end() * size);
        }
    }
    read({spec::unit_of_layer(layer)}, pool);
    read_layer_ = layer;
}

}  // namespace lm::infer
