// SPDX-License-Identifier: Apache-2.0
#include "train/start/layout_text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "base/units.hpp"
#include "comm/operation.hpp"
#include "parallel/grid.hpp"

namespace lm::train {
namespace {

std::string ranks_where(const spec::ParallelConfig& parallel,
                        const std::function<bool(const spec::Coordinates&)>& holds) {
    const i64 n_ranks = parallel.n_ranks();
    std::vector<int> ranks;
    for (i64 rank = 0; rank < n_ranks; ++rank) {
        if (holds(spec::coordinates_of(parallel, rank))) {
            ranks.push_back(static_cast<int>(rank));
        }
    }
    return comm::ranks_text(ranks, static_cast<int>(n_ranks));
}

// Returns "7" or "0-5".
std::string span_text(i64 begin, i64 end) {
    if (end <= begin) return "none";
    return end - begin == 1 ? fmt::format("{}", begin) : fmt::format("{}-{}", begin, end - 1);
}

std::string stage_text(const spec::ModelConfig& model, const spec::ParallelConfig& parallel,
                       i64 stage) {
    std::string text;
    for (i64 chunk = 0; chunk < parallel.n_chunks; ++chunk) {
        const spec::ModelPart part = spec::model_part(model, parallel, stage, chunk);
        if (part.embedding) text += "embedding, ";
        text += fmt::format("layer{} {}, ", part.end_layer - part.first_layer == 1 ? "" : "s",
                            span_text(part.first_layer, part.end_layer));
        if (part.head) text += "head, ";
    }
    return text.substr(0, text.size() - 2);
}

i64 fullest_bytes(const RunConfig& config, i64 stage) {
    const TrainerConfig& trainer = config.trainer;
    const cost::StepShape step{trainer.micro_batch, trainer.model.seq_length,
                               trainer.n_micro_batches};
    i64 most = 0;
    for (i64 tp = 0; tp < trainer.parallel.tp; ++tp) {
        most = std::max(most, cost::plan_memory(trainer.model, trainer.parallel, step,
                                                trainer.precision, trainer.processor(), tp, stage)
                                  .total());
    }
    return most;
}

}  // namespace

std::vector<LayoutLine> describe_layout(const RunConfig& config) {
    const spec::ModelConfig& model = config.trainer.model;
    const spec::ParallelConfig& parallel = config.trainer.parallel;
    std::vector<LayoutLine> lines;
    for (i64 stage = 0; stage < parallel.pp; ++stage) {
        lines.push_back(
            {fmt::format("stage {}", stage),
             fmt::format("{}: {}; {}",
                         ranks_where(parallel, [stage](const auto& at) { return at.pp == stage; }),
                         stage_text(model, parallel, stage),
                         human_size(fullest_bytes(config, stage)))});
    }
    for (i64 tp = 0; parallel.tp > 1 && tp < parallel.tp; ++tp) {
        const spec::TensorShare share = spec::tensor_share(model, parallel, tp);
        const spec::HeadShare heads = spec::head_share(model, model.layer(0), parallel, tp);
        i64 first_ffn = 0;
        for (i64 before = 0; before < tp; ++before) {
            first_ffn += spec::tensor_share(model, parallel, before).ffn;
        }
        lines.push_back(
            {fmt::format("tensor {}", tp),
             fmt::format("{}: heads {}, ffn {}, vocabulary {}",
                         ranks_where(parallel, [tp](const auto& at) { return at.tp == tp; }),
                         span_text(heads.first_head, heads.first_head + heads.n_heads),
                         span_text(first_ffn, first_ffn + share.ffn),
                         span_text(share.vocab_start, share.vocab_start + share.n_vocab))});
    }
    return lines;
}

}  // namespace lm::train
