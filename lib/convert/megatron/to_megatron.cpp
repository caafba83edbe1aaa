// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/to_megatron.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "convert/megatron/megatron_exporter.hpp"
#include "io/file.hpp"

namespace lm::convert {
namespace {

using ckpt::SliceKind;

class LmExporter : public MegatronExporter {
  public:
    explicit LmExporter(const ConversionRequest& request) : MegatronExporter(request, true) {}

    ConversionReport run() {
        io::AtomicDirectory out = make_output(request_.out, {request_.in}, request_.force);
        n_total_ = layout_.n_bytes(dtype_, has_optimizer_ ? n_states() + (mixed() ? 1 : 0) : 0);
        for (i64 stage = 0; stage < layout_.pp(); ++stage) {
            for (i64 rank = 0; rank < layout_.tp(); ++rank) write_lm_rank(out.path(), rank, stage);
        }
        io::write_file(out.path() + "/latest_checkpointed_iteration.txt",
                       fmt::format("{}", iteration()), io::Overwrite::no);
        return finish(out);
    }

  private:
    void write_lm_rank(const std::string& out, i64 rank, i64 stage) {
        const std::string folder =
            fmt::format("{}/iter_{:07}/mp_rank_{:02}{}", out, iteration(), rank,
                        layout_.pp() > 1 ? fmt::format("_{:03}", stage) : "");
        io::make_directories(folder);
        const Tensors tensors = layout_.tensors(rank, stage);
        MegatronFile file = new_file();
        PickleWriter& pickle = file.pickle();
        pickle.open_dict();
        pickle.key("args");
        layout_.write_args(pickle, checkpoint_.manifest(), dtype_);
        pickle.key("checkpoint_version").real(megatron_checkpoint_version);
        pickle.key("iteration").integer(iteration());
        pickle.key("model");
        if (is_core()) {
            write_core_model(file, tensors);
        } else {
            write_lm_model(file, tensors);
        }
        if (has_optimizer_) {
            pickle.key("optimizer");
            write_lm_optimizer(file, tensors);
            pickle.key("opt_param_scheduler");
            write_scheduler(file);
        }
        pickle.close_dict();
        file.write(folder + "/model_optim_rng.pt");
    }

    bool is_core() const { return layout_.names() != MegatronNames::classic; }

    static std::string core_name(const MegatronTensor& tensor) {
        switch (tensor.section) {
            case MegatronSection::embedding:
                return "embedding." + tensor.name;
            case MegatronSection::layer:
                return fmt::format("decoder.layers.{}.{}", tensor.local, tensor.name);
            case MegatronSection::norm:
                return "decoder.final_layernorm." + tensor.name;
            case MegatronSection::head:
            case MegatronSection::tied_copy:
                return "output_layer." + tensor.name;
        }
        return {};
    }

    void write_core_model(MegatronFile& file, const Tensors& tensors) {
        file.pickle().open_dict();
        for (const MegatronTensor& tensor : tensors) {
            file.pickle().key(core_name(tensor));
            file.tensor(tensor.map, weight_kind(), dtype_);
        }
        file.pickle().close_dict();
    }

    void write_lm_model(MegatronFile& file, const Tensors& tensors) {
        PickleWriter& pickle = file.pickle();
        const auto put = [&](const std::string& name, const MegatronTensor& tensor) {
            pickle.key(name);
            file.tensor(tensor.map, weight_kind(), dtype_);
        };
        // Writes a dict of the tensors for which name() returns a name.
        const auto section = [&](const char* key, auto name) {
            pickle.key(key).open_dict();
            for (const MegatronTensor& tensor : tensors) {
                const std::string text = name(tensor);
                if (!text.empty()) put(text, tensor);
            }
            pickle.close_dict();
        };
        const auto has = [&](MegatronSection wanted) {
            return std::any_of(tensors.begin(), tensors.end(),
                               [&](const auto& tensor) { return tensor.section == wanted; });
        };
        pickle.open_dict();
        pickle.key("language_model").open_dict();
        if (has(MegatronSection::embedding)) {
            section("embedding", [](const MegatronTensor& tensor) {
                return tensor.section == MegatronSection::embedding ? tensor.name : std::string();
            });
        }
        section("encoder", [](const MegatronTensor& tensor) {
            if (tensor.section == MegatronSection::norm) return "final_layernorm." + tensor.name;
            if (tensor.section != MegatronSection::layer) return std::string();
            return fmt::format("layers.{}.{}", tensor.local, tensor.name);
        });
        if (has(MegatronSection::head)) {
            section("output_layer", [](const MegatronTensor& tensor) {
                return tensor.section == MegatronSection::head ? tensor.name : std::string();
            });
        }
        pickle.close_dict();
        if (has(MegatronSection::tied_copy)) {
            section("word_embeddings_for_head", [](const MegatronTensor& tensor) {
                return tensor.section == MegatronSection::tied_copy ? tensor.name : std::string();
            });
        }
        pickle.close_dict();
    }

