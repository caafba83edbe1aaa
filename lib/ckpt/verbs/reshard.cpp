// SPDX-License-Identifier: Apache-2.0
#include "ckpt/verbs/reshard.hpp"

#include <array>
#include <mutex>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "ckpt/format/index.hpp"

namespace lm::ckpt {
namespace {

SaveInfo info_of(const Checkpoint& from) {
    const Manifest& manifest = from.manifest();
    SaveInfo info;
    info.model = manifest.model;
    info.parallel = manifest.parallel;
    info.counters = manifest.counters;
    info.tokenizer = manifest.tokenizer;
    info.tokenizer.files = read_tokenizer_files(from.path(), std::move(info.tokenizer.files));
    info.seed = manifest.seed;
    info.state = manifest.state;
    info.command_line = manifest.command_line;
    info.run_id = manifest.run_id;
    info.parent = manifest.parent;
    info.lineage = manifest.lineage;
    info.weights = manifest.tensors.at(0).dtype;
    return info;
}

class Resharder {
  public:
    Resharder(const Checkpoint& from, i64 tp, i64 pp, const std::function<void(i64)>& progress)
        : from_(from),
          info_(info_of(from)),
          table_(spec::tensor_table(info_.model)),
          progress_(progress) {
        for (const spec::Dimension& each : spec::dimensions) info_.parallel.*each.size = 1;
        info_.parallel.tp = tp;
        info_.parallel.pp = pp;
        // A padding that `tp` does not divide would be an invalid configuration. The padding can be
        // dropped, because a checkpoint contains no padding.
        if (info_.parallel.pad_vocab_to % tp != 0) info_.parallel.pad_vocab_to = 0;
        (void)spec::first_layer(info_.model, info_.parallel, 0);  // throws for too many stages
    }

    SaveResult save_in(const std::string& directory) {
        const Generation generation{directory, 0};
        const i64 iteration = info_.counters.iteration;
        try {
            const std::string temporary = begin_save(generation, iteration);
            std::vector<IndexReference> parts;
            for (i64 stage = 0; stage < info_.parallel.pp; ++stage) {
                for (const IndexPart& part : write_stage(temporary, stage)) {
                    parts.push_back(write_index(temporary, part));
                }
            }
            return commit_save(generation, info_, parts);
        } catch (...) {
            discard_save(generation, iteration);
            throw;
        }
    }

  private:
    // Writes the files of all tensor ranks of a stage at the same time, because these files need
    // the same blocks of the source.
    std::vector<IndexPart> write_stage(const std::string& temporary, i64 stage) {
        const std::vector<TensorInfo> tensors = tensors_of(info_.model, info_.weights);
        std::vector<IndexPart> parts;
        std::vector<std::vector<Piece>> pieces;
        std::vector<DataShare> shares;
        std::vector<size_t> part_of;  // by share
        for (i64 tp_rank = 0; tp_rank < info_.parallel.tp; ++tp_rank) {
            const i64 rank = stage * info_.parallel.tp + tp_rank;
            parts.push_back({.writer = rank, .files = {}});
            pieces.push_back(pieces_of_rank(rank));
            for (DataShare& share : plan_shares(tensors, rank, pieces.back())) {
                share.header = place_shares(std::array{&share.file}, tensors);
                shares.push_back(std::move(share));
                part_of.push_back(parts.size() - 1);
            }
        }
        write_shares(temporary, shares);
        for (size_t i = 0; i < shares.size(); ++i) {
            parts[part_of[i]].files.push_back(std::move(shares[i].file));
        }
        return parts;
    }

    // Returns the pieces that a rank of lm-train would write. Only the first of the ranks that have
    // a tensor writes it.
    std::vector<Piece> pieces_of_rank(i64 rank) {
        const i64 tp_rank = rank % info_.parallel.tp;
        const spec::RankLayout layout = spec::rank_layout(info_.model, table_, info_.parallel,
                                                          tp_rank, rank / info_.parallel.tp);
        std::vector<Piece> pieces;
        for (const KindTotal& total : from_.manifest().totals().kinds) {
            for (const spec::LocalTensor& local : layout.tensors) {
                if (local.copy || (local.replicated && tp_rank > 0)) continue;
                pieces.push_back(piece_of(local, total.kind, total.dtype));
            }
        }
        return pieces;
    }

    Piece piece_of(const spec::LocalTensor& local, SliceKind kind, DType dtype) {
        Piece piece{.tensor = local.index,
                    .kind = kind,
                    .dtype = dtype,
                    .box = local.box,
                    .flat_begin = 0,
                    .flat_end = local.box.shape().numel()};
        piece.concurrent = true;
        piece.read = [this, kind, dtype, box = local.box, index = static_cast<size_t>(local.index)](
                         std::span<std::byte> to, i64 offset) {
            const i64 begin = offset / size_of(dtype);
            const auto n_bytes = static_cast<i64>(to.size());
            from_.load(table_[index].name, kind,
                       {.box = box,
                        .flat_begin = begin,
                        .flat_end = begin + n_bytes / size_of(dtype),
                        .dtype = dtype,
                        .data = to.data()});
            const std::lock_guard lock(mutex_);
            n_written_ += n_bytes;
            if (progress_) progress_(n_written_);
        };
        return piece;
    }

    const Checkpoint& from_;
    SaveInfo info_;
    std::vector<spec::TensorSpec> table_;
    const std::function<void(i64)>& progress_;
    std::mutex mutex_;
    i64 n_written_ = 0;
};

}  // namespace

SaveResult reshard(const Checkpoint& from, i64 tp, i64 pp, const std::string& directory,
                   const std::function<void(i64 n_bytes)>& progress) {
    return Resharder(from, tp, pp, progress).save_in(directory);
}

}  // namespace lm::ckpt
