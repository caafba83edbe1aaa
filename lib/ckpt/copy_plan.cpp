// SPDX-License-Identifier: Apache-2.0
#include "ckpt/copy_plan.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "base/hash.hpp"
#include "ckpt/index.hpp"
#include "ckpt/safetensors.hpp"

namespace lm::ckpt {
namespace {

using SlicesByEntry = std::map<std::string_view, const Slice*>;

CopyFile file_of(const std::string& directory, const DataFile& data, const SlicesByEntry& slices) {
    const auto reader = SafetensorsReader::open(directory + "/" + data.name);
    const auto data_start = static_cast<i64>(reader.header_bytes().size());
    CopyFile file{data.name, {{data_start, data.header_digest, "its header"}}};
    for (const SafetensorsEntry& entry : reader.entries()) {
        const auto found = slices.find(entry.name);
        if (found == slices.end()) {
            run_error(reader.path(), "corrupt: entry {} belongs to no slice of the index",
                      entry.name);
        }
        const Slice& slice = *found->second;
        file.regions.push_back({data_start + entry.end, slice.checksum,
                                fmt::format("tensor {} ({})", slice.tensor, name_of(slice.kind))});
    }
    return file;
}

// Returns the index part without masters and moments.
IndexPart weights_of(const IndexPart& part, const std::string& directory) {
    IndexPart weights{part.writer, {}, {}};
    std::map<std::string_view, bool> is_weights;
    for (const Slice& slice : part.slices) {
        const bool weight = slice.kind == SliceKind::weight;
        if (!is_weights.emplace(slice.file, weight).second && is_weights[slice.file] != weight) {
            run_error(directory + "/" + slice.file,
                      "holds weights and optimizer state: copy it without --weights-only");
        }
        if (weight) weights.slices.push_back(slice);
    }
    std::ranges::copy_if(part.files, std::back_inserter(weights.files),
                         [&](const DataFile& file) { return is_weights[file.name]; });
    return weights;
}

void add_files(CopyPlan& plan, const IndexPart& part) {
    std::map<std::string_view, SlicesByEntry> slices;
    for (const Slice& slice : part.slices) slices[slice.file][slice.entry] = &slice;
    for (const DataFile& file : part.files) {
        plan.files.push_back(file_of(plan.from, file, slices[file.name]));
    }
}

std::string read_document(const std::string& directory, const IndexReference& reference) {
    const std::string path = directory + "/" + reference.file;
    std::string text = io::read_file(path);
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
    std::string text = io::read_file(path);
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
        if (weights.slices.empty()) continue;
        std::string text = index_text(weights);
        IndexReference reference = reference_to(weights, text, checkpoint.manifest().tensors);
        add_files(plan, weights);
        plan.documents.emplace_back(reference.file, std::move(text));
        manifest.index.push_back(std::move(reference));
    }
    plan.documents.emplace_back(manifest_file, manifest_text(manifest));
}

}  // namespace

i64 CopyPlan::n_bytes() const {
    i64 total = 0;
    for (const CopyFile& file : files) total += file.size();
    return total;
}

CopyPlan plan_copy(const Checkpoint& checkpoint, bool weights_only) {
    CopyPlan plan{checkpoint.path(), {}, {}};
    const bool drops_state = weights_only && std::ranges::any_of(all_kinds, [&](SliceKind kind) {
                                 return kind != SliceKind::weight && checkpoint.has(kind);
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
