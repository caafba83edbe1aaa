// SPDX-License-Identifier: Apache-2.0
#include "train/step/training_state.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "ckpt/format/rank_pieces.hpp"
#include "model/init.hpp"
#include "model/pass.hpp"
#include "parallel/owned_ranges.hpp"
#include "parallel/replica_check.hpp"
#include "spec/partition.hpp"

namespace lm::train {
namespace {

// Returns the replicated tensors of tensor ranks other than 0. In norms, only tensor rank 0 counts
// its copies of these tensors.
spec::RankLayout copied_tensors(const spec::RankLayout& layout, i64 tp_rank) {
    spec::RankLayout copied = layout;
    std::erase_if(copied.tensors, [tp_rank](const spec::LocalTensor& tensor) {
        return !tensor.replicated || tp_rank == 0;
    });
    return copied;
}

// Returns the elements of the tensors, without the gaps between the tensors, because the gaps may
// contain any value after a reduction in place.
std::vector<Range> elements_of(const spec::RankLayout& layout) {
    std::vector<Range> ranges;
    for (const spec::LocalTensor& tensor : layout.tensors) {
        append(ranges, {tensor.offset, tensor.end()});
    }
    return ranges;
}

// Returns the element `which` of step_sums, [step_sum_count] fp64, as a view [1] fp64.
device::View sum_of(const device::View& step_sums, model::StepSum which) {
    return step_sums.rows(which, which + 1);
}

// Sets piece.read to a function that copies the data from the memory of `device`.
void read_by_copies(ckpt::Piece& piece, device::Device& device) {
    auto* const from = static_cast<std::byte*>(const_cast<void*>(piece.data));
    piece.read = [from, &device](std::span<std::byte> to, i64 offset) {
        device.copy_to_host(to.data(),
                            {from + offset, DType::uint8, {static_cast<i64>(to.size())}});
    };
}

}  // namespace

TrainingState::TrainingState(const TrainerConfig& config, device::Device& device,
                             parallel::Grid& grid, const TrainingMemory& memory)
    : device_(device),
      grid_(grid),
      map_(config.model, config.parallel, grid.at.tp, grid.at.pp),
      seed_(config.seed),
      n_threads_(config.n_threads),
      n_units_(spec::head_unit(config.model) + 1) {
    const Shape flat{spec::flat_elements(map_.layout(), config.parallel)};
    weights_ = memory.weights.view(config.precision.weights, flat);
    gradients_ = memory.gradients.view(DType::fp32, flat);
    build_data_parallel(config);
    bind_optimizer(config, memory);
}

void TrainingState::build_data_parallel(const TrainerConfig& config) {
    const spec::RankLayout& layout = map_.layout();
    const i64 table_end = parallel::shared_table_end(layout, map_.table(), config.parallel);
    data_parallel_ = std::make_unique<parallel::DataParallel>(
        *grid_.data, config.parallel.zero_stage, config.data_parallel, weights_, gradients_,
        layout.n_elements, table_end);
    counted_ = intersection(data_parallel_->owned(),
                            elements_of(ckpt::counted_tensors(layout, grid_.at.tp)));
    copies_ =
        intersection(data_parallel_->owned(), elements_of(copied_tensors(layout, grid_.at.tp)));
    if (table_end > 0) tied_ = intersection(data_parallel_->updated(), {{0, table_end}});
}

void TrainingState::bind_optimizer(const TrainerConfig& config, const TrainingMemory& memory) {
    const std::vector<Range>& updated = data_parallel_->updated();
    if (is_half(weights_.dtype)) masters_ = memory.masters.view(DType::fp32, {total_size(updated)});
    const spec::OptimizerKind kind = config.precision.optimizer;
    i64 offset = 0;
    for (auto& held : spec::state_ranges(kind, map_.table(), map_.layout(), updated)) {
        const i64 n = total_size(held.ranges);
        states_.push_back({held, memory.optimizer.view(offset, held.state.dtype, {n})});
        offset += states_.back().data.bytes();
    }
    optimizer_ = optim::make_optimizer(kind, config.adamw, map_,
                                       {.updated = updated,
                                        .weights = weights_,
                                        .masters = masters_,
                                        .gradients = gradients_,
                                        .states = states_});
}

void TrainingState::warm_up() {
    data_parallel_->warm_up();
    if (tied_.empty()) return;
    const Range& largest = *std::ranges::max_element(tied_, {}, &Range::size);
    grid_.embedding->warm_up_all_reduce(gradients_.rows(largest.begin, largest.end),
                                        comm::Reduction::sum);
}

const device::View& TrainingState::gathered_weights() {
    data_parallel_->finish_gather();
    return weights_;
}

// ---- a step -----------------------------------------------------------------------------------

// Calls body(range, masters) for each range of the flat buffer that this rank updates. masters: the
// fp32 masters of the range.
template <typename Body>
void TrainingState::for_masters(const Body& body) {
    i64 at = 0;
    for (const Range& range : data_parallel_->updated()) {
        if (masters_) body(range, masters_.rows(at, at + range.size()));
        at += range.size();
    }
}

void TrainingState::sum_tied_embedding() {
    for (const Range& range : tied_) {
        grid_.embedding->all_reduce(gradients_.rows(range.begin, range.end));
    }
}

void TrainingState::add_gradient_squares(device::Context& context, const device::View& step_sums) {
    const auto add = [&](const std::vector<Range>& ranges, model::StepSum which) {
        const device::View sum = sum_of(step_sums, which);
        for (const Range& range : ranges) {
            device::sum_squares(
                context,
                {.x = gradients_.rows(range.begin, range.end), .out = sum, .accumulate = true});
        }
    };
    add(counted_, model::gradient_sum_squares);
    add(copies_, model::copies_sum_squares);
}

std::vector<double> TrainingState::gradient_squares_by_unit(device::Context& context,
                                                            const device::View& step_sums) {
    const device::View sum = sum_of(step_sums, model::gradient_sum_squares);
    std::vector<double> squares(static_cast<size_t>(n_units_));
    for (const spec::LocalTensor& tensor : map_.layout().tensors) {
        for (const Range& range : intersection(counted_, {{tensor.offset, tensor.end()}})) {
            device::sum_squares(context,
                                {.x = gradients_.rows(range.begin, range.end), .out = sum});
            double value = 0;
            device_.copy_to_host(&value, sum);
            squares[static_cast<size_t>(tensor.unit)] += value;
        }
    }
    return squares;
}

double TrainingState::weight_squares(device::Context& context, const device::View& step_sums) {
    const device::View sum = sum_of(step_sums, model::gradient_sum_squares);
    double squares = 0;
    device_.copy_from_host(sum, &squares);
    const auto add = [&](const device::View& weights) {
        device::sum_squares(context, {.x = weights, .out = sum, .accumulate = true});
    };
    if (masters_) {
        for_masters([&](const Range& updated, const device::View& masters) {
            for (const Range& range : intersection(counted_, {updated})) {
                add(masters.rows(range.begin - updated.begin, range.end - updated.begin));
            }
        });
    } else {
        for (const Range& range : counted_) add(weights_.rows(range.begin, range.end));
    }
    device_.copy_to_host(&squares, sum);
    return squares;
}

i64 TrainingState::zero_gradients() {
    constexpr i64 piece = i64{1} << 20;
    std::vector<float> host(piece);
    i64 zeros = 0;
    for (const Range& range : counted_) {
        for (i64 begin = range.begin; begin < range.end; begin += piece) {
            const i64 end = std::min(begin + piece, range.end);
            device_.copy_to_host(host.data(), gradients_.rows(begin, end));
            zeros += std::count(host.begin(), host.begin() + (end - begin), 0.0F);
        }
    }
    return zeros;
}

void TrainingState::update(device::Context& context, const spec::UpdateRates& rates,
                           double grad_scale) {
    ++optimizer_step_;
    optimizer_->step(context, optimizer_step_, rates, grad_scale);
}

// ---- initialization and checkpoints -----------------------------------------------------------

void TrainingState::initialize(device::Context& context) {
    ThreadPool pool(n_threads_);
    model::initialize_weights(map_, device_, pool, seed_, weights_);
    // As in Megatron, the masters start from the weights after rounding.
    for_masters([&](const Range& range, const device::View& masters) {
        device::cast(context, {.x = weights_.rows(range.begin, range.end), .y = masters});
    });
}

std::vector<ckpt::Piece> TrainingState::checkpoint_pieces() {
    const device::View& weights = gathered_weights();
    std::vector<ckpt::StateMemory> states{
        {ckpt::SliceKind::weight, weights.dtype, weights.data, {{0, weights.numel()}}}};
    if (masters_) {
        states.push_back(
            {ckpt::SliceKind::master, masters_.dtype, masters_.data, data_parallel_->updated()});
    }
    for (const auto& [held, data] : states_) {
        states.push_back({held.state, data.dtype, data.data, held.ranges});
    }
    std::vector<ckpt::Piece> pieces =
        ckpt::pieces_of_rank(map_.layout(), grid_.at.tp, data_parallel_->owned(), states);
    if (device_.is_host()) return pieces;
    for (ckpt::Piece& piece : pieces) read_by_copies(piece, device_);
    return pieces;
}

// Loads the elements `range` of the flat buffer into target [range.size()].
void TrainingState::load_range(const ckpt::Checkpoint& checkpoint, ckpt::SliceKind kind,
                               const device::View& target, const Range& range) {
    const spec::RankLayout& layout = map_.layout();
    if (device_.is_host()) {
        checkpoint.load(map_.table(), layout, kind, target.dtype, target.data, range.begin,
                        range.end);
        return;
    }
    checkpoint.load_staged(map_.table(), layout, kind, target.dtype, range.begin, range.end,
                           [&](i64 begin, i64 end, const void* elements) {
                               device_.copy_from_host(
                                   target.rows(begin - range.begin, end - range.begin), elements);
                           });
}

void TrainingState::load(const ckpt::Checkpoint& checkpoint, bool with_optimizer) {
    // A training in fp32 has no masters. It loads the masters of the checkpoint into its weights.
    // From a checkpoint without masters, Checkpoint::load() reads the weights instead.
    const device::View& weights = gathered_weights();
    for (const Range& range : data_parallel_->owned()) {
        load_range(checkpoint, masters_ ? ckpt::SliceKind::weight : ckpt::SliceKind::master,
                   weights.rows(range.begin, range.end), range);
    }
    for_masters([&](const Range& range, const device::View& masters) {
        load_range(checkpoint, ckpt::SliceKind::master, masters, range);
    });
    if (!with_optimizer) return;
    for (const auto& [held, data] : states_) {
        i64 at = 0;
        for (const Range& range : held.ranges) {
            load_range(checkpoint, held.state, data.rows(at, at + range.size()), range);
            at += range.size();
        }
    }
    optimizer_step_ = checkpoint.manifest().counters.optimizer_step;
}

void TrainingState::load_rounded(const ckpt::Checkpoint& checkpoint, DType dtype) {
    const bool stored = checkpoint.manifest().tensors.at(0).dtype == dtype;
    const device::View& weights = gathered_weights();
    for (const Range& range : data_parallel_->owned()) {
        const device::View target = weights.rows(range.begin, range.end);
        load_range(checkpoint, stored ? ckpt::SliceKind::weight : ckpt::SliceKind::master, target,
                   range);
        if (stored || !is_half(dtype)) continue;
        const std::span values(static_cast<float*>(target.data),
                               static_cast<size_t>(target.numel()));
        for (float& value : values) {
            value = dtype == DType::bf16 ? fp32_from_bf16(bf16_from_fp32(value))
                                         : fp32_from_fp16(fp16_from_fp32(value));
        }
    }
}

void TrainingState::check_replicas(device::Context& context) {
    const device::View& weights = gathered_weights();
    const std::vector<Range>& updated = data_parallel_->updated();
    const bool whole = !data_parallel_->sharded();
    std::vector<parallel::HeldState> state{{"weight", weights, {{0, weights.numel()}}}};
    for (const auto& [held, data] : states_) {
        state.push_back({std::string(held.state.name), data, held.ranges, whole});
    }
    if (masters_) state.push_back({"master", masters_, updated, whole});
    parallel::check_replicas(map_, grid_, context, state);
}

}  // namespace lm::train
