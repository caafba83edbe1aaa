// SPDX-License-Identifier: Apache-2.0
#include "preprocess/output_assembly.hpp"

#include <algorithm>

#include "base/threads.hpp"
#include "data/indexed/dataset_assembly.hpp"
#include "io/checked.hpp"
#include "io/json.hpp"

namespace lm::preprocess {
namespace {

constexpr i64 max_threads = 8;  // more threads do not make a file system faster

using Outputs = std::vector<data::DatasetAssembly>;          // [keys]
using BlockDigests = std::vector<std::vector<std::string>>;  // [keys][blocks]

Outputs make_outputs(const AssemblyTask& task, const std::vector<PartRecord>& records) {
    Outputs outputs;
    for (size_t k = 0; k < task.work.n_keys(); ++k) {
        std::vector<data::PartState> parts;
        for (const PartRecord& record : records) parts.push_back(record.keys[k]);
        outputs.emplace_back(std::move(parts), task.type, task.work.assembled(k, ".bin"),
                             task.work.assembled(k, ".idx"));
    }
    return outputs;
}

// Copies the parts to their places. If there is only one part, renames its .bin instead.
void place_parts(const AssemblyTask& task, Outputs& outputs, ThreadPool& pool) {
    const bool is_single = task.plan.n_parts == 1;
    for (size_t k = 0; k < outputs.size(); ++k) {
        pool.run(task.plan.n_parts, [&](i64 part, int) {
            const std::string stem = task.work.part_stem(part, k);
            outputs[k].place(part, stem, !is_single);
            if (is_single)
                io::checked::rename(data::DatasetPart::bin_of(stem),
                                    task.work.assembled(k, ".bin"));
        });
    }
}

BlockDigests digest_blocks(const Outputs& outputs, ThreadPool& pool) {
    BlockDigests digests;
    for (const data::DatasetAssembly& output : outputs) {
        std::vector<std::string>& blocks =
            digests.emplace_back(static_cast<size_t>(output.n_blocks()));
        pool.run(output.n_blocks(), [&](i64 block, int) {
            blocks[static_cast<size_t>(block)] = output.block_digest(block);
        });
    }
    return digests;
}

void write_metadata(const AssemblyTask& task, const Outputs& outputs, const BlockDigests& digests) {
    for (size_t k = 0; k < outputs.size(); ++k) {
        data::DatasetMetadata metadata = task.metadata;
        outputs[k].fill_in(metadata, digests[k]);
        io::write_file(task.work.assembled(k, ".json"), metadata.to_json(), io::Overwrite::yes);
    }
    io::write_file(task.work.file("complete"), "", io::Overwrite::yes);
}

}  // namespace

void assemble_outputs(const AssemblyTask& task, const std::vector<PartRecord>& records) {
    Outputs outputs = make_outputs(task, records);
    ThreadPool pool(static_cast<int>(std::min<i64>(task.n_threads, max_threads)));
    place_parts(task, outputs, pool);
    write_metadata(task, outputs, digest_blocks(outputs, pool));
}

void restore_part_bin(const WorkDirectory& work, const InputPlan& plan, i64 part) {
    if (plan.n_parts > 1) return;
    for (size_t k = 0; k < work.n_keys(); ++k) {
        const std::string bin = data::DatasetPart::bin_of(work.part_stem(part, k));
        if (!io::exists(bin) && io::exists(work.assembled(k, ".bin")))
            io::checked::rename(work.assembled(k, ".bin"), bin);
    }
}

}  // namespace lm::preprocess
