// SPDX-License-Identifier: Apache-2.0
#include "layout_run.hpp"

#include <fmt/format.h>

#include <memory>
#include <mutex>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "comm/threads/run_ranks.hpp"
#include "model/chunk.hpp"
#include "model/init.hpp"
#include "model/positions.hpp"

namespace lm::test {
namespace {

using namespace lm::model;

// Records the calls of the hooks, for comparison with the units of the part.
struct Recorder final : ChunkHooks {
    std::vector<i64> forward, backward;
    void before_forward(i64 unit) override { forward.push_back(unit); }
    void after_backward(i64 unit) override { backward.push_back(unit); }
};

i32 number(u64 seed, i64 index, i64 below) {
    return static_cast<i32>(philox(seed, static_cast<u64>(index), 0)[0] % static_cast<u64>(below));
}

// One pipeline stage of one tensor rank.
class Stage {
  public:
    Stage(const LayoutRun& run, device::Device& device, comm::Group& tensor, i64 pp_rank)
        : run_(run),
          device_(device),
          step_{run.micro_batch, run.config.seq_length, run.n_micro_batches},
          map_(run.config, run.parallel, tensor.rank(), pp_rank) {
        const Shape flat{map_.layout().n_elements};
        weights_ = device.allocate(4 * flat.numel(), "weights");
        gradients_ = device.allocate(4 * flat.numel(), "gradients");
        ThreadPool pool(1);
        initialize_weights(map_, device, pool, 7, weights_.view(DType::fp32, flat));
        perturb_vectors();
        // Reveals gradients that the step neither overwrites nor zeroes.
        std::ranges::fill(gradients_.view(DType::fp32, flat).span<float>(), 1e3F);
        const cost::MemoryPlan plan = cost::plan_memory(run.config, run.parallel, step_, {},
                                                        {run.n_threads}, tensor.rank(), pp_rank);
        activations_ = device.allocate(plan.activations + plan.workspace, "activations");
        workspace_ = activations_.view(plan.activations, DType::uint8, {plan.workspace});
        const auto chunks = bind_activations(
            cost::plan_activations(
                run.config, run.parallel, step_,
                cost::stage_shape(run.config, run.parallel, step_, pp_rank, tensor.rank())),
            activations_);
        write_position_constants(run.config, device, chunks.front().scratch);
        for (i64 chunk = 0; chunk < run.parallel.n_chunks; ++chunk) {
            hooks_.push_back(std::make_unique<Recorder>());
            const ChunkSetup setup{
                .config = run.config,
                .parallel = run.parallel,
                .part = spec::model_part(run.config, run.parallel, pp_rank, chunk),
                .seed = 11,
                .tensor = &tensor,
                .hooks = hooks_.back().get()};
            chunks_.push_back(std::make_unique<GptChunk>(
                setup, map_.bind(weights_.view(DType::fp32, flat), chunk),
                map_.bind(gradients_.view(DType::fp32, flat), chunk),
                chunks[static_cast<size_t>(chunk)]));
        }
    }

    GptChunk& chunk(i64 index) { return *chunks_[static_cast<size_t>(index)]; }
    const Recorder& hooks(i64 index) const { return *hooks_[static_cast<size_t>(index)]; }
    const ParamMap& map() const { return map_; }
    View gradients() const { return gradients_.view(DType::fp32, {map_.layout().n_elements}); }
    double loss() const { return chunks_.back()->scratch().step_sums.span<double>()[loss_sum]; }

    MicroBatch micro_batch(i64 chunk, i64 i) {
        return {.slot = static_cast<int>(i % this->chunk(chunk).n_slots()),
                .training = run_.training,
                .first = i == 0,
                .last = i + 1 == run_.n_micro_batches};
    }
    void forward(i64 chunk, i64 i) {
        device::Context context{device_, workspace_};
        fill_inputs(this->chunk(chunk).slot(micro_batch(chunk, i).slot).inputs, i);
        this->chunk(chunk).forward(context, micro_batch(chunk, i));
    }
    void loss(i64 chunk, i64 i) {
        device::Context context{device_, workspace_};
        if (run_.training) {
            this->chunk(chunk).loss_and_gradient(context, micro_batch(chunk, i), 3.0);
        } else {
            this->chunk(chunk).loss(context, micro_batch(chunk, i));
        }
    }
    void backward(i64 chunk, i64 i) {
        device::Context context{device_, workspace_};
        this->chunk(chunk).backward(context, micro_batch(chunk, i));
    }

