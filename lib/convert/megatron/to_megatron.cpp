// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/to_megatron.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "base/error.hpp"
#include "ckpt/history/steps.hpp"
#include "convert/megatron/megatron_export.hpp"
#include "io/file.hpp"

namespace lm::convert {
namespace {

using ckpt::SliceKind;

constexpr double checkpoint_version = 3.0;

class Exporter {
  public:
    explicit Exporter(const ConversionRequest& request)
        : request_(request),
          checkpoint_(ckpt::open(request.in)),
          layout_(checkpoint_.manifest().model, request.tp, request.pp),
          dtype_(request.dtype.value_or(checkpoint_.manifest().tensors.at(0).dtype)),
          has_optimizer_(checkpoint_.has(SliceKind::exp_avg)) {}

    ConversionReport run_lm() {
        io::AtomicDirectory out = make_output(request_.out, {request_.in}, request_.force);
        n_total_ = layout_.n_bytes(dtype_, has_optimizer_ ? (mixed() ? 3 : 2) : 0);
        for (i64 stage = 0; stage < layout_.pp(); ++stage) {
            for (i64 rank = 0; rank < layout_.tp(); ++rank) write_lm_rank(out.path(), rank, stage);
        }
        io::write_file(out.path() + "/latest_checkpointed_iteration.txt",
                       fmt::format("{}", iteration()), io::Overwrite::no);
        return finish(out);
    }

    ConversionReport run_deepspeed() {
        layout_.copy_tied_module();
        io::AtomicDirectory out = make_output(request_.out, {request_.in}, request_.force);
        const std::string step = fmt::format("{}/global_step{}", out.path(), iteration());
        io::make_directories(step);
        n_total_ = layout_.n_bytes(dtype_, has_optimizer_ ? 3 : 0);
        for (i64 stage = 0; stage < layout_.pp(); ++stage) {
            for (i64 rank = 0; rank < layout_.tp(); ++rank) {
                const std::vector<MegatronTensor> tensors = layout_.tensors(rank, stage);
                write_layers(step, rank, tensors);
                write_deepspeed_rank(step, stage * layout_.tp() + rank, tensors);
            }
        }
        io::write_file(out.path() + "/latest", fmt::format("global_step{}", iteration()),
                       io::Overwrite::no);
        return finish(out);
    }

  private:
    using Tensors = std::vector<MegatronTensor>;

    ConversionReport finish(io::AtomicDirectory& out) {
        report_.end_of_document = checkpoint_.manifest().tokenizer.end_of_document;
        if (request_.check) request_.check(out.path());
        out.commit();
        return report_;
    }

    i64 iteration() const { return checkpoint_.manifest().counters.iteration; }
    bool mixed() const { return is_half(dtype_); }
    SliceKind weight_kind() const {
        const bool stored = dtype_ == checkpoint_.manifest().tensors.at(0).dtype;
        return stored ? SliceKind::weight : SliceKind::master;
    }
    MegatronFile new_file() { return {checkpoint_, request_, report_, n_total_}; }

    static void integer(MegatronFile& file, const char* key, i64 value) {
        file.pickle().key(key);
        file.pickle().integer(value);
    }

    // Returns the parameter groups of Megatron: the tensors with weight decay, then those without.
    static std::array<std::vector<const MegatronTensor*>, 2> groups(const Tensors& tensors) {
        std::array<std::vector<const MegatronTensor*>, 2> result;
        for (const MegatronTensor& tensor : tensors) {
            result[tensor.decays() ? 0 : 1].push_back(&tensor);
        }
        return result;
    }

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
        pickle.key("checkpoint_version");
        pickle.real(checkpoint_version);
        integer(file, "iteration", iteration());
        pickle.key("model");
        write_lm_model(file, tensors);
        if (has_optimizer_) {
            pickle.key("optimizer");
            write_lm_optimizer(file, tensors);
            pickle.key("opt_param_scheduler");
            write_scheduler(file);
        }
        pickle.close_dict();
        file.write(folder + "/model_optim_rng.pt");
    }

