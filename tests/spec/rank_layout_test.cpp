// SPDX-License-Identifier: Apache-2.0
// The tensor table and its division over ranks: names, order, parts, vocabulary padding.
#include "spec/rank_layout.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <random>
#include <set>

#include "base/error.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::spec;

namespace {

ModelConfig small_gpt() {
    ModelConfig config;
    config.n_layers = 5;
    config.hidden = 24;
    config.n_heads = 6;
    config.seq_length = 10;
    config.vocab_size = 101;
    config.resolve();
    return config;
}

ModelConfig small_llama() {
    ModelConfig config;
    config.n_layers = 7;
    config.hidden = 40;
    config.n_heads = 12;
    config.n_groups = 4;
    config.head_dim = 6;
    config.ffn_hidden = 28;
    config.seq_length = 16;
    config.vocab_size = 77;
    config.position = PositionEmbedding::rope;
    config.normalization = Normalization::rms_norm;
    config.activation = Activation::swiglu;
    config.untied_head = true;
    config.linear_bias = false;
    config.resolve();
    return config;
}

ModelConfig small_bloom() {
    ModelConfig config = small_gpt();
    config.position = PositionEmbedding::alibi;
    config.embedding_norm = true;
    return config;
}

std::vector<std::string> names_of(const std::vector<TensorSpec>& table) {
    std::vector<std::string> names;
    for (const TensorSpec& tensor : table) names.push_back(tensor.name);
    return names;
}

// Returns the weight of the heaviest stage, for stages that start at `cuts`.
double heaviest(const UnitWeights& weights, const std::vector<i64>& cuts) {
    double most = 0;
    for (size_t i = 0; i + 1 < cuts.size(); ++i) {
        const double layers = weights.before[static_cast<size_t>(cuts[i + 1])] -
                              weights.before[static_cast<size_t>(cuts[i])];
        const double edges =
            (i == 0 ? weights.embedding : 0) + (i + 2 == cuts.size() ? weights.head : 0);
        most = std::max(most, layers + edges);
    }
    return most;
}

// Returns the smallest heaviest() of all divisions.
double least_heaviest(const UnitWeights& weights, i64 n_stages) {
    const i64 n_layers = std::ssize(weights.before) - 1;
    double least = INFINITY;
    // Bit i - 1 is set when a stage starts at layer i.
    for (u64 bits = 0; bits < u64{1} << (n_layers - 1); ++bits) {
        std::vector<i64> cuts{0};
        for (i64 i = 1; i < n_layers; ++i) {
            if ((bits >> (i - 1) & 1) != 0) cuts.push_back(i);
        }
        cuts.push_back(n_layers);
        if (std::ssize(cuts) == n_stages + 1) least = std::min(least, heaviest(weights, cuts));
    }
    return least;
}

bool is_sharded(const TensorSpec& tensor) {
    return tensor.vocab_rows || tensor.cut.dim >= 0;
}

// Increments the count of every element of `box`.
void count_box(const TensorSpec& tensor, const Box& box, std::vector<int>& counts) {
    const bool matrix = tensor.shape.rank() == 2;
    const i64 cols = matrix ? tensor.shape[1] : 1;
    const i64 first_col = matrix ? box.start[1] : 0;
    const i64 last_col = matrix ? box.end[1] : 1;
    for (i64 row = box.start[0]; row < box.end[0]; ++row) {
        for (i64 col = first_col; col < last_col; ++col) {
            ++counts[static_cast<size_t>(row * cols + col)];
        }
    }
}

// Checks that one tensor rank holds each element of a divided tensor, and that all tensor ranks
// hold each element of a replicated tensor. The last stage also holds a copy of a tied head. Checks
// that rank_elements() counts as many elements.
void check_held_once(const ModelConfig& config, const ParallelConfig& parallel) {
    const std::vector<TensorSpec> table = tensor_table(config);
    std::map<i64, std::vector<int>> counts;
    for (i64 pp_rank = 0; pp_rank < parallel.pp; ++pp_rank) {
        for (i64 tp_rank = 0; tp_rank < parallel.tp; ++tp_rank) {
            const RankLayout layout = rank_layout(config, table, parallel, tp_rank, pp_rank);
            i64 n_elements = 0;
            for (const LocalTensor& local : layout.tensors) {
                const TensorSpec& tensor = table[static_cast<size_t>(local.index)];
                std::vector<int>& of_tensor = counts[local.index];
                of_tensor.resize(static_cast<size_t>(tensor.shape.numel()));
                count_box(tensor, local.box, of_tensor);
                n_elements += local.numel();
            }
            const ElementCount count =
                rank_elements(config, parallel, tp_rank).of(stage_parts(config, parallel, pp_rank));
            CHECK(count.tensors == n_elements);
            CHECK(count.aligned == layout.n_elements);
            const std::vector<Range> all{{0, layout.n_elements}};
            for (const StateRanges& held : state_ranges(OptimizerKind::adam, table, layout, all)) {
                const auto place = std::ranges::find(all_states, held.state) - all_states.begin();
                CHECK(count.with_state[static_cast<size_t>(place)] == total_size(held.ranges));
            }
        }
    }
    REQUIRE(counts.size() == table.size());
    for (const auto& [index, of_tensor] : counts) {
        const TensorSpec& tensor = table[static_cast<size_t>(index)];
        CAPTURE(tensor.name);
        i64 expected = is_sharded(tensor) ? 1 : parallel.tp;
        if (tensor.tied_head && parallel.pp > 1) expected *= 2;
        CHECK(std::ranges::all_of(of_tensor, [expected](int n) { return n == expected; }));
    }
}

// Checks that tensors are in table order without overlap, that tensors of a block are adjacent, and
// that blocks start aligned.
void check_offsets(const std::vector<TensorSpec>& table, const RankLayout& layout) {
    i64 end = 0;
    std::string block;
    for (const LocalTensor& local : layout.tensors) {
        const TensorSpec& tensor = table[static_cast<size_t>(local.index)];
        CAPTURE(tensor.name);
        if (!block.empty() && tensor.block == block) {
            CHECK(local.offset == end);
        } else {
            CHECK(local.offset == round_up(end, block_alignment));
        }
        block = tensor.block;
        end = local.end();
    }
    CHECK(layout.n_elements == round_up(end, block_alignment));
}

}  // namespace