  private:
    // Biases start at zero and norms at one, which would hide values that every rank adds.
    void perturb_vectors() {
        for (const spec::LocalTensor& local : map_.layout().tensors) {
            if (local.shape.rank() != 1) continue;
            const View view =
                map_.view_of(local, weights_.view(DType::fp32, {map_.layout().n_elements}));
            const u64 key = stream_key(5, map_.spec_of(local).name);
            for (i64 i = 0; i < view.numel(); ++i) {
                const auto element = static_cast<u64>(local.box.start[0] + i);
                view.as<float>()[i] += 0.1F * static_cast<float>(normal(key, element));
            }
        }
    }

    void fill_inputs(const MicroBatchInputs& inputs, i64 i) {
        const i64 t = run_.config.seq_length;
        for (i64 b = 0; b < run_.micro_batch; ++b) {
            const i64 sample = i * run_.micro_batch + b;
            inputs.sample_ids.span<i64>()[static_cast<size_t>(b)] = 1000 + sample;
            for (i64 at = 0; at < t; ++at) {
                const auto row = static_cast<size_t>(b * t + at);
                const i64 place = sample * t + at;
                inputs.doc_start.span<i32>()[row] = at < t / 2 ? 0 : static_cast<i32>(t / 2);
                if (inputs.tokens) {
                    inputs.tokens.span<i32>()[row] = number(1, place, run_.config.vocab_size);
                }
                if (inputs.positions) inputs.positions.span<i32>()[row] = static_cast<i32>(at);
                if (!inputs.targets) continue;
                inputs.targets.span<i32>()[row] = number(2, place, run_.config.vocab_size);
                inputs.loss_mask.span<float>()[row] = number(3, place, 4) == 0 ? 0.0F : 0.01F;
            }
        }
        if (run_.config.window > 0) {
            limit_to_window(inputs.doc_start.span<i32>(), t, run_.config.window);
        }
    }

    const LayoutRun& run_;
    device::Device& device_;
    cost::StepShape step_;
    ParamMap map_;
    device::Buffer weights_, gradients_, activations_;
    View workspace_;
    std::vector<std::unique_ptr<Recorder>> hooks_;
    std::vector<std::unique_ptr<GptChunk>> chunks_;
};

// All stages of one tensor rank.
class Rank {
  public:
    Rank(const LayoutRun& run, comm::Group& tensor)
        : run_(run), tensor_(tensor), device_(cpu::make_device(run.n_threads, run.kernels)) {
        for (i64 stage = 0; stage < run.parallel.pp; ++stage) {
            stages_.push_back(std::make_unique<Stage>(run, *device_, tensor, stage));
        }
    }

    // Runs one step. In all parts but the last, several micro-batches are in flight.
    void step() {
        const i64 last = run_.parallel.n_parts() - 1;
        for (i64 part = 0; part < last; ++part) {
            LM_CHECK(gpt(part).n_slots() >= run_.n_micro_batches, "too many in flight");
            for (i64 i = 0; i < run_.n_micro_batches; ++i) forward(part, i);
        }
        for (i64 i = 0; i < run_.n_micro_batches; ++i) {
            forward(last, i);
            stage(last).loss(chunk(last), i);
            if (run_.training) stage(last).backward(chunk(last), i);
            hand_back(last, i);
        }
        for (i64 part = last - 1; part >= 0; --part) {
            for (i64 i = 0; i < run_.n_micro_batches; ++i) {
                if (run_.training) stage(part).backward(chunk(part), i);
                hand_back(part, i);
            }
        }
    }

    void gather(Outcome& outcome) {
        outcome.loss = stages_.back()->loss();
        std::map<std::string, bool> seen;
        for (const auto& stage : stages_) {
            for (const spec::LocalTensor& local : stage->map().layout().tensors) {
                gather(*stage, local, outcome);
            }
        }
        for (i64 part = 0; part < run_.parallel.n_parts(); ++part) check_hooks(part, outcome);
    }

