// SPDX-License-Identifier: Apache-2.0
#include "train/save/step_plan.hpp"

#include <algorithm>
#include <map>

#include "ckpt/format/rank_pieces.hpp"
#include "ckpt/format/step_files.hpp"
#include "ckpt/history/save.hpp"
#include "parallel/grid.hpp"
#include "parallel/owned_ranges.hpp"

namespace lm::train {
namespace {

// Plans the files that NodeFiles and ckpt::commit_save() write. All digests are zeros of the same
// length as real digests, so that sizes are exact.
class StepPlan {
  public:
    explicit StepPlan(const SavingRun& run)
        : run_(run),
          table_(spec::tensor_table(run.model)),
          tensors_(ckpt::tensors_of(run.model, run.precision.weights)) {}

    std::vector<StepFile> files() {
        const i64 of_part = ckpt::nodes_per_part(n_ranks(), run_.n_nodes);
        for (i64 node = 0; node < run_.n_nodes; node += of_part) {
            ckpt::IndexPart part = plan_node(node);
            const i64 end = std::min(node + of_part, run_.n_nodes);
            for (i64 other = node + 1; other < end; ++other) append(part, plan_node(other));
            add_part(part);
        }
        add_manifest();
        std::ranges::sort(files_, {}, &StepFile::name);
        return files_;
    }

  private:
    i64 n_ranks() const { return run_.parallel.n_ranks(); }

    ckpt::IndexPart plan_node(i64 node) {
        const i64 of_node = n_ranks() / run_.n_nodes;
        std::map<std::string, std::vector<ckpt::DataFile>> shares;  // by name, in order of ranks
        for (i64 rank = node * of_node; rank < (node + 1) * of_node; ++rank) {
            for (ckpt::DataShare& share : ckpt::plan_shares(tensors_, node, pieces_of(rank))) {
                shares[share.file.name].push_back(std::move(share.file));
            }
        }
        ckpt::IndexPart part{.writer = node, .files = {}};
        for (auto& [name, of_ranks] : shares) {
            std::vector<ckpt::DataFile*> files;
            for (ckpt::DataFile& file : of_ranks) files.push_back(&file);
            ckpt::place_shares(files, tensors_);
            part.files.push_back(ckpt::join_shares(files));
        }
        return part;
    }

    std::vector<ckpt::Piece> pieces_of(i64 rank) const {
        const spec::Coordinates at = spec::coordinates_of(run_.parallel, rank);
        const spec::RankLayout layout =
            spec::rank_layout(run_.model, table_, run_.parallel, at.tp, at.pp);
        const std::vector<Range> owned =
            parallel::owned_ranges(layout, table_, run_.parallel, at.dp, run_.bucket_elements);
        const DType weights = run_.precision.weights;
        std::vector<ckpt::StateMemory> states{{ckpt::SliceKind::weight, weights, nullptr, owned}};
        if (is_half(weights))
            states.push_back({ckpt::SliceKind::master, DType::fp32, nullptr, owned});
        for (const auto& [state, ranges] :
             spec::state_ranges(run_.precision.optimizer, table_, layout, owned)) {
            states.push_back({state, state.dtype, nullptr, ranges});
        }
        return ckpt::pieces_of_rank(layout, at.tp, owned, states);
    }

    void add_part(const ckpt::IndexPart& part) {
        const std::string text = ckpt::index_text(part);
        for (const ckpt::DataFile& file : part.files) files_.push_back({file.name, file.size});
        references_.push_back(ckpt::reference_to(part, text));
        files_.push_back({references_.back().file, std::ssize(text)});
    }

    void add_manifest() {
        ckpt::Manifest manifest;
        manifest.model = run_.model;
        manifest.parallel = run_.parallel;
        manifest.tensors = tensors_;
        manifest.index = references_;
        files_.push_back(
            {std::string(ckpt::manifest_file), std::ssize(ckpt::manifest_text(manifest))});
    }

    const SavingRun& run_;
    std::vector<spec::TensorSpec> table_;
    std::vector<ckpt::TensorInfo> tensors_;
    std::vector<ckpt::IndexReference> references_;
    std::vector<StepFile> files_;
};

}  // namespace

std::vector<StepFile> files_of_step(const SavingRun& run) {
    return StepPlan(run).files();
}

}  // namespace lm::train