TEST_CASE("the tensor table of GPT-2") {
    ModelConfig config = small_gpt();
    config.n_layers = 1;
    CHECK(names_of(tensor_table(config)) ==
          std::vector<std::string>{"embedding.word.weight",
                                   "embedding.position.weight",
                                   "layers.0.attention.norm.weight",
                                   "layers.0.attention.norm.bias",
                                   "layers.0.attention.query.weight",
                                   "layers.0.attention.key.weight",
                                   "layers.0.attention.value.weight",
                                   "layers.0.attention.query.bias",
                                   "layers.0.attention.key.bias",
                                   "layers.0.attention.value.bias",
                                   "layers.0.attention.output.weight",
                                   "layers.0.attention.output.bias",
                                   "layers.0.mlp.norm.weight",
                                   "layers.0.mlp.norm.bias",
                                   "layers.0.mlp.up.weight",
                                   "layers.0.mlp.up.bias",
                                   "layers.0.mlp.down.weight",
                                   "layers.0.mlp.down.bias",
                                   "final_norm.weight",
                                   "final_norm.bias"});
}

TEST_CASE("the tensor table of Llama") {
    ModelConfig config = small_llama();
    config.n_layers = 1;
    const std::vector<TensorSpec> table = tensor_table(config);
    CHECK(names_of(table) == std::vector<std::string>{
                                 "embedding.word.weight", "layers.0.attention.norm.weight",
                                 "layers.0.attention.query.weight", "layers.0.attention.key.weight",
                                 "layers.0.attention.value.weight",
                                 "layers.0.attention.output.weight", "layers.0.mlp.norm.weight",
                                 "layers.0.mlp.gate.weight", "layers.0.mlp.up.weight",
                                 "layers.0.mlp.down.weight", "final_norm.weight", "head.weight"});
    CHECK(table[2].shape == Shape{72, 40});
    CHECK(table[3].shape == Shape{24, 40});
    CHECK(table[5].shape == Shape{40, 72});
    CHECK(table[7].block == table[8].block);
    CHECK(table.back().vocab_rows);
    CHECK_FALSE(table.front().tied_head);
}

