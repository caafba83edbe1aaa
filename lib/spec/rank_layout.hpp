// SPDX-License-Identifier: Apache-2.0
// For every tensor, the part that one rank of a (dp, pp, tp) grid has, and the place of this part
// in the rank's flat parameter buffer. Ranks are numbered as in Megatron: the tensor rank varies
// fastest. Padded vocabulary rows exist in memory only. They are zero, the softmax masks them, and
// no checkpoint contains them.
#pragma once

#include <array>
#include <vector>

#include "base/range.hpp"
#include "spec/optimizer_state.hpp"
#include "spec/parallel_config.hpp"
#include "spec/partition.hpp"
#include "spec/tensor_table.hpp"

namespace lm::spec {

// The range [start, end) in each dimension of a tensor's global, unpadded shape.
struct Box {
    Shape start;
    Shape end;
    Shape shape() const;
    friend bool operator==(const Box&, const Box&) = default;
};

struct LocalTensor {
    i64 index = 0;            // index in the tensor table
    Box box;                  // the part that this rank holds
    Shape shape;              // shape in memory: the shape of `box` with padded vocabulary rows
    i64 offset = 0;           // first element in the flat buffer
    i64 unit = 0;             // the unit whose backward completes the gradient
    bool replicated = false;  // every tensor rank holds the same elements
    bool copy = false;        // this is the last stage's copy of a tied embedding
    i64 numel() const { return shape.numel(); }
    i64 end() const { return offset + numel(); }
};

struct RankLayout {
    std::vector<LocalTensor> tensors;  // in table order, ascending offsets
    i64 n_elements = 0;                // elements of the flat buffer with alignment gaps
};

// Blocks of adjacent tensors start at multiples of this many elements. Gaps between blocks are
// zero.
constexpr i64 block_alignment = 32;

// Returns the layout of a rank. `table` is tensor_table(config).
RankLayout rank_layout(const ModelConfig& config, const std::vector<TensorSpec>& table,
                       const ParallelConfig& parallel, i64 tp_rank, i64 pp_rank);

// Returns the number of elements of a rank's flat buffers: layout.n_elements, rounded up so that
// data-parallel ranks get equal parts of whole blocks. The added elements are zero.
i64 flat_elements(const RankLayout& layout, const ParallelConfig& parallel);
i64 flat_elements(i64 n_elements, const ParallelConfig& parallel);

// The elements of a rank's flat buffers for which the rank keeps a state of the optimizer.
struct StateRanges {
    OptimizerState state;
    std::vector<Range> ranges;  // ascending
};

// Returns the states that a rank keeps for the elements `updated` of its flat buffers, in the order
// of states_of(optimizer). The gap after a tensor has the states of the tensor. `table` is
// tensor_table(config).
std::vector<StateRanges> state_ranges(OptimizerKind optimizer, const std::vector<TensorSpec>& table,
                                      const RankLayout& layout, const std::vector<Range>& updated);

// A number of elements on a rank: of the tensors alone, and of the tensors with the gaps that align
// blocks (as RankLayout::n_elements).
struct ElementCount {
    i64 tensors = 0;
    i64 aligned = 0;
    // For each of all_states: the elements of the tensors that have this state, with their gaps.
    std::array<i64, all_states.size()> with_state{};

    void add(const ElementCount& unit);
};

// The elements of each unit of a model on one tensor rank. of() counts the elements of a stage
// without rank_layout(), which is slow because it adds an entry for each tensor. A search over
// layouts calls of() often.
struct RankElements {
    ElementCount embedding;
    std::vector<ElementCount> layers;
    ElementCount head;
    ElementCount head_copy;  // the copy of a tied embedding on the last of several stages
    // Returns the element count of a stage with these parts. It is equal to the count in the
    // rank_layout() of the stage.
    ElementCount of(const std::vector<ModelPart>& parts) const;
};
// The optimizer determines only ElementCount::with_state.
RankElements rank_elements(const ModelConfig& config, const ParallelConfig& parallel, i64 tp_rank,
                           OptimizerKind optimizer = OptimizerKind::adam);

// The heads of a layer on a tensor rank. Between two ranks, n_groups differs by at most 1, and
// n_heads by at most the heads of one group.
struct HeadShare {
    i64 n_heads = 0;
    i64 n_groups = 0;
    i64 first_head = 0;  // global index of local head 0
};
HeadShare head_share(const ModelConfig& config, const LayerConfig& layer,
                     const ParallelConfig& parallel, i64 tp_rank);

// The MLP columns and vocabulary rows of a tensor rank. Between two ranks, ffn differs by at most
// 1. vocab_rows is equal on all ranks.
struct TensorShare {
    i64 ffn = 0;          // columns of the MLP
    i64 vocab_rows = 0;   // rows of the word embedding in memory
    i64 vocab_start = 0;  // global index of row 0
    i64 n_vocab = 0;      // rows that are not padding
};
TensorShare tensor_share(const ModelConfig& config, const ParallelConfig& parallel, i64 tp_rank);

}  // namespace lm::spec
