// SPDX-License-Identifier: Apache-2.0
// For all checkpoint tests: a scratch directory and a small model with computed numbers.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "ckpt/format/checkpoint.hpp"
#include "ckpt/format/flat_pieces.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/history/save.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

namespace lm::test {

// A temporary directory, in memory where possible, because the fault tests call fsync() thousands
// of times.
class ScratchDirectory {
  public:
    ScratchDirectory() {
        const bool in_memory = ::access("/dev/shm", W_OK | X_OK) == 0;
        std::string name = in_memory ? "/dev/shm/lm-test.XXXXXX" : "/tmp/lm-test.XXXXXX";
        if (!::mkdtemp(name.data())) throw std::runtime_error("mkdtemp failed: " + name);
        path_ = name;
    }
    ~ScratchDirectory() { io::remove_tree(path_); }
    ScratchDirectory(const ScratchDirectory&) = delete;
    ScratchDirectory& operator=(const ScratchDirectory&) = delete;
    std::string operator/(const std::string& name) const { return path_ + "/" + name; }
    const std::string& path() const { return path_; }

  private:
    std::string path_;
};

inline spec::ModelConfig small_model() {
    spec::ModelConfig config;
    config.n_layers = 2;
    config.hidden = 24;
    config.n_heads = 4;
    config.seq_length = 16;
    config.vocab_size = 101;
    config.resolve();
    return config;
}

// One rank's flat buffers, filled with a function of (tensor, element, kind, salt) that does not
// depend on the layout.
struct Buffers {
    spec::RankLayout layout;
    std::vector<float> weight, exp_avg, exp_avg_sq;

    Buffers(const spec::ModelConfig& config, const spec::ParallelConfig& parallel, i64 tp_rank = 0,
            i64 pp_rank = 0)
        : layout(spec::rank_layout(config, spec::tensor_table(config), parallel, tp_rank, pp_rank)),
          weight(static_cast<size_t>(layout.n_elements)),
          exp_avg(weight.size()),
          exp_avg_sq(weight.size()) {}

    std::vector<float>& of(ckpt::SliceKind kind) {
        if (kind == spec::exp_avg) return exp_avg;
        return kind == spec::exp_avg_sq ? exp_avg_sq : weight;
    }

    void fill(const spec::ModelConfig& config, i64 salt) {
        const auto table = spec::tensor_table(config);
        for (const auto& local : layout.tensors) {
            const auto& tensor = table[static_cast<size_t>(local.index)];
            for (const ckpt::SliceKind kind : kinds()) fill_tensor(tensor, local, kind, salt);
        }
    }

    static std::vector<ckpt::SliceKind> kinds() {
        return {ckpt::SliceKind::weight, spec::exp_avg, spec::exp_avg_sq};
    }

    static i64 place_of(ckpt::SliceKind kind) {
        return std::ranges::find(ckpt::all_kinds, kind) - ckpt::all_kinds.begin();
    }

    static float value(i64 tensor, i64 element, ckpt::SliceKind kind, i64 salt) {
        const u64 bits = mix(mix(static_cast<u64>(tensor), static_cast<u64>(element)),
                             static_cast<u64>(place_of(kind)) * 1000 + static_cast<u64>(salt));
        return static_cast<float>(bits >> 40) / 65536.0F - 100.0F;
    }

    std::vector<ckpt::Piece> pieces() { return pieces(0, layout.n_elements); }
    std::vector<ckpt::Piece> pieces(i64 begin, i64 end) {
        std::vector<ckpt::Piece> all;
        for (const ckpt::SliceKind kind : kinds()) {
            const float* from = of(kind).data() + begin;
            for (const auto& piece : ckpt::pieces_of(layout, kind, DType::fp32, from, begin, end)) {
                all.push_back(piece);
            }
        }
        return all;
    }

