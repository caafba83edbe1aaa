// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/diff.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <mutex>
#include <utility>

#include "ckpt/format/geometry.hpp"
#include "ckpt/format/index.hpp"
#include "io/block_file.hpp"

namespace lm::ckpt {
namespace {

constexpr i64 chunk_elements = io::block_bytes / 4;  // elements are compared as fp32

struct ChunkDifference {
    i64 n_different = 0;
    double max = 0;
    double relative = 0;
    double sum = 0;  // sum of the squares
};

void add_element(ChunkDifference& chunk, float a, float b) {
    ++chunk.n_different;
    const double d = std::abs(double{a} - double{b});
    // A comparison with NaN is false, so a NaN in `d` replaces `max`. A NaN in `max` stays, because
    // d + NaN is NaN.
    if (!(d <= chunk.max)) chunk.max = std::isnan(chunk.max) ? d + NAN : d;
    const double magnitude = std::max(std::abs(double{a}), std::abs(double{b}));
    if (magnitude > 0) chunk.relative = std::max(chunk.relative, d / magnitude);
    chunk.sum += d * d;
}

// Compares the elements [begin, end) of one tensor.
ChunkDifference compare_chunk(const TensorSource& a, const TensorSource& b,
                              const TensorDifference& what, const Shape& shape, i64 begin,
                              i64 end) {
    const io::AlignedBlock memory_a;
    const io::AlignedBlock memory_b;
    const auto read = [&](const TensorSource& from, const io::AlignedBlock& to) {
        auto* const values = reinterpret_cast<float*>(to.first(io::block_bytes).data());
        from.load(what.tensor, what.kind, {whole(shape).box, begin, end, DType::fp32, values});
        return values;
    };
    const float* const values_a = read(a, memory_a);
    const float* const values_b = read(b, memory_b);
    ChunkDifference chunk;
    const i64 n = end - begin;
    if (std::memcmp(values_a, values_b, static_cast<size_t>(n) * sizeof(float)) == 0) return chunk;
    for (i64 i = 0; i < n; ++i) {
        if (std::bit_cast<u32>(values_a[i]) == std::bit_cast<u32>(values_b[i])) continue;
        add_element(chunk, values_a[i], values_b[i]);
    }
    return chunk;
}

// Adds the differences of a tensor's chunks in the order of the chunks, so that the sum has the
// same bits in every run.
void add_chunks(std::span<const ChunkDifference> chunks, TensorDifference& difference) {
    double sum = 0;
    for (const ChunkDifference& chunk : chunks) {
        difference.n_different += chunk.n_different;
        if (!(chunk.max <= difference.max)) {
            difference.max = std::isnan(difference.max) ? chunk.max + NAN : chunk.max;
        }
        difference.relative = std::max(difference.relative, chunk.relative);
        sum += chunk.sum;
    }
    difference.rms = std::sqrt(sum / static_cast<double>(std::max<i64>(1, difference.n_elements)));
}

bool holds(const TensorSource& source, const TensorInfo& tensor, SliceKind kind) {
    if (kind == SliceKind::master && tensor.dtype == DType::fp32) return true;
    return source.has(kind);
}

// A tensor that is compared: its difference, and its chunks.
struct Comparison {
    TensorDifference difference = {};
    Shape shape = {};
    std::vector<ChunkDifference> chunks = {};
    i64 n_left = 0;  // chunks that are not compared yet
};

// Returns the comparison of a tensor. The comparison has no chunks if the tensors of the two
// checkpoints cannot be compared.
Comparison plan_comparison(const TensorSource& a, const TensorSource& b, const std::string& tensor,
                           SliceKind kind) {
    Comparison comparison;
    TensorDifference& difference = comparison.difference;
    difference.tensor = tensor;
    difference.kind = kind;
    const TensorInfo* in_a = a.find(tensor);
    const TensorInfo* in_b = b.find(tensor);
    const bool has_a = in_a && holds(a, *in_a, kind);
    const bool has_b = in_b && holds(b, *in_b, kind);
    if (!has_a || !has_b) {
        difference.only = "only in " + (has_a ? a : b).path();
    } else if (in_a->shape != in_b->shape) {
        difference.only = "shapes " + in_a->shape.str() + " and " + in_b->shape.str();
    } else {
        comparison.shape = in_a->shape;
        difference.n_elements = in_a->shape.numel();
        comparison.n_left = ceil_div(difference.n_elements, chunk_elements);
        comparison.chunks.resize(static_cast<size_t>(comparison.n_left));
    }
    return comparison;
}

// Compares the chunks of all tensors, several at once, and reports the tensors in the order of the
// tensor table.
class Comparer {
  public:
    Comparer(const TensorSource& a, const TensorSource& b, std::vector<Comparison> comparisons,
             const std::function<void(const TensorDifference&)>& report,
             const std::function<void(i64, i64)>& progress)
        : a_(a),
          b_(b),
          comparisons_(std::move(comparisons)),
          report_(report),
          progress_(progress) {}

