// SPDX-License-Identifier: Apache-2.0
// Measures checkpoints of a job of many ranks with a small model: the number of files, the files
// that a rank opens to resume, and the time that a tool needs to read all of it.
//   checkpoint_ranks DIR DP [STEPS]     8 tensor x 10 pipeline x DP ranks, STEPS checkpoints
#include <sys/resource.h>

#include <cstdio>
#include <cstdlib>
#include <vector>

#include "base/clock.hpp"
#include "ckpt/checkpoint.hpp"
#include "ckpt/flat_pieces.hpp"
#include "ckpt/index.hpp"
#include "ckpt/save.hpp"
#include "io/file.hpp"

using namespace lm;

namespace {

spec::ModelConfig small_bloom() {
    spec::ModelConfig config;
    config.n_layers = 70;
    config.hidden = 64;
    config.n_heads = 8;
    config.seq_length = 64;
    config.vocab_size = 512;
    config.resolve();
    return config;
}

constexpr std::array kinds{ckpt::SliceKind::weight, ckpt::SliceKind::exp_avg,
                           ckpt::SliceKind::exp_avg_sq};

std::string save(const ckpt::Generation& generation, const spec::ModelConfig& config,
                 const spec::ParallelConfig& parallel, i64 iteration) {
    constexpr i64 ranks_of_a_part = 64;  // as in lm-train
    ckpt::SaveInfo info;
    info.model = config;
    info.parallel = parallel;
    info.counters.iteration = iteration;
    const auto table = spec::tensor_table(config);
    const std::string temporary = ckpt::begin_save(generation, iteration);
    std::vector<ckpt::IndexReference> parts;
    ckpt::IndexPart part;
    i64 rank = 0;
    for (i64 pp = 0; pp < parallel.pp; ++pp) {
        for (i64 dp = 0; dp < parallel.dp; ++dp) {
            for (i64 tp = 0; tp < parallel.tp; ++tp, ++rank) {
                spec::RankLayout layout = spec::rank_layout(config, table, parallel, tp, pp);
                const std::vector<float> values(static_cast<size_t>(layout.n_elements), 1.0F);
                const i64 begin = layout.n_elements * dp / parallel.dp;
                const i64 end = layout.n_elements * (dp + 1) / parallel.dp;
                std::erase_if(layout.tensors, [&](const spec::LocalTensor& tensor) {
                    return tensor.copy || (tensor.replicated && tp > 0);
                });
                std::vector<ckpt::Piece> pieces;
                for (const ckpt::SliceKind kind : kinds) {
                    for (const auto& piece :
                         ckpt::pieces_of(layout, kind, DType::fp32, values.data(), begin, end)) {
                        pieces.push_back(piece);
                    }
                }
                ckpt::IndexPart own = ckpt::write_pieces(temporary, info, rank, pieces);
                if (rank % ranks_of_a_part == 0) part.writer = rank;
                ckpt::append(part, std::move(own));
                if ((rank + 1) % ranks_of_a_part != 0 &&
                    rank + 1 < parallel.tp * parallel.pp * parallel.dp) {
                    continue;
                }
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
    mine.load(table, layout, ckpt::SliceKind::weight, DType::fp32, values.data());
    const i64 begin = layout.n_elements * dp / parallel.dp;
    const i64 end = layout.n_elements * (dp + 1) / parallel.dp;
    for (const ckpt::SliceKind kind : {ckpt::SliceKind::exp_avg, ckpt::SliceKind::exp_avg_sq}) {
        mine.load(table, layout, kind, DType::fp32, values.data(), begin, end);
    }
    std::printf("rank %6lld resumes: %lld index parts, %lld data files, %.0f ms\n",
                static_cast<long long>(rank), static_cast<long long>(mine.n_parts_read()),
                static_cast<long long>(mine.n_files_opened()), watch.elapsed_s() * 1e3);
}

}  // namespace

int main(int argc, char** argv) {
    if (argc < 3) return 2;
    const std::string directory = argv[1];
    const spec::ParallelConfig parallel{.tp = 8, .pp = 10, .dp = std::atoi(argv[2])};
    const i64 n_steps = argc > 3 ? std::atoi(argv[3]) : 1;
    const spec::ModelConfig config = small_bloom();
    const ckpt::Generation generation = ckpt::claim(directory);
    std::string step;
    for (i64 i = 1; i <= n_steps; ++i) {
        const Stopwatch watch;
        step = save(generation, config, parallel, i);
        if (i == 1) std::printf("saved by one process in %.1f s\n", watch.elapsed_s());
    }
    const auto names = io::list_directory(step);
    i64 n_index = 0;
    for (const std::string& name : names) n_index += name.starts_with("index-");
    std::printf("%lld ranks: %zu files, %lld of them index parts\n",
                static_cast<long long>(parallel.tp * parallel.pp * parallel.dp), names.size(),
                static_cast<long long>(n_index));
    const i64 n_ranks = parallel.tp * parallel.pp * parallel.dp;
    for (const i64 rank : {i64{0}, n_ranks / 2 + 5, n_ranks - 1}) {
        resume(step, config, parallel, rank);
    }
    const Stopwatch watch;
    const auto all = ckpt::Checkpoint::open(step);
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    std::printf("all of it: %lld index parts, %lld data files, %.2f s, peak memory %ld MB\n",
                static_cast<long long>(all.n_parts_read()),
                static_cast<long long>(all.n_files_opened()), watch.elapsed_s(),
                usage.ru_maxrss >> 10);
    return 0;
}
