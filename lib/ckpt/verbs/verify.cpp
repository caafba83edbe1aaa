// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/verify.hpp"

#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>
#include <set>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "base/range.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/data_file.hpp"
#include "ckpt/format/elements.hpp"
#include "ckpt/format/geometry.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/format/safetensors_header.hpp"
#include "io/checked.hpp"
#include "io/file.hpp"

namespace lm::ckpt {
namespace {

// Appends the ranges of elements that a slice covers. The ranges count elements in the row-major
// order of the whole tensor.
void add_ranges(const Slice& slice, const Shape& shape, std::vector<Range>& ranges) {
    for_each_common_run({slice.box, slice.flat_begin, slice.flat_end}, whole(shape),
                        [&](i64, i64 at, i64 n) {
                            append(ranges, Range{at, at + n});
                        });
}

bool is_float(DType dtype) {
    return dtype == DType::fp32 || is_half(dtype);
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

// Returns the problem that an error with the text "FILE: TEXT" describes.
Problem problem_from(const Error& error) {
    const std::string text = error.what();
    constexpr std::string_view separator = ": ";
    const size_t end = text.find(separator);
    if (end == text.npos) return {.file = {}, .text = text};
    return {.file = text.substr(0, end), .text = text.substr(end + separator.size())};
}

class Verifier {
  public:
    // `progress`: see verify_share().
    Verifier(const Checkpoint& checkpoint, Verification& result,
             const std::function<bool(i64)>& progress)
        : checkpoint_(checkpoint), result_(result), progress_(progress) {}

    void run() {
        check_table();
        check_coverage();
        check_tokenizer();
        check_files({});
    }

    void check_tokenizer() {
        for (const TokenizerFile& file : checkpoint_.manifest().tokenizer.files) {
            try {
                (void)read_tokenizer_files(checkpoint_.path(), {file});
            } catch (const DamageError& error) {
                problem(problem_from(error));
            }
        }
    }

    // Checks every share.count-th file header and unit of the files in the open index parts,
    // starting with number share.index.
    void check_files(const Share& share) {
        const auto is_own = [&share](size_t number) {
            return static_cast<i64>(number) % share.count == share.index;
        };
        std::vector<const DataFile*> files;
        std::vector<UnitOf> units;
        size_t n_units = 0;
        for (const IndexPart& part : checkpoint_.parts()) {
            for (const DataFile& file : part.files) {
                if (is_own(files.size())) check_header(file);
                files.push_back(&file);
                for (const FileUnit& unit : units_of(file)) {
                    if (is_own(n_units++)) units.emplace_back(&file, unit);
                }
                result_.n_slices += std::ssize(file.slices);
            }
        }
        check_data(units);
    }

  private:
    using UnitOf = std::pair<const DataFile*, FileUnit>;

    void problem(Problem found) { result_.problems.push_back(std::move(found)); }

    // Returns a problem that names the file and the slice.
    Problem problem_of(const DataFile& file, const Slice& slice, std::string text) const {
        return {.file = checkpoint_.path_of(file),
                .tensor = checkpoint_.manifest().tensors[static_cast<size_t>(slice.tensor)].name,
                .kind = std::string(name_of(slice.kind)),
                .text = std::move(text)};
    }

    // Compares the tensor table of the manifest with the table that its model configuration
    // defines.
    void check_table() {
        const Manifest& manifest = checkpoint_.manifest();
        const auto table = spec::tensor_table(manifest.model);
        result_.n_tensors = static_cast<i64>(manifest.tensors.size());
        if (table.size() != manifest.tensors.size()) {
            problem({.file = checkpoint_.path(),
                     .text = fmt::format("has {} tensors, but its configuration needs {}",
                                         manifest.tensors.size(), table.size())});
        }
        for (const spec::TensorSpec& tensor : table) {
            const TensorInfo* info = checkpoint_.find(tensor.name);
            if (!info) {
                problem({.file = checkpoint_.path(), .tensor = tensor.name, .text = "is missing"});
            } else if (info->shape != tensor.shape) {
                problem({.file = checkpoint_.path(),
                         .tensor = tensor.name,
                         .text = fmt::format("has shape {}, but the configuration needs {}",
                                             info->shape.str(), tensor.shape.str())});
            }
        }
    }

    void check_coverage() {
        const std::vector<TensorInfo>& tensors = checkpoint_.manifest().tensors;
        std::map<std::pair<i64, SliceKind>, std::vector<Range>> ranges;
        for (const IndexPart& part : checkpoint_.parts()) {
            for (const DataFile& file : part.files) {
                for (const Slice& slice : file.slices) {
                    add_ranges(slice, tensors[static_cast<size_t>(slice.tensor)].shape,
                               ranges[{slice.tensor, slice.kind}]);
                }
            }
        }
        for (auto& [key, list] : ranges) {
            const TensorInfo& tensor = tensors[static_cast<size_t>(key.first)];
            const i64 n = tensor.shape.numel();
            const std::string fault = tiling_fault(list, n);
            if (fault.empty()) continue;
            problem({.file = checkpoint_.path(),
                     .tensor = tensor.name,
                     .kind = std::string(name_of(key.second)),
                     .text = fault});
        }
    }

    // Checks that the header matches its digest and has the entries that the index lists. Throws
    // the error of a failed read.
    void check_header(const DataFile& file) {
        const std::string path = checkpoint_.path_of(file);
        std::vector<std::byte> bytes(static_cast<size_t>(file.header_bytes));
        io::checked::read_at(io::open_read(path).get(), path, bytes, 0);
        if (digest(bytes) != file.header_digest) {
            problem({.file = path,
                     .text = "its header does not match its digest in the index: corrupt or "
                             "edited: use another step"});
            return;
        }
        std::set<std::pair<i64, i64>> entries;
        try {
            const SafetensorsHeader header = parse_safetensors_header(bytes, file.size, path);
            for (const SafetensorsEntry& entry : header.entries) {
                entries.emplace(entry.begin + file.header_bytes, entry.end + file.header_bytes);
            }
        } catch (const Error& error) {
            return problem(problem_from(error));
        }
        for (const Slice& slice : file.slices) {
            if (entries.contains({slice.offset, slice.end()})) continue;
            problem(problem_of(file, slice,
                               fmt::format("its header has no entry for bytes {} to {}: corrupt",
                                           slice.offset, slice.end())));
        }
    }

    // Reads the units, several at once. Lists the problems in the order of the units.
    void check_data(const std::vector<UnitOf>& units) {
        std::vector<UnitResult> results(units.size());
        std::mutex mutex;
        std::atomic<bool> stopped{false};
        io::for_each_block(static_cast<i64>(units.size()), io::blocks_in_flight,
                           [&](i64 at, io::AlignedBlock& block) {
                               if (stopped) return;
                               const auto& [file, unit] = units[static_cast<size_t>(at)];
                               check_unit(*file, unit, block, results[static_cast<size_t>(at)]);
                               const std::lock_guard lock(mutex);
                               result_.n_bytes += unit.end - unit.begin;
                               if (progress_ && !progress_(result_.n_bytes)) stopped = true;
                           });
        for (size_t at = 0; at < units.size(); ++at) {
            for (Problem& found : results[at].problems) problem(std::move(found));
            for (const auto& [slice, n] : results[at].non_finite) non_finite_[slice] += n;
            const auto& [file, unit] = units[at];
            // The next unit may have another block of the same slice.
            const bool continues = at + 1 < units.size() && units[at + 1].first == file &&
                                   units[at + 1].second.first == unit.first;
            if (!continues) report_non_finite(*file, unit);
        }
    }

    struct UnitResult {
        std::vector<Problem> problems;
        std::vector<std::pair<const Slice*, i64>> non_finite;
    };

    void check_unit(const DataFile& file, const FileUnit& unit, io::AlignedBlock& block,
                    UnitResult& result) const {
        const auto bytes = checkpoint_.read(file, unit.begin, unit.padded_end, block);
        const auto part = [&](i64 begin, i64 end) {
            return bytes.subspan(static_cast<size_t>(begin - unit.begin),
                                 static_cast<size_t>(end - begin));
        };
        for (size_t at = unit.first; at < unit.last; ++at) {
            const Slice& slice = file.slices[at];
            const auto data =
                part(std::max(slice.offset, unit.begin), std::min(slice.end(), unit.end));
            if (hash128(data) != file.digest_of(slice, unit.block)) {
                result.problems.push_back(problem_of(
                    file, slice,
                    "checksum mismatch: corrupt: use another step (see lm-ckpt latest)"));
            }
            const i64 n = is_float(slice.dtype) ? count_non_finite(data, slice.dtype) : 0;
            if (n > 0) result.non_finite.emplace_back(&slice, n);
        }
        if (std::ranges::any_of(part(unit.end, unit.padded_end),
                                [](std::byte byte) { return byte != std::byte{0}; })) {
            result.problems.push_back(
                {.file = checkpoint_.path_of(file),
                 .text = fmt::format("padding after byte {} is not zero: corrupt", unit.end)});
        }
    }

    // Adds a problem for each slice of `unit` with NaNs or infinities. Call it after all blocks of
    // these slices were checked.
    void report_non_finite(const DataFile& file, const FileUnit& unit) {
        for (size_t at = unit.first; at < unit.last; ++at) {
            const Slice& slice = file.slices[at];
            const auto found = non_finite_.find(&slice);
            if (found == non_finite_.end()) continue;
            result_.n_non_finite += found->second;
            problem(problem_of(
                file, slice,
                fmt::format("{} of {} numbers are not finite", found->second, slice.numel())));
        }
    }

    std::map<const Slice*, i64> non_finite_;
    const Checkpoint& checkpoint_;
    Verification& result_;
    const std::function<bool(i64)>& progress_;
};

}  // namespace

std::string Problem::line() const {
    std::string line = file;
    const auto add = [&line](const std::string& part) {
        line += (line.empty() ? "" : ": ") + part;
    };
    if (!tensor.empty()) {
        add(kind.empty() ? "tensor " + tensor : fmt::format("tensor {} ({})", tensor, kind));
    }
    add(text);
    return line;
}

Verification verify(const std::string& step_path, const std::function<void(i64)>& progress) {
    const std::function<bool(i64)> continuing = [&progress](i64 n_bytes) {
        if (progress) progress(n_bytes);
        return true;
    };
    for (;;) {
        Verification result;
        try {
            const auto checkpoint = Checkpoint::open(step_path);
            Verifier(checkpoint, result, continuing).run();
            // A training that replaces the step meanwhile leaves a mixture of two undamaged steps.
            if (!result.problems.empty() && !checkpoint.is_current()) continue;
        } catch (const DamageError& error) {
            result.problems.push_back(problem_from(error));
        }
        return result;
    }
}

Verification verify_share(const std::string& step_path, const Share& share,
                          std::string_view manifest, const std::function<bool(i64)>& progress) {
    Verification result;
    try {
        const i64 n_parts = std::ssize(parse_manifest(manifest, step_path).index);
        // Ranks of the same group open the same index parts, and divide the files of these parts.
        const i64 n_groups = std::clamp<i64>(n_parts, 1, share.count);
        const i64 group = share.index % n_groups;
        const Share within{share.index / n_groups, ceil_div(share.count - group, n_groups)};
        const auto checkpoint = Checkpoint::open(step_path, {group, n_groups}, manifest);
        Verifier verifier(checkpoint, result, progress);
        if (share.index == 0) verifier.check_tokenizer();
        verifier.check_files(within);
    } catch (const DamageError& error) {
        result.problems.push_back(problem_from(error));
    }
    return result;
}

}  // namespace lm::ckpt