TEST_CASE("matrices decay, norms and biases do not; output projections start smaller") {
    for (const ModelConfig& config : {small_gpt(), small_llama(), small_bloom()}) {
        std::set<std::string> names;
        for (const TensorSpec& tensor : tensor_table(config)) {
            CAPTURE(tensor.name);
            CHECK(names.insert(tensor.name).second);
            CHECK(tensor.weight_decay == (tensor.shape.rank() == 2));
            if (tensor.shape.rank() == 2) {
                const bool branch =
                    tensor.name.ends_with("output.weight") || tensor.name.ends_with("down.weight");
                const double depth = 2.0 * static_cast<double>(config.n_layers);
                CHECK(tensor.init_std == Approx(branch ? 0.02 / std::sqrt(depth) : 0.02));
            } else {
                const bool scale = tensor.name.ends_with("norm.weight");
                CHECK(tensor.init == (scale ? Init::ones : Init::zeros));
            }
        }
    }
}

TEST_CASE("every grid holds each element once per replica") {
    for (i64 tp : {1, 2, 3, 6}) {
        for (i64 pp : {1, 2, 3, 5}) {
            CAPTURE(tp, pp);
            const ParallelConfig parallel{.tp = tp, .pp = pp, .vocab_divisible_by = 4};
            check_held_once(small_gpt(), parallel);
            check_held_once(small_bloom(), parallel);
        }
    }
    check_held_once(small_gpt(), {.tp = 2, .pp = 2, .vocab_divisible_by = 4, .n_chunks = 2});
    for (i64 tp : {1, 2, 4}) {
        for (i64 pp : {1, 3, 7}) {
            CAPTURE(tp, pp);
            check_held_once(small_llama(), {.tp = tp, .pp = pp, .vocab_divisible_by = 1});
        }
    }
}

TEST_CASE("flat buffers: in order, aligned, blocks adjacent") {
    for (const ModelConfig& config : {small_gpt(), small_llama(), small_bloom()}) {
        const std::vector<TensorSpec> table = tensor_table(config);
        for (i64 pp_rank = 0; pp_rank < 3; ++pp_rank) {
            const ParallelConfig parallel{.tp = 2, .pp = 3};
            check_offsets(table, rank_layout(config, table, parallel, 1, pp_rank));
        }
    }
}

TEST_CASE("tensor ranks hold whole heads with their groups") {
    const ModelConfig config = small_llama();
    const std::vector<TensorSpec> table = tensor_table(config);
    for (i64 rank = 0; rank < 4; ++rank) {
        const RankLayout layout = rank_layout(config, table, {.tp = 4}, rank, 0);
        for (const LocalTensor& local : layout.tensors) {
            const std::string& name = table[static_cast<size_t>(local.index)].name;
            if (name == "layers.0.attention.query.weight") {
                CHECK(local.box.start == Shape{rank * 18, 0});
            }
            if (name == "layers.0.attention.key.weight") {
                CHECK(local.box.start == Shape{rank * 6, 0});
            }
            if (name == "layers.0.attention.output.weight") {
                CHECK(local.box == Box{{0, rank * 18}, {40, rank * 18 + 18}});
            }
        }
    }
}

TEST_CASE("stages have every layer once, in parts of nearly equal size") {
    for (i64 layers : {1, 5, 12, 70, 105}) {
        ModelConfig config = small_gpt();
        config.n_layers = layers;
        for (i64 pp = 1; pp <= std::min<i64>(layers, 13); ++pp) {
            const ParallelConfig parallel{.pp = pp};
            CHECK(first_layer(config, parallel, 0) == 0);
            CHECK(first_layer(config, parallel, pp) == layers);
            for (i64 stage = 0; stage < pp; ++stage) {
                const i64 n =
                    first_layer(config, parallel, stage + 1) - first_layer(config, parallel, stage);
                CHECK(n >= layers / pp);
                CHECK(n <= ceil_div(layers, pp));
            }
        }
    }
}

