// SPDX-License-Identifier: Apache-2.0
// What a run keeps: weights, masters and moments, as they begin and to and from checkpoints.
#include <algorithm>

#include "ckpt/flat.hpp"
#include "ckpt/index.hpp"
#include "model/init.hpp"
#include "parallel/replica_check.hpp"
#include "train/trainer.hpp"

namespace lm::train {

namespace {

// The piece is in the memory of `device`.
void read_by_copies(ckpt::Piece& piece, device::Device& device) {
    auto* const from = static_cast<std::byte*>(const_cast<void*>(piece.data));
    piece.read = [from, &device](std::span<std::byte> to, i64 offset) {
        device.copy_to_host(to.data(),
                            {from + offset, DType::uint8, {static_cast<i64>(to.size())}});
    };
}

}  // namespace

void Trainer::initialize() {
    ThreadPool pool(config_.n_threads);
    model::initialize_weights(map_, device_, pool, config_.seed, weights_);
    masters_from_weights();
}

template <typename Body>
void Trainer::for_masters(const Body& body) {
    i64 at = 0;
    for (const Range& range : data_parallel_->updated()) {
        if (masters_) body(range, masters_.rows(at, at + range.size()));
        at += range.size();
    }
}

// As Megatron does: the masters begin as the rounded weights.
void Trainer::masters_from_weights() {
    device::Context context = this->context();
    for_masters([&](const Range& range, const device::View& masters) {
        device::cast(context, {.x = weights_.rows(range.begin, range.end), .y = masters});
    });
}

std::vector<ckpt::Piece> Trainer::state() {
    spec::RankLayout counted = map_.layout();
    std::erase_if(counted.tensors, [this](const spec::LocalTensor& tensor) {
        return tensor.copy || (tensor.replicated && grid_.at.tp > 0);
    });
    std::vector<ckpt::Piece> pieces;
    const auto add = [&](ckpt::SliceKind kind, const device::View& data, const Range& range) {
        for (ckpt::Piece& piece :
             ckpt::pieces_of(counted, kind, data.dtype, data.data, range.begin, range.end)) {
            if (!device_.is_host()) read_by_copies(piece, device_);
            pieces.push_back(std::move(piece));
        }
    };
    const device::View weights = this->weights();
    for (const Range& range : data_parallel_->owned()) {
        add(ckpt::SliceKind::weight, weights.rows(range.begin, range.end), range);
    }
    i64 at = 0;
    for (const Range& range : data_parallel_->owned()) {
        const i64 first = data_parallel_->sharded() ? at : range.begin;
        if (masters_)
            add(ckpt::SliceKind::master, masters_.rows(first, first + range.size()), range);
        add(ckpt::SliceKind::exp_avg, exp_avg_.rows(first, first + range.size()), range);
        add(ckpt::SliceKind::exp_avg_sq, exp_avg_sq_.rows(first, first + range.size()), range);
        at += range.size();
    }
    return pieces;
}

// `target` holds the elements `range` of the flat buffer. By way of the host, a tensor's part at a
// time, where that cannot write it.
void Trainer::load_range(const ckpt::Checkpoint& checkpoint, ckpt::SliceKind kind,
                         const device::View& target, const Range& range) {
    const spec::RankLayout& layout = map_.layout();
    if (device_.is_host()) {
        checkpoint.load(map_.table(), layout, kind, target.dtype, target.data, range.begin,
                        range.end);
        return;
    }
    constexpr i64 most = i64{16} << 20;
    std::vector<std::byte> host;
    for (const spec::LocalTensor& tensor : layout.tensors) {
        spec::RankLayout alone = layout;
        alone.tensors = {tensor};
        const i64 end = std::min(range.end, tensor.offset + tensor.box.shape().numel());
        for (i64 begin = std::max(range.begin, tensor.offset); begin < end; begin += most) {
            const Range part{begin, std::min(begin + most, end)};
            host.resize(static_cast<size_t>(part.size() * size_of(target.dtype)));
            checkpoint.load(map_.table(), alone, kind, target.dtype, host.data(), part.begin,
                            part.end);
            device_.copy_from_host(target.rows(part.begin - range.begin, part.end - range.begin),
                                   host.data());
        }
    }
}

void Trainer::load(const ckpt::Checkpoint& checkpoint, bool with_optimizer) {
    const device::View weights = this->weights();
    // fp32 weights are the masters of a checkpoint with 16-bit weights.
    load_range(checkpoint, masters_ ? ckpt::SliceKind::weight : ckpt::SliceKind::master, weights,
               {0, map_.layout().n_elements});
    for_masters([&](const Range& range, const device::View& masters) {
        load_range(checkpoint, ckpt::SliceKind::master, masters, range);
    });
    if (!with_optimizer) return;
    i64 at = 0;
    for (const Range& range : data_parallel_->updated()) {
        const auto read = [&](ckpt::SliceKind kind, const device::View& moments) {
            load_range(checkpoint, kind, moments.rows(at, at + range.size()), range);
        };
        read(ckpt::SliceKind::exp_avg, exp_avg_);
        read(ckpt::SliceKind::exp_avg_sq, exp_avg_sq_);
        at += range.size();
    }
    optimizer_step_ = checkpoint.manifest().counters.optimizer_step;
}

void Trainer::check_replicas() {
    const device::View weights = this->weights();
    const std::vector<Range>& updated = data_parallel_->updated();
    const bool whole = !data_parallel_->sharded();
    std::vector<parallel::HeldState> state{{"weight", weights, {{0, weights.numel()}}},
                                           {"exp_avg", exp_avg_, updated, whole},
                                           {"exp_avg_sq", exp_avg_sq_, updated, whole}};
    if (masters_) state.push_back({"master", masters_, updated, whole});
    parallel::check_replicas(map_, grid_, device_, state);
}

device::View Trainer::weights() {
    data_parallel_->finish_gather();
    return weights_;
}

}  // namespace lm::train