    void run() {
        std::vector<std::pair<size_t, i64>> chunks;  // index of a comparison, number of its chunk
        for (size_t i = 0; i < comparisons_.size(); ++i) {
            if (comparisons_[i].n_left > 0) n_elements_ += comparisons_[i].difference.n_elements;
            for (i64 chunk = 0; chunk < comparisons_[i].n_left; ++chunk)
                chunks.emplace_back(i, chunk);
        }
        report_finished();
        io::for_each_block(
            std::ssize(chunks), io::blocks_in_flight, [&](i64 at, io::AlignedBlock&) {
                const auto& [index, chunk] = chunks[static_cast<size_t>(at)];
                Comparison& comparison = comparisons_[index];
                const i64 begin = chunk * chunk_elements;
                const i64 end = std::min(begin + chunk_elements, comparison.difference.n_elements);
                comparison.chunks[static_cast<size_t>(chunk)] =
                    compare_chunk(a_, b_, comparison.difference, comparison.shape, begin, end);
                const std::lock_guard lock(mutex_);
                --comparison.n_left;
                report_finished();
                n_done_ += end - begin;
                if (progress_) progress_(n_done_, n_elements_);
            });
    }

  private:
    // Reports tensors, beginning with number next_, until a tensor has chunks that are not compared
    // yet.
    void report_finished() {
        for (; next_ < comparisons_.size() && comparisons_[next_].n_left == 0; ++next_) {
            Comparison& comparison = comparisons_[next_];
            add_chunks(comparison.chunks, comparison.difference);
            report_(comparison.difference);
            comparison.chunks = {};
        }
    }

    const TensorSource& a_;
    const TensorSource& b_;
    std::vector<Comparison> comparisons_;
    const std::function<void(const TensorDifference&)>& report_;
    const std::function<void(i64, i64)>& progress_;
    i64 n_elements_ = 0;
    std::mutex mutex_;  // guards the members after it
    i64 n_done_ = 0;    // elements
    size_t next_ = 0;   // the comparison that is reported next
};

}  // namespace

void diff(const TensorSource& a, const TensorSource& b, std::span<const SliceKind> kinds,
          const std::function<void(const TensorDifference&)>& report,
          const std::function<void(i64 done, i64 total)>& progress) {
    std::vector<std::string> names;
    for (const TensorInfo& tensor : a.tensors()) names.push_back(tensor.name);
    for (const TensorInfo& tensor : b.tensors()) {
        if (!a.find(tensor.name)) names.push_back(tensor.name);
    }
    std::vector<Comparison> comparisons;
    for (const std::string& name : names) {
        for (const SliceKind kind : kinds) {
            if (!a.has(kind) && !b.has(kind)) continue;
            comparisons.push_back(plan_comparison(a, b, name, kind));
        }
    }
    Comparer(a, b, std::move(comparisons), report, progress).run();
}

}  // namespace lm::ckpt