    void write_lm_model(MegatronFile& file, const Tensors& tensors) {
        PickleWriter& pickle = file.pickle();
        const auto put = [&](const std::string& name, const MegatronTensor& tensor) {
            pickle.key(name);
            file.tensor(tensor.map, weight_kind(), dtype_);
        };
        // Opens a dict, adds the tensors for which `name` returns a name, and closes it.
        const auto section = [&](const char* key, auto name) {
            pickle.key(key);
            pickle.open_dict();
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
        pickle.key("language_model");
        pickle.open_dict();
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

    // Writes the state of Apex's optimizer, in Megatron's wrapper for mixed precision if needed.
    void write_lm_optimizer(MegatronFile& file, const Tensors& tensors) {
        PickleWriter& pickle = file.pickle();
        pickle.open_dict();
        if (mixed()) {
            pickle.key("optimizer");
            pickle.open_dict();
        }
        write_state(file, tensors);
        write_groups(file, tensors);
        if (mixed()) {
            pickle.close_dict();
            pickle.key("fp32_from_fp16_params");
            pickle.open_list();
            for (const auto& group : groups(tensors)) {
                pickle.open_list();
                for (const MegatronTensor* tensor : group) {
                    file.tensor(tensor->map, SliceKind::master, DType::fp32);
                }
                pickle.close_list();
            }
            pickle.close_list();
        }
        pickle.close_dict();
    }

    void write_state(MegatronFile& file, const Tensors& tensors) {
        PickleWriter& pickle = file.pickle();
        pickle.key("state");
        pickle.open_dict();
        i64 number = 0;
        for (const auto& group : groups(tensors)) {
            for (const MegatronTensor* tensor : group) {
                pickle.integer(number++);
                pickle.open_dict();
                pickle.key("exp_avg");
                file.tensor(tensor->map, SliceKind::exp_avg, DType::fp32);
                pickle.key("exp_avg_sq");
                file.tensor(tensor->map, SliceKind::exp_avg_sq, DType::fp32);
                pickle.close_dict();
            }
        }
        pickle.close_dict();
    }

    void write_groups(MegatronFile& file, const Tensors& tensors) {
        PickleWriter& pickle = file.pickle();
        pickle.key("param_groups");
        pickle.open_list();
        i64 number = 0;
        double decay = 1;  // the first group has weight decay
        for (const auto& group : groups(tensors)) {
            pickle.open_dict();
            pickle.key("wd_mult");
            pickle.real(std::exchange(decay, 0));
            pickle.key("lr_mult");
            pickle.real(1);
            integer(file, "step", checkpoint_.manifest().counters.optimizer_step);
            pickle.key("params");
            pickle.open_list();
            for (size_t i = 0; i < group.size(); ++i) pickle.integer(number++);
            pickle.close_list();
            pickle.close_dict();
        }
        pickle.close_list();
    }

    // Writes the state of Megatron's scheduler. All values but num_steps are placeholders: a run
    // with --override-opt_param-scheduler replaces them by its own flags.
    void write_scheduler(MegatronFile& file) {
        PickleWriter& pickle = file.pickle();
        pickle.open_dict();
        for (const char* key : {"max_lr", "min_lr", "start_wd", "end_wd"}) {
            pickle.key(key);
            pickle.real(0);
        }
        for (const char* key : {"lr_warmup_steps", "lr_decay_steps", "wd_incr_steps"}) {
            integer(file, key, 0);
        }
        for (const char* key : {"lr_decay_style", "wd_incr_style"}) {
            pickle.key(key);
            pickle.text("constant");
        }
        integer(file, "num_steps", checkpoint_.manifest().counters.consumed_samples);
        pickle.close_dict();
    }

    // Returns the number of the tensor's layer file, as in current Megatron-DeepSpeed with L
    // layers: embedding 1, layers 2 to L + 1, final norm L + 2, head L + 3.
    i64 layer_number(const MegatronTensor& tensor) const {
        const i64 n_layers = checkpoint_.manifest().model.n_layers;
        switch (tensor.section) {
            case MegatronSection::layer:
                return 2 + tensor.layer;
            case MegatronSection::norm:
                return 2 + n_layers;
            case MegatronSection::head:
                return 3 + n_layers;
            default:
                return 1;
        }
    }
    static std::string layer_name(const MegatronTensor& tensor) {
        return tensor.section == MegatronSection::head ? "lm_head.weight" : tensor.name;
    }
    // Returns the name of a parameter in DeepSpeed's pipeline module.
    std::string parameter_name(const MegatronTensor& tensor) const {
        if (tensor.section == MegatronSection::embedding ||
            tensor.section == MegatronSection::tied_copy) {
            return "tied_modules.embed." + tensor.name;
        }
        return fmt::format("{}.{}", layer_number(tensor), layer_name(tensor));
    }

    void write_layers(const std::string& step, i64 rank, const Tensors& tensors) {
        std::map<i64, std::vector<const MegatronTensor*>> layers;
        for (const MegatronTensor& tensor : tensors) {
            if (tensor.section == MegatronSection::tied_copy) continue;
            layers[layer_number(tensor)].push_back(&tensor);
        }
        for (const auto& [number, list] : layers) {
            MegatronFile file = new_file();
            file.pickle().open_dict();
            for (const MegatronTensor* tensor : list) {
                file.pickle().key(layer_name(*tensor));
                file.tensor(tensor->map, weight_kind(), dtype_);
            }
            file.pickle().close_dict();
            file.write(
                fmt::format("{}/layer_{:02}-model_{:02}-model_states.pt", step, number, rank));
        }
    }

    void write_deepspeed_rank(const std::string& step, i64 mp_rank, const Tensors& tensors) {
        MegatronFile file = new_file();
        PickleWriter& pickle = file.pickle();
        pickle.open_dict();
        pickle.key("module");
        pickle.none();
        pickle.key("param_shapes");
        pickle.open_list();
        for (const auto& group : groups(tensors)) {
            pickle.open_dict();
            for (const MegatronTensor* tensor : group) {
                pickle.key(parameter_name(*tensor));
                pickle.size(tensor->map.shape());
            }
            pickle.close_dict();
        }
        pickle.close_list();
        integer(file, "dp_world_size", 1);
        integer(file, "mp_world_size", layout_.tp() * layout_.pp());
        integer(file, "global_steps", iteration());
        integer(file, "global_samples", checkpoint_.manifest().counters.consumed_samples);
        integer(file, "skipped_steps", 0);
        integer(file, "iteration", iteration());
        pickle.key("checkpoint_version");
        pickle.real(checkpoint_version);
        pickle.key("args");
        layout_.write_args(pickle, checkpoint_.manifest(), dtype_);
        write_universal_info(pickle, checkpoint_.manifest().model);
        pickle.close_dict();
        file.write(fmt::format("{}/mp_rank_{:02}_model_states.pt", step, mp_rank));
        if (has_optimizer_) write_zero(step, mp_rank, tensors);
    }

    void write_zero(const std::string& step, i64 mp_rank, const Tensors& tensors) {
        MegatronFile file = new_file();
        PickleWriter& pickle = file.pickle();
        std::array<std::vector<const MappedTensor*>, 2> maps;
        for (const MegatronTensor& tensor : tensors) {
            maps[tensor.decays() ? 0 : 1].push_back(&tensor.map);
        }
        pickle.open_dict();
        pickle.key("optimizer_state_dict");
        pickle.open_dict();
        pickle.key("single_partition_of_fp32_groups");
        pickle.open_list();
        for (const auto& group : maps) file.flat(group, SliceKind::master);
        pickle.close_list();
        pickle.key("base_optimizer_state");
        pickle.open_dict();
        pickle.key("state");
        pickle.open_dict();
        for (size_t i = 0; i < maps.size(); ++i) {
            pickle.integer(static_cast<i64>(i));
            pickle.open_dict();
            integer(file, "step", checkpoint_.manifest().counters.optimizer_step);
            pickle.key("exp_avg");
            file.flat(maps[i], SliceKind::exp_avg);
            pickle.key("exp_avg_sq");
            file.flat(maps[i], SliceKind::exp_avg_sq);
            pickle.close_dict();
        }
        pickle.close_dict();
        write_base_groups(pickle, std::ssize(maps));
        pickle.close_dict();
        pickle.key("param_slice_mappings");
        pickle.open_list();
        for (const auto& group : groups(tensors)) {
            write_slice_mapping(pickle, group, [this](const MegatronTensor& tensor) {
                return parameter_name(tensor);
            });
        }
        pickle.close_list();
        write_partition_counts(pickle);
        pickle.close_dict();
        pickle.close_dict();
        file.write(fmt::format("{}/{}zero_pp_rank_0_mp_rank_{:02}_optim_states.pt", step,
                               dtype_ == DType::bf16 ? "bf16_" : "", mp_rank));
    }

    const ConversionRequest& request_;
    ckpt::Checkpoint checkpoint_;
    MegatronLayout layout_;
    DType dtype_;
    bool has_optimizer_;
    i64 n_total_ = 0;  // bytes to write
    ConversionReport report_;
};

}  // namespace

ConversionReport to_megatron_lm(const ConversionRequest& request) {
    return Exporter(request).run_lm();
}

ConversionReport to_megatron_deepspeed(const ConversionRequest& request) {
    return Exporter(request).run_deepspeed();
}

}  // namespace lm::convert