TEST_CASE("stages balanced with the embedding and the head, as DeepSpeed does for BLOOM") {
    ModelConfig config = small_gpt();
    config.n_layers = 70;
    const ParallelConfig parallel{.pp = 12, .balance = PipelineBalance::layers_and_embedding};
    for (i64 stage = 0; stage < 12; ++stage) {
        CHECK(stage_layers(config, parallel, stage) == (stage == 0 || stage == 11 ? 5 : 6));
    }
    // Numbers of layers that the stages do not divide.
    for (i64 layers : {5, 12, 13}) {
        config.n_layers = layers;
        for (i64 pp = 1; pp <= 3; ++pp) {
            i64 n = 0;
            for (i64 stage = 0; stage < pp; ++stage) {
                n += stage_layers(
                    config, {.pp = pp, .balance = PipelineBalance::layers_and_embedding}, stage);
            }
            CHECK(n == layers);
        }
    }
    // 6 units on 4 stages: the first stage has only the embedding.
    config.n_layers = 4;
    const auto layers_of = [&](const ParallelConfig& p, i64 stage) {
        return stage_layers(config, p, stage);
    };
    const ParallelConfig four{.pp = 4, .balance = PipelineBalance::layers_and_embedding};
    CHECK(layers_of(four, 0) == 0);
    CHECK(layers_of(four, 0) + layers_of(four, 1) + layers_of(four, 2) + layers_of(four, 3) == 4);
    const ParallelConfig ends{
        .pp = 3, .n_chunks = 2, .balance = PipelineBalance::layers_and_embedding};
    CHECK(model_part(config, ends, 0, 0).n_layers() == 0);
    CHECK(model_part(config, ends, 2, 1).n_layers() == 0);
    // Other parts cannot be empty.
    CHECK_THROWS_AS(layers_of({.pp = 7, .balance = PipelineBalance::layers_and_embedding}, 0),
                    Error);
    CHECK_THROWS_AS(layers_of({.pp = 5}, 0), Error);
}

TEST_CASE("balancing by parameters minimizes the parameters of the largest stage") {
    ModelConfig config = small_gpt();
    for (const i64 vocab : {1, 1000, 5000}) {
        for (const i64 layers : {4, 9, 11}) {
            for (const i64 pp : {1, 2, 3, 4}) {
                config.n_layers = layers;
                config.vocab_size = vocab;
                const ParameterCount count = count_parameters(config);
                const double layer = static_cast<double>(count.attention + count.mlp + count.norm) /
                                     static_cast<double>(layers);
                UnitWeights weights{.before = {},
                                    .embedding = static_cast<double>(count.embedding),
                                    .head = static_cast<double>(vocab * config.hidden)};
                for (i64 i = 0; i <= layers; ++i)
                    weights.before.push_back(static_cast<double>(i) * layer);
                std::vector<i64> cuts;
                for (i64 part = 0; part <= pp; ++part) {
                    cuts.push_back(first_layer(
                        config, {.pp = pp, .balance = PipelineBalance::parameters}, part));
                }
                CAPTURE(vocab, layers, pp);
                CHECK(cuts.front() == 0);
                CHECK(cuts.back() == layers);
                CHECK(heaviest(weights, cuts) <= least_heaviest(weights, pp) * (1 + 1e-9));
            }
        }
    }
}

TEST_CASE("layers of different weights are balanced") {
    std::mt19937 random(5);
    for (int round = 0; round < 200; ++round) {
        const auto n_layers = static_cast<i64>(4 + random() % 7);
        const auto n_stages = static_cast<i64>(1 + random() % 4);
        const auto weight = [&random] { return static_cast<double>(1 + random() % 20); };
        UnitWeights weights{.before = {0}, .embedding = 3 * weight(), .head = 2 * weight()};
        for (i64 i = 0; i < n_layers; ++i)
            weights.before.push_back(weights.before.back() + weight());
        const std::vector<i64> cuts = balanced_stages(weights, n_stages, 1);
        CAPTURE(weights.before, weights.embedding, weights.head, cuts);
        REQUIRE(std::ssize(cuts) == n_stages + 1);
        CHECK(cuts.front() == 0);
        CHECK(cuts.back() == n_layers);
        CHECK(std::ranges::adjacent_find(cuts, std::ranges::greater_equal()) == cuts.end());
        CHECK(heaviest(weights, cuts) == least_heaviest(weights, n_stages));
    }
}