  private:
    void fill_tensor(const spec::TensorSpec& tensor, const spec::LocalTensor& local,
                     ckpt::SliceKind kind, i64 salt) {
        const Shape box = local.box.shape();
        const i64 cols = box.rank() == 2 ? box[1] : 1;
        const i64 all_cols = box.rank() == 2 ? tensor.shape[1] : 1;
        const i64 first_col = box.rank() == 2 ? local.box.start[1] : 0;
        for (i64 row = 0; row < box[0]; ++row) {
            for (i64 col = 0; col < cols; ++col) {
                const i64 element = (local.box.start[0] + row) * all_cols + first_col + col;
                of(kind)[static_cast<size_t>(local.offset + row * cols + col)] =
                    value(local.index, element, kind, salt);
            }
        }
    }
};

// Returns the tensor NAME of the layout.
inline const spec::LocalTensor& local_of(const Buffers& buffers, const spec::ModelConfig& config,
                                         const std::string& name) {
    const auto table = spec::tensor_table(config);
    const auto found =
        std::ranges::find_if(buffers.layout.tensors, [&](const spec::LocalTensor& local) {
            return table[static_cast<size_t>(local.index)].name == name;
        });
    REQUIRE(found != buffers.layout.tensors.end());
    return *found;
}

// Returns the state in the manifest of a step that has the numbers of fill(salt).
inline std::string state_with_salt(i64 salt) {
    return io::json_line({{"salt", salt}});
}

inline i64 salt_of(const ckpt::Checkpoint& checkpoint) {
    return io::json_get<i64>(io::parse_json(checkpoint.manifest().state, "state"), "salt", "state");
}

inline ckpt::SaveInfo info_of(const spec::ModelConfig& config, i64 iteration) {
    ckpt::SaveInfo info;
    info.model = config;
    info.counters = {iteration, iteration * 8, iteration * 8 * config.seq_length, iteration};
    info.seed = 1234;
    info.state = "{\"lr\":0.1,\"note\":\"caf\xc3\xa9\"}\n";
    info.command_line = "lm-train --seed 1234";
    return info;
}

// Saves a step with the numbers of fill(salt) as the ranks of a grid write it. Returns its path.
inline std::string save_grid(const std::string& directory, const spec::ModelConfig& config,
                             const spec::ParallelConfig& parallel, i64 iteration, i64 salt) {
    const ckpt::Generation generation = ckpt::claim(directory);
    ckpt::SaveInfo info = info_of(config, iteration);
    info.parallel = parallel;
    const std::string temporary = ckpt::begin_save(generation, iteration);
    std::vector<ckpt::IndexReference> parts;
    for (i64 rank = 0; rank < parallel.tp * parallel.pp; ++rank) {
        const i64 tp_rank = rank % parallel.tp;
        Buffers buffers(config, parallel, tp_rank, rank / parallel.tp);
        buffers.fill(config, salt);
        std::erase_if(buffers.layout.tensors, [&](const spec::LocalTensor& tensor) {
            return tensor.copy || (tensor.replicated && tp_rank > 0);
        });
        parts.push_back(ckpt::write_part(temporary, info, rank, buffers.pieces()));
    }
    return ckpt::commit_save(generation, info, parts).path;
}

// Checks that each rank of a layout loads the numbers of fill(salt) from the checkpoint.
inline void check_grid(const ckpt::Checkpoint& checkpoint, const spec::ModelConfig& config,
                       const spec::ParallelConfig& parallel, i64 salt) {
    const auto table = spec::tensor_table(config);
    for (i64 pp = 0; pp < parallel.pp; ++pp) {
        for (i64 tp = 0; tp < parallel.tp; ++tp) {
            Buffers wanted(config, parallel, tp, pp);
            wanted.fill(config, salt);
            Buffers got(config, parallel, tp, pp);
            const i64 n = got.layout.n_elements;
            for (const ckpt::SliceKind kind : Buffers::kinds()) {
                for (i64 dp = 0; dp < parallel.dp; ++dp) {
                    const i64 begin = n * dp / parallel.dp;
                    checkpoint.load(table, got.layout, kind, DType::fp32,
                                    got.of(kind).data() + begin, begin, n * (dp + 1) / parallel.dp);
                }
                CHECK(got.of(kind) == wanted.of(kind));
            }
        }
    }
}

inline std::string read(const std::string& path) {
    return io::read_file(path);
}

inline void write(const std::string& path, const std::string& text) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

template <typename F>
std::string error_of(F&& f, Exit code = Exit::failure) {
    try {
        f();
    } catch (const Error& error) {
        return error.code() == code ? error.what()
                                    : "wrong exit code: " + std::string(error.what());
    }
    return "no error";
}

}  // namespace lm::test
