// SPDX-License-Identifier: Apache-2.0
#include "parallel/training.hpp"

#include <cmath>
#include <cstring>
#include <mutex>
#include <stdexcept>

#include "ckpt/format/index.hpp"
#include "comm/threads/run_ranks.hpp"
#include "cpu/cpu_device.hpp"
#include "data/sampling/mock_source.hpp"
#include "parallel/together.hpp"
#include "train/save/distributed_save.hpp"

namespace lm::test {
namespace {

// Collects the pieces of all ranks as whole tensors. Every element must be in exactly one piece.
class Gathered {
  public:
    explicit Gathered(const spec::ModelConfig& config) : table_(spec::tensor_table(config)) {
        for (const spec::TensorSpec& tensor : table_) {
            const auto n = static_cast<size_t>(tensor.shape.numel());
            weights_[tensor.name].resize(n);
            exp_avg_[tensor.name].resize(n);
            exp_avg_sq_[tensor.name].resize(n);
            n_seen_[tensor.name].resize(n);
        }
    }

    void add(const std::vector<ckpt::Piece>& pieces) {
        for (const ckpt::Piece& piece : pieces) {
            // 16-bit weights are their masters, rounded.
            if (piece.kind == ckpt::SliceKind::weight && piece.dtype != DType::fp32) continue;
            const bool weight =
                piece.kind == ckpt::SliceKind::weight || piece.kind == ckpt::SliceKind::master;
            if (weight) add(piece, weights_, true);
            if (piece.kind == spec::exp_avg) add(piece, exp_avg_, false);
            if (piece.kind == spec::exp_avg_sq) add(piece, exp_avg_sq_, false);
        }
    }

    void finish(Outcome& outcome) {
        for (const auto& [name, counts] : n_seen_) {
            for (const int n : counts) {
                if (n != 1) throw std::runtime_error(name + ": not every element came once");
            }
        }
        outcome.weights = std::move(weights_);
        outcome.exp_avg = std::move(exp_avg_);
        outcome.exp_avg_sq = std::move(exp_avg_sq_);
    }

  private:
    using Values = std::map<std::string, std::vector<float>>;

    void add(const ckpt::Piece& piece, Values& values, bool count) {
        const spec::TensorSpec& tensor = table_[static_cast<size_t>(piece.tensor)];
        const Shape box = piece.box.shape();
        const i64 columns = box.rank() == 2 ? box[1] : 1;
        const i64 all_columns = box.rank() == 2 ? tensor.shape[1] : 1;
        const i64 first_column = box.rank() == 2 ? piece.box.start[1] : 0;
        for (i64 i = piece.flat_begin; i < piece.flat_end; ++i) {
            const i64 row = piece.box.start[0] + i / columns;
            const auto at = static_cast<size_t>(row * all_columns + first_column + i % columns);
            values[tensor.name].at(at) =
                static_cast<const float*>(piece.data)[i - piece.flat_begin];
            n_seen_[tensor.name].at(at) += count ? 1 : 0;
        }
    }

    std::vector<spec::TensorSpec> table_;
    Values weights_, exp_avg_, exp_avg_sq_;
    std::map<std::string, std::vector<int>> n_seen_;
};

}  // namespace

Outcome train_on_ranks(const Training& training) {
    const train::TrainerConfig& config = training.trainer;
    const spec::ParallelConfig& parallel = config.parallel;
    const i64 n_micro = training.global_batch / (config.micro_batch * parallel.dp);
    if (n_micro * config.micro_batch * parallel.dp != training.global_batch) {
        throw std::runtime_error("the global batch does not divide by micro-batch and dp");
    }
    Gathered gathered(config.model);
    Outcome outcome;
    std::mutex mutex;
    const auto run = [&](train::Trainer& trainer) {
        trainer.initialize();
        if (training.prepare) training.prepare(trainer);
        const data::MockSource source(config.model.seq_length, config.model.vocab_size, 5);
        const data::BatchOptions options{.micro_batch = config.micro_batch};
        data::Loader loader(source, options, training.first_sample, parallel.dp,
                            trainer.grid().at.dp, 0);
        train::LoaderBatches batches(loader);
        std::vector<double> losses, norms, scales;
        std::vector<bool> updated;
        for (int step = 0; step < training.n_steps; ++step) {
            train::StepResult result = trainer.compute_gradients(batches, n_micro);
            losses.push_back(result.loss);
            norms.push_back(result.gradient_norm);
            scales.push_back(result.loss_scale);
            updated.push_back(result.finite);
            if (training.before_update) training.before_update(trainer, result);
            if (result.finite) trainer.update(result, {training.lr});
            if (training.after_step) training.after_step(trainer, step);
        }
        const double validation = trainer.evaluate(batches, n_micro).mean();
        trainer.check_replicas();
        const std::lock_guard lock(mutex);
        for (std::vector<double>* values : {&losses, &norms}) {
            for (double& value : *values) value = std::isfinite(value) ? value : -1;
        }
        if (!outcome.losses.empty() && (outcome.losses != losses || outcome.norms != norms ||
                                        outcome.scales != scales || outcome.updated != updated)) {
            throw std::runtime_error("ranks have different losses, norms or loss scales");
        }
        outcome.losses = losses;
        outcome.norms = norms;
        outcome.scales = scales;
        outcome.updated = updated;
        outcome.validation = validation;
        gathered.add(trainer.checkpoint_pieces());
    };
    const auto body = [&](comm::Group& world) {
        const auto device = cpu::make_device(config.n_threads);
        const auto trainer =
            train::Trainer::allocate(config, *device, parallel::make_grid(world, parallel));
        if (device->allocated_bytes() != trainer->memory().total()) {
            throw std::runtime_error(fmt::format("expected {} bytes of the plan, got {}",
                                                 trainer->memory().total(),
                                                 device->allocated_bytes()));
        }
        try {
            run(*trainer);
        } catch (const std::exception& error) {
            // Pending operations may still read memory that unwinding would free.
            world.abort(error.what());
            throw;
        }
    };
    comm::run_ranks(static_cast<int>(parallel.tp * parallel.pp * parallel.dp), body);
    gathered.finish(outcome);
    return outcome;
}

void save_step(train::Trainer& trainer, const train::TrainerConfig& config,
               const std::string& directory, i64 iteration) {
    ckpt::SaveInfo info;
    info.model = config.model;
    info.parallel = config.parallel;
    info.counters.iteration = iteration;
    info.counters.optimizer_step = trainer.optimizer_step();
    info.weights = config.precision.weights;
    comm::Group& world = *trainer.grid().world;
    const auto files = train::NodeFiles::plan(
        world, world.split(world.rank() / 2, world.rank(), "node"),
        ckpt::tensors_of(config.model, info.weights), trainer.checkpoint_pieces());
    train::DistributedSave step(world, *files, train::claim_generation(world, directory, {}), info);
    step.begin({});
    step.write(trainer.checkpoint_pieces());
    step.commit();
}

double weight_distance(const std::map<std::string, std::vector<float>>& a,
                       const std::map<std::string, std::vector<float>>& b) {
    double sum = 0;
    for (const auto& [name, values] : a) {
        if (name.ends_with("attention.key.bias")) continue;
        const std::vector<float>& other = b.at(name);
        for (size_t i = 0; i < values.size(); ++i) {
            const double difference = static_cast<double>(values[i]) - other[i];
            sum += difference * difference;
        }
    }
    return std::sqrt(sum);
}

}  // namespace lm::test