    // Writes the state of Apex's optimizer; with mixed precision, inside of Megatron's wrapper.
    void write_lm_optimizer(MegatronFile& file, const Tensors& tensors) {
        PickleWriter& pickle = file.pickle();
        pickle.open_dict();
        if (mixed()) {
            pickle.key("optimizer").open_dict();
        }
        write_state(file, tensors);
        write_groups(file, tensors);
        if (mixed()) {
            pickle.close_dict();
            pickle.key("fp32_from_fp16_params").open_list();
            for (const auto& group : groups(tensors)) {
                pickle.open_list();
                for (const MegatronTensor* tensor : group) {
                    file.tensor(tensor->map, SliceKind::master, DType::fp32);
                }
                pickle.close_list();
            }
            pickle.close_list();
            if (dtype_ == DType::fp16 && optimizer_.loss_scale) write_grad_scaler(file);
        }
        pickle.close_dict();
    }

    // Writes the state of Megatron's DynamicGradScaler.
    void write_grad_scaler(MegatronFile& file) {
        PickleWriter& pickle = file.pickle();
        pickle.key("grad_scaler").open_dict();
        pickle.key("scale");
        file.last_scalar(optimizer_.loss_scale->scale);
        pickle.key("growth_tracker").integer(optimizer_.loss_scale->steps_since_overflow);
        pickle.key("hysteresis_tracker").integer(optimizer_.loss_scale->hysteresis_left);
        pickle.close_dict();
    }

    void write_state(MegatronFile& file, const Tensors& tensors) {
        PickleWriter& pickle = file.pickle();
        pickle.key("state").open_dict();
        i64 number = 0;
        for (const auto& group : groups(tensors)) {
            for (const MegatronTensor* tensor : group) {
                pickle.integer(number++);
                pickle.open_dict();
                // Without TransformerEngine and Apex, Megatron uses PyTorch's AdamW, which needs a
                // step for each tensor. The optimizers of TransformerEngine and Apex refuse such a
                // step.
                if (layout_.names() == MegatronNames::local) {
                    pickle.key("step").integer(checkpoint_.manifest().counters.optimizer_step);
                }
                for (const spec::OptimizerState& state : spec::adam_states) {
                    pickle.key(state.name);
                    file.tensor(tensor->map, state, state.dtype);
                }
                pickle.close_dict();
            }
        }
        pickle.close_dict();
    }

    void write_groups(MegatronFile& file, const Tensors& tensors) {
        PickleWriter& pickle = file.pickle();
        pickle.key("param_groups").open_list();
        i64 number = 0;
        double decay = 1;  // the first group has weight decay
        for (const auto& group : groups(tensors)) {
            pickle.open_dict();
            pickle.key("wd_mult").real(decay);
            pickle.key("lr_mult").real(1);
            for (const char* key : {"is_expert_parallel", "is_decoupled_lr"}) {
                pickle.key(key).boolean(false);
            }
            pickle.key("default_config").boolean(true);
            write_hyperparameters(pickle, optimizer_, std::exchange(decay, 0) != 0);
            pickle.key("step").integer(checkpoint_.manifest().counters.optimizer_step);
            pickle.key("params").open_list();
            for (size_t i = 0; i < group.size(); ++i) pickle.integer(number++);
            pickle.close_list();
            pickle.close_dict();
        }
        pickle.close_list();
    }

    // Writes the state of Megatron's scheduler, which Megatron compares with its own flags. An
    // imported checkpoint states no schedule: its zeros need --override-opt_param-scheduler.
    void write_scheduler(MegatronFile& file) {
        PickleWriter& pickle = file.pickle();
        const ExportedSchedule& schedule = optimizer_.schedule;
        pickle.open_dict();
        pickle.key("max_lr").real(schedule.lr);
        pickle.key("min_lr").real(schedule.min_lr);
        pickle.key("start_wd").real(schedule.start_weight_decay);
        pickle.key("end_wd").real(schedule.end_weight_decay);
        pickle.key("lr_warmup_steps").integer(std::llround(schedule.warmup_samples));
        pickle.key("lr_decay_steps").integer(std::llround(schedule.decay_samples));
        pickle.key("wd_incr_steps").integer(std::llround(schedule.train_samples));
        pickle.key("lr_decay_style").text(schedule.decay_style);
        pickle.key("wd_incr_style").text(schedule.weight_decay_style);
        pickle.key("num_steps").integer(checkpoint_.manifest().counters.consumed_samples);
        pickle.close_dict();
    }
};

}  // namespace

ConversionReport to_megatron_lm(const ConversionRequest& request) {
    return LmExporter(request).run();
}

}  // namespace lm::convert
