// SPDX-License-Identifier: Apache-2.0
// Measures a checkpoint of a job of many ranks with a small model: the number of files, the bytes
// of the index, the files that a rank opens to resume, and the time and memory to open all of them.
//   checkpoint_ranks DIR [TP PP DP RANKS_PER_NODE]     by default 4 12 208 8: 9,984 ranks
// Each rank stores its part of each of 24 buckets, as with ZeRO-1.
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

#include "base/clock.hpp"
#include "base/range.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/flat_pieces.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/history/save.hpp"
#include "io/file.hpp"

using namespace lm;

namespace {

spec::ModelConfig small_bloom() {
    spec::ModelConfig config;
    config.n_layers = 48;
    config.hidden = 64;
    config.n_heads = 8;
    config.seq_length = 64;
    config.vocab_size = 512;
    config.resolve();
    return config;
}

constexpr std::array kinds{ckpt::SliceKind::weight, ckpt::SliceKind::exp_avg,
                           ckpt::SliceKind::exp_avg_sq};

// The state of one model-parallel rank.
struct State {
    spec::RankLayout layout;
    std::vector<float> values;
};

State state_of(const spec::ModelConfig& config, const std::vector<spec::TensorSpec>& table,
               const spec::ParallelConfig& parallel, i64 tp, i64 pp) {
    State state{spec::rank_layout(config, table, parallel, tp, pp), {}};
    state.values.assign(static_cast<size_t>(state.layout.n_elements), 1.0F);
    std::erase_if(state.layout.tensors, [&](const spec::LocalTensor& tensor) {
        return tensor.copy || (tensor.replicated && tp > 0);
    });
    return state;
}

std::vector<Range> parts_of(const spec::RankLayout& layout, i64 dp, i64 n_dp) {
    constexpr i64 n_buckets = 24;
    std::vector<Range> parts;
    for (i64 bucket = 0; bucket < n_buckets; ++bucket) {
        const i64 begin = layout.n_elements * bucket / n_buckets;
        const i64 n = layout.n_elements * (bucket + 1) / n_buckets - begin;
        parts.push_back({begin + n * dp / n_dp, begin + n * (dp + 1) / n_dp});
    }
    return parts;
}

std::vector<ckpt::Piece> pieces_of(const State& state, i64 dp, i64 n_dp) {
    std::vector<ckpt::Piece> pieces;
    for (const ckpt::SliceKind kind : kinds) {
        for (const Range& part : parts_of(state.layout, dp, n_dp)) {
            for (const auto& piece :
                 ckpt::pieces_of(state.layout, kind, DType::fp32, state.values.data() + part.begin,
                                 part.begin, part.end)) {
                pieces.push_back(piece);
            }
        }
    }
    return pieces;
}

// Writes the files of a node, which its ranks share, and returns its index part.
ckpt::IndexPart write_node(const std::string& temporary,
                           const std::vector<ckpt::TensorInfo>& tensors, i64 node,
                           const std::vector<std::vector<ckpt::Piece>>& pieces) {
    std::map<std::string, std::vector<ckpt::DataShare>> files;
    for (const std::vector<ckpt::Piece>& of_rank : pieces) {
        for (ckpt::DataShare& share : ckpt::plan_shares(tensors, node, of_rank)) {
            files[share.file.name].push_back(std::move(share));
        }
    }
    ckpt::IndexPart part{.writer = node, .files = {}};
    for (auto& [name, shares] : files) {
        std::vector<ckpt::DataFile*> placed;
        for (ckpt::DataShare& share : shares) placed.push_back(&share.file);
        shares.front().header = ckpt::place_shares(placed, tensors);
        ckpt::write_shares(temporary, shares);
        ckpt::DataFile& whole = part.files.emplace_back(shares.front().file);
        for (size_t i = 1; i < shares.size(); ++i) {
            ckpt::append(whole, std::move(shares[i].file));
        }
    }
    return part;
}

std::string save(const ckpt::Generation& generation, const spec::ModelConfig& config,
                 const spec::ParallelConfig& parallel, i64 ranks_per_node) {
    constexpr i64 ranks_of_a_part = 64;  // as in lm-train
    ckpt::SaveInfo info;
    info.model = config;
    info.parallel = parallel;
    info.counters.iteration = 1;
    const auto table = spec::tensor_table(config);
    const auto tensors = ckpt::tensors_of(config, info.weights);
    const std::string temporary = ckpt::begin_save(generation, 1);
    std::vector<ckpt::IndexReference> parts;
    ckpt::IndexPart part;
    std::vector<std::vector<ckpt::Piece>> of_node;
    const i64 n_ranks = parallel.tp * parallel.pp * parallel.dp;
    i64 rank = 0;
    for (i64 pp = 0; pp < parallel.pp; ++pp) {
        std::vector<State> states;
        for (i64 tp = 0; tp < parallel.tp; ++tp) {
            states.push_back(state_of(config, table, parallel, tp, pp));
        }
        for (i64 dp = 0; dp < parallel.dp; ++dp) {
            for (const State& state : states) {
                of_node.push_back(pieces_of(state, dp, parallel.dp));
                const bool last = ++rank == n_ranks;
                if (std::ssize(of_node) < ranks_per_node && !last) continue;
                const i64 node = (rank - 1) / ranks_per_node;
                if (part.files.empty()) part.writer = node;
                ckpt::append(part, write_node(temporary, tensors, node, of_node));
                of_node.clear();
                if (rank % ranks_of_a_part != 0 && !last) continue;
                parts.push_back(ckpt::write_index(temporary, part));
                part = {};
            }
        }
    }
    return ckpt::commit_save(generation, info, parts).path;
}

// Reads the files that rank `rank` needs to resume in the same layout.
void resume(const std::string& step, const spec::ModelConfig& config,
            const spec::ParallelConfig& parallel, i64 rank) {
    const Stopwatch watch;
    const i64 tp = rank % parallel.tp;
    const i64 dp = rank / parallel.tp % parallel.dp;
    const i64 pp = rank / (parallel.tp * parallel.dp);
    const auto mine = ckpt::Checkpoint::open(step, {rank, parallel.tp * parallel.pp * parallel.dp});
    const auto table = spec::tensor_table(config);
    const spec::RankLayout layout = spec::rank_layout(config, table, parallel, tp, pp);
    std::vector<float> values(static_cast<size_t>(layout.n_elements));
    for (const ckpt::SliceKind kind : kinds) {
        for (const Range& part : parts_of(layout, dp, parallel.dp)) {
            mine.load(table, layout, kind, DType::fp32, values.data(), part.begin, part.end);
        }
    }
    std::printf("rank %6lld resumes: %lld index parts, %lld data files, %.0f ms\n",
                static_cast<long long>(rank), static_cast<long long>(mine.n_parts_read()),
                static_cast<long long>(mine.n_files_opened()), watch.elapsed_s() * 1e3);
}

i64 peak_mb() {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss >> 10;
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 2) return 2;
    const auto number = [&](int at, i64 fallback) {
        return argc > at ? std::atoll(argv[at]) : fallback;
    };
    const spec::ParallelConfig parallel{
        .tp = number(2, 4), .pp = number(3, 12), .dp = number(4, 208)};
    const i64 ranks_per_node = number(5, 8);
    const i64 n_ranks = parallel.tp * parallel.pp * parallel.dp;
    const spec::ModelConfig config = small_bloom();
    const std::string step = std::string(argv[1]) + "/global_step1";
    if (!io::exists(step)) {
        const Stopwatch watch;
        save(ckpt::claim(argv[1]), config, parallel, ranks_per_node);
        std::printf("saved by one process in %.1f s; run again to measure without this save\n",
                    watch.elapsed_s());
    }
    i64 n_index = 0;
    i64 index_bytes = 0;
    const auto names = io::list_directory(step);
    for (const std::string& name : names) {
        if (!name.starts_with("index-")) continue;
        ++n_index;
        index_bytes += io::file_size(step + "/" + name);
    }
    std::printf("%lld ranks: %zu files, %lld of them index parts of %.1f MB\n",
                static_cast<long long>(n_ranks), names.size(), static_cast<long long>(n_index),
                static_cast<double>(index_bytes) * 1e-6);
    for (const i64 rank : {i64{0}, n_ranks / 2 + 5, n_ranks - 1}) {
        resume(step, config, parallel, rank);
    }
    std::printf("peak memory of these ranks together: %lld MB\n",
                static_cast<long long>(peak_mb()));
    const Stopwatch watch;
    const auto all = ckpt::Checkpoint::open(step);
    std::printf(
        "all of it: %lld index parts, %lld data files checked, %.2f s, peak memory %lld MB\n",
        static_cast<long long>(all.n_parts_read()),
        static_cast<long long>(all.manifest().totals().files - n_index), watch.elapsed_s(),
        static_cast<long long>(peak_mb()));
    return 0;
}
