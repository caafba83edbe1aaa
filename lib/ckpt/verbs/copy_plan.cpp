// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/copy_plan.hpp"

#include <algorithm>
#include <iterator>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/index.hpp"

namespace lm::ckpt {
namespace {

// Returns a copy of the index part that lists only weights.
IndexPart weights_of(const IndexPart& part, const std::string& directory) {
    IndexPart weights{part.writer, {}};
    const auto is_weight = [](const Slice& slice) { return slice.kind == SliceKind::weight; };
    for (const DataFile& file : part.files) {
        if (std::ranges::none_of(file.slices, is_weight)) continue;
        if (!std::ranges::all_of(file.slices, is_weight)) {
            run_error(directory + "/" + file.name,
                      "holds weights and optimizer state in one file, so its optimizer state "
                      "cannot be dropped: keep or copy the whole step");
        }
        weights.files.push_back(file);
    }
    return weights;
}

void add_files(CopyPlan& plan, const IndexPart& part) {
    std::ranges::copy(part.files, std::back_inserter(plan.files));
}

std::string read_document(const std::string& directory, const IndexReference& reference) {
    const std::string path = directory + "/" + reference.file;
    std::string text = read_step_file(path);
    if (digest(text) != reference.digest) {
        run_error(path,
                  "does not match its digest in {}: it was replaced after the step was opened: "
                  "copy again",
                  manifest_file);
    }
    return text;
}

void plan_all(CopyPlan& plan, const Checkpoint& checkpoint) {
    const std::string path = fmt::format("{}/{}", plan.from, manifest_file);
    std::string text = read_step_file(path);
    const Manifest manifest = parse_manifest(text, path);
    for (const IndexReference& reference : manifest.index) {
        plan.documents.emplace_back(reference.file, read_document(plan.from, reference));
    }
    for (const IndexPart& part : checkpoint.parts()) add_files(plan, part);
    plan.documents.emplace_back(manifest_file, std::move(text));
}

void plan_weights(CopyPlan& plan, const Checkpoint& checkpoint) {
    Manifest manifest = checkpoint.manifest();
    manifest.index.clear();
    for (size_t at = 0; at < checkpoint.parts().size(); ++at) {
        const IndexPart weights = weights_of(checkpoint.parts()[at], plan.from);
        if (weights.files.empty()) continue;
        std::string text = index_text(weights);
        IndexReference reference = reference_to(weights, text);
        add_files(plan, weights);
        plan.documents.emplace_back(reference.file, std::move(text));
        manifest.index.push_back(std::move(reference));
    }
    plan.documents.emplace_back(manifest_file, manifest_text(manifest));
}

}  // namespace

i64 CopyPlan::n_bytes() const {
    i64 total = 0;
    for (const DataFile& file : files) total += file.size;
    return total;
}

CopyPlan plan_copy(const Checkpoint& checkpoint, bool weights_only) {
    CopyPlan plan{checkpoint, checkpoint.path(), {}, {}};
    const std::vector<KindTotal> kinds = checkpoint.manifest().totals().kinds;
    const bool drops_state = weights_only && std::ranges::any_of(kinds, [](const KindTotal& total) {
                                 return total.kind != SliceKind::weight;
                             });
    drops_state ? plan_weights(plan, checkpoint) : plan_all(plan, checkpoint);
    return plan;
}

bool is_copied(const CopyPlan& plan, const std::string& path) {
    const auto& [name, text] = plan.documents.back();
    const std::string file = path + "/" + name;
    return io::exists(file) && io::read_file(file) == text;
}

}  // namespace lm::ckpt