TEST_CASE("chunks of an interleaved stage are pp parts apart") {
    ModelConfig config = small_gpt();
    config.n_layers = 10;
    const ParallelConfig parallel{.pp = 2, .n_chunks = 2};
    const ModelPart part = model_part(config, parallel, 1, 0);  // part 1 of 4: layers 2 and 3
    CHECK(part.first_layer == 2);
    CHECK(part.end_layer == 4);
    CHECK(!part.embedding);
    CHECK(!part.head);
    CHECK(model_part(config, parallel, 1, 1).head);
    CHECK(stage_layers(config, parallel, 0) == 5);
    const std::vector<TensorSpec> table = tensor_table(config);
    for (const LocalTensor& local : rank_layout(config, table, parallel, 0, 1).tensors) {
        const TensorSpec& tensor = table[static_cast<size_t>(local.index)];
        if (tensor.layer >= 0) {
            CHECK(local.unit == unit_of_layer(tensor.layer));
            CHECK(((tensor.layer >= 2 && tensor.layer < 4) || tensor.layer >= 7));
        } else {
            CHECK(local.unit == head_unit(config));
            CHECK(local.copy == (tensor.name == "embedding.word.weight"));
        }
        CHECK(!local.replicated);
    }
}

TEST_CASE("interleaved stages have equal numbers of layers, and so have their chunks") {
    ModelConfig config = small_gpt();
    for (i64 layers = 8; layers <= 24; ++layers) {
        for (const i64 pp : {2, 3, 4}) {
            for (const i64 n_chunks : {i64{2}, layers / pp}) {
                config.n_layers = layers;
                const ParallelConfig parallel{.pp = pp, .n_chunks = n_chunks};
                CAPTURE(layers, pp, n_chunks);
                for (i64 stage = 0; stage < pp; ++stage) {
                    const i64 held = stage_layers(config, parallel, stage);
                    CHECK(held >= layers / pp);
                    CHECK(held <= ceil_div(layers, pp));
                    for (i64 chunk = 0; chunk < n_chunks; ++chunk) {
                        const ModelPart part = model_part(config, parallel, stage, chunk);
                        CHECK(part.end_layer - part.first_layer >= held / n_chunks);
                        CHECK(part.end_layer - part.first_layer <= ceil_div(held, n_chunks));
                    }
                }
            }
        }
    }
    // 14 layers, the embedding and the head are 16 units: two for each of the 8 chunks.
    config.n_layers = 14;
    for (i64 stage = 0; stage < 4; ++stage) {
        const ParallelConfig parallel{
            .pp = 4, .n_chunks = 2, .balance = PipelineBalance::layers_and_embedding};
        CHECK(stage_layers(config, parallel, stage) == (stage == 0 || stage == 3 ? 3 : 4));
    }
}

TEST_CASE("tensors that every tensor rank holds whole are marked as replicated") {
    const ModelConfig config = small_gpt();
    const std::vector<TensorSpec> table = tensor_table(config);
    for (const LocalTensor& local : rank_layout(config, table, {.tp = 2}, 1, 0).tensors) {
        const TensorSpec& tensor = table[static_cast<size_t>(local.index)];
        CHECK(local.replicated == (local.shape == tensor.shape));
    }
}

TEST_CASE("vocabulary padding as in Megatron") {
    ModelConfig config = small_gpt();
    config.vocab_size = 50257;
    const auto padded = [&config](i64 tp, i64 pad_to = 0) {
        return padded_vocab(config, {.tp = tp, .pad_vocab_to = pad_to});
    };
    CHECK(padded(1) == 50304);
    CHECK(padded(2) == 50432);
    CHECK(padded(4) == 50688);
    CHECK(padded(8) == 51200);
    CHECK(padded(8, 60000) == 60000);
    CHECK_THROWS_AS(padded(1, 50000), Error);
    CHECK_THROWS_AS(padded(8, 60001), Error);
}

