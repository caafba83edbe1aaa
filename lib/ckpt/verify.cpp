// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verify.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/range.hpp"
#include "ckpt/elements.hpp"
#include "ckpt/geometry.hpp"
#include "ckpt/index.hpp"

namespace lm::ckpt {
namespace {

// Appends the ranges of a slice in the row-major order of its whole tensor.
void add_ranges(const Slice& slice, const Shape& shape, std::vector<Range>& ranges) {
    for_each_common_run({slice.box, slice.flat_begin, slice.flat_end}, whole(shape),
                        [&](i64, i64 at, i64 n) {
                            append(ranges, Range{at, at + n});
                        });
}

// Returns a description of the first gap or overlap; empty when the ranges cover [0, n) exactly
// once.
std::string tiling_fault(std::vector<Range>& ranges, i64 n) {
    std::ranges::sort(ranges, {}, &Range::begin);
    i64 expected = 0;
    for (const Range& range : ranges) {
        if (range.begin > expected) return fmt::format("element {} is in no slice", expected);
        if (range.begin < expected) return fmt::format("element {} is in two slices", range.begin);
        expected = range.end;
    }
    return expected == n ? "" : fmt::format("element {} is in no slice", expected);
}

class Verifier {
  public:
    Verifier(const Checkpoint& checkpoint, Verification& result,
             const std::function<void(i64)>& progress)
        : checkpoint_(checkpoint), result_(result), progress_(progress) {}

    void run() {
        check_table();
        check_coverage();
        for (const IndexPart& part : checkpoint_.parts()) {
            for (const Slice& slice : part.slices) check_slice(slice);
        }
    }

  private:
    void problem(std::string text) { result_.problems.push_back(std::move(text)); }

    // Checks that the tensor table is the one of the model configuration.
    void check_table() {
        const Manifest& manifest = checkpoint_.manifest();
        const auto table = spec::tensor_table(manifest.model);
        result_.n_tensors = static_cast<i64>(manifest.tensors.size());
        if (table.size() != manifest.tensors.size()) {
            problem(fmt::format("{}: {} tensors, its configuration needs {}", checkpoint_.path(),
                                manifest.tensors.size(), table.size()));
        }
        for (const spec::TensorSpec& tensor : table) {
            const TensorInfo* info = checkpoint_.find(tensor.name);
            if (!info) {
                problem(fmt::format("{}: tensor {} is missing", checkpoint_.path(), tensor.name));
            } else if (info->shape != tensor.shape) {
                problem(fmt::format("{}: tensor {} has shape {}, its configuration needs {}",
                                    checkpoint_.path(), tensor.name, info->shape.str(),
                                    tensor.shape.str()));
            }
        }
    }

    void check_coverage() {
        std::map<std::pair<std::string, SliceKind>, std::vector<Range>> ranges;
        for (const IndexPart& part : checkpoint_.parts()) {
            for (const Slice& slice : part.slices) {
                add_ranges(slice, checkpoint_.find(slice.tensor)->shape,
                           ranges[{slice.tensor, slice.kind}]);
            }
        }
        for (auto& [key, list] : ranges) {
            const i64 n = checkpoint_.find(key.first)->shape.numel();
            const std::string fault = tiling_fault(list, n);
            if (fault.empty()) continue;
            problem(fmt::format("{}: tensor {} ({}): {}", checkpoint_.path(), key.first,
                                name_of(key.second), fault));
        }
    }

    void check_slice(const Slice& slice) {
        const std::span<const std::byte> bytes = checkpoint_.bytes(slice);
        ++result_.n_slices;
        try {
            checkpoint_.check(slice);
        } catch (const Error& error) {
            problem(error.what());
        }
        const i64 n = count_non_finite(bytes, slice.dtype);
        if (n > 0) {
            problem(fmt::format("{}/{}: tensor {} ({}): {} of {} numbers are not finite",
                                checkpoint_.path(), slice.file, slice.tensor, name_of(slice.kind),
                                n, slice.numel()));
        }
        result_.n_non_finite += n;
        result_.n_bytes += static_cast<i64>(bytes.size());
        if (progress_) progress_(result_.n_bytes);
    }

    const Checkpoint& checkpoint_;
    Verification& result_;
    const std::function<void(i64)>& progress_;
};

}  // namespace

Verification verify(const std::string& step_path, const std::function<void(i64)>& progress) {
    Verification result;
    try {
        const auto checkpoint = Checkpoint::open(step_path);
        Verifier(checkpoint, result, progress).run();
    } catch (const Error& error) {
        if (error.code() == Exit::bug) throw;
        result.problems.emplace_back(error.what());
    }
    return result;
}

}  // namespace lm::ckpt