  private:
    Stage& stage(i64 part) { return *stages_[static_cast<size_t>(part % run_.parallel.pp)]; }
    i64 chunk(i64 part) const { return part / run_.parallel.pp; }
    GptChunk& gpt(i64 part) { return stage(part).chunk(chunk(part)); }
    int slot(i64 part, i64 i) { return stage(part).micro_batch(chunk(part), i).slot; }

    void forward(i64 part, i64 i) {
        if (part > 0) {
            const View& from = gpt(part - 1).stage_output(slot(part - 1, i));
            std::ranges::copy(from.span<float>(),
                              gpt(part).stage_input(slot(part, i)).span<float>().begin());
        }
        stage(part).forward(chunk(part), i);
    }
    // Copies the gradient of the part's input to the previous part.
    void hand_back(i64 part, i64 i) {
        if (part == 0) return;
        const View& from = gpt(part).stage_input(slot(part, i));
        std::ranges::copy(from.span<float>(),
                          gpt(part - 1).stage_output(slot(part - 1, i)).span<float>().begin());
    }

    void gather(Stage& stage, const spec::LocalTensor& local, Outcome& outcome) {
        const spec::TensorSpec& tensor = stage.map().spec_of(local);
        std::vector<float>& whole = outcome.gradients[tensor.name];
        whole.resize(static_cast<size_t>(tensor.shape.numel()));
        const View view = stage.map().view_of(local, stage.gradients());
        const i64 cols = tensor.shape.rank() == 2 ? tensor.shape[1] : 1;
        const i64 first_col = tensor.shape.rank() == 2 ? local.box.start[1] : 0;
        const i64 local_cols = tensor.shape.rank() == 2 ? local.shape[1] : 1;
        for (i64 row = 0; row < local.shape[0]; ++row) {
            for (i64 col = 0; col < local_cols; ++col) {
                const float value = view.as<float>()[row * local_cols + col];
                if (row >= local.box.shape()[0]) {
                    if (value != 0) outcome.faults.push_back(tensor.name + ": padding");
                    continue;
                }
                const auto at =
                    static_cast<size_t>((local.box.start[0] + row) * cols + first_col + col);
                if (local.copy) {
                    whole[at] += value;  // as the embedding group does
                } else if (local.replicated && tensor_.rank() > 0) {
                    if (whole[at] != value) outcome.faults.push_back(tensor.name + ": copy");
                } else {
                    whole[at] = value;
                }
            }
        }
    }

    void check_hooks(i64 part, Outcome& outcome) {
        const spec::ModelPart& model_part = gpt(part).part();
        std::vector<i64> units;
        if (model_part.embedding) units.push_back(spec::embedding_unit);
        for (i64 layer = model_part.first_layer; layer < model_part.end_layer; ++layer) {
            units.push_back(spec::unit_of_layer(layer));
        }
        if (model_part.head) units.push_back(spec::head_unit(run_.config));
        std::vector<i64> forward;
        for (i64 i = 0; i < run_.n_micro_batches; ++i) {
            forward.insert(forward.end(), units.begin(), units.end());
        }
        const Recorder& hooks = stage(part).hooks(chunk(part));
        if (hooks.forward != forward) outcome.faults.push_back("before_forward");
        if (!run_.training) units.clear();
        if (hooks.backward != std::vector<i64>(units.rbegin(), units.rend())) {
            outcome.faults.push_back("after_backward");
        }
    }

    const LayoutRun& run_;
    comm::Group& tensor_;
    std::unique_ptr<device::Device> device_;
    std::vector<std::unique_ptr<Stage>> stages_;
};

}  // namespace

Outcome run_layout(LayoutRun run) {
    run.config.init_std = 0.2;  // attention far from uniform
    Outcome outcome;
    std::mutex turn;
    comm::run_ranks(static_cast<int>(run.parallel.tp), [&](comm::Group& world) {
        Rank rank(run, world);
        rank.step();
        for (int r = 0; r < world.size(); ++r) {  // rank 0 first
            world.barrier();
            if (r != world.rank()) continue;
            const std::lock_guard lock(turn);
            const double loss = outcome.loss;
            rank.gather(outcome);
            if (r > 0 && outcome.loss != loss) outcome.faults.push_back("loss");
        }
    });
    return outcome;
}

}  // namespace lm::test