TEST_CASE("padded rows are in memory, never in a box") {
    const ModelConfig config = small_gpt();  // 101 rows
    const std::vector<TensorSpec> table = tensor_table(config);
    const ParallelConfig parallel{.tp = 3, .vocab_divisible_by = 16};  // 144 rows, 48 each
    const i64 held[] = {48, 48, 5};
    for (i64 rank = 0; rank < 3; ++rank) {
        const LocalTensor word = rank_layout(config, table, parallel, rank, 0).tensors.front();
        CHECK(word.shape == Shape{48, 24});
        CHECK(word.box.shape() == Shape{held[rank], 24});
    }
    // A rank that holds padding only.
    const LocalTensor empty =
        rank_layout(config, table, {.tp = 3, .vocab_divisible_by = 64}, 2, 0).tensors.front();
    CHECK(empty.shape == Shape{64, 24});
    CHECK(empty.box.shape() == Shape{0, 24});
}

TEST_CASE("errors of invalid configurations name the flag") {
    const auto refuses = [](const char* flag, auto change) {
        ModelConfig config = small_llama();
        change(config);
        try {
            config.resolve();
            FAIL(flag);
        } catch (const Error& error) {
            CHECK(error.code() == Exit::usage);
            CHECK(std::string(error.what()).starts_with(flag));
        }
    };
    refuses("--num-attention-heads", [](ModelConfig& c) { c.head_dim = 0; });  // 40 % 12
    refuses("--num-query-groups", [](ModelConfig& c) { c.n_groups = 5; });
    refuses("--num-layers", [](ModelConfig& c) { c.n_layers = 0; });
    refuses("--num-layers", [](ModelConfig& c) { c.n_layers = 100'001; });
    refuses("--attention-dropout", [](ModelConfig& c) { c.attention_dropout = 1.0; });
    refuses("--init-method-std", [](ModelConfig& c) { c.init_std = 0.0; });
    refuses("--kv-channels", [](ModelConfig& c) { c.head_dim = 5; });  // rotary halves
    refuses("--max-position-embeddings", [](ModelConfig& c) {
        c.position = PositionEmbedding::absolute;
        c.max_positions = 8;
    });
}

TEST_CASE("sizes that overflow are errors") {
    ModelConfig config = small_gpt();
    config.hidden = i64{1} << 40;
    config.n_heads = 1;
    config.head_dim = config.ffn_hidden = config.n_groups = 0;
    CHECK_THROWS_AS(config.resolve(), Error);
}

TEST_CASE("the layers of the first and the last stage can be given") {
    ModelConfig config = small_gpt();
    config.n_layers = 12;
    const auto layers = [&](const ParallelConfig& parallel) {
        std::vector<i64> n;
        for (i64 stage = 0; stage < parallel.pp; ++stage)
            n.push_back(stage_layers(config, parallel, stage));
        return n;
    };
    using Layers = std::vector<i64>;
    CHECK(layers({.pp = 4, .first_stage_layers = 2, .last_stage_layers = 2}) == Layers{2, 4, 4, 2});
    CHECK(layers({.pp = 4, .first_stage_layers = 1}) == Layers{1, 3, 4, 4});
    CHECK(layers({.pp = 3, .last_stage_layers = 2}) == Layers{5, 5, 2});
    CHECK(layers({.pp = 2, .first_stage_layers = 5, .last_stage_layers = 7}) == Layers{5, 7});
    // Megatron divides the layers of a stage evenly over its chunks.
    const ParallelConfig chunks{
        .pp = 4, .n_chunks = 2, .first_stage_layers = 2, .last_stage_layers = 2};
    CHECK(model_part(config, chunks, 0, 1).first_layer == 6);
    CHECK(model_part(config, chunks, 3, 0).first_layer == 5);
    config.n_layers = 11;
    CHECK(layers({.pp = 4, .balance = PipelineBalance::embedding_and_layers}) ==
          Layers{2, 3, 3, 3});
    CHECK(layers({.pp = 4, .balance = PipelineBalance::layers_and_head}) == Layers{3, 3, 3, 2});
}
