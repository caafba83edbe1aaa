// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/to_deepspeed.hpp"

#include <map>

#include "convert/megatron/megatron_exporter.hpp"
#include "io/file.hpp"

namespace lm::convert {
namespace {

using ckpt::SliceKind;

class DeepSpeedExporter : public MegatronExporter {
  public:
    explicit DeepSpeedExporter(const ConversionRequest& request)
        : MegatronExporter(request, false) {}

    ConversionReport run() {
        layout_.copy_tied_module();
        io::AtomicDirectory out = make_output(request_.out, {request_.in}, request_.force);
        const std::string step = fmt::format("{}/global_step{}", out.path(), iteration());
        io::make_directories(step);
        n_total_ = layout_.n_bytes(dtype_, has_optimizer_ ? 1 + n_states() : 0);
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
    // Returns the number of the tensor's layer file. In current Megatron-DeepSpeed with L layers
    // the numbers are: embedding 1, layers 2 to L + 1, final norm L + 2, head L + 3.
    i64 layer_number(const MegatronTensor& tensor) const {
        const i64 n_layers = checkpoint_.manifest().model.n_layers;
        switch (tensor.section) {
            case MegatronSection::layer:
                return 2 + tensor.layer;
            case MegatronSection::norm:
                return 2 + n_layers;
            case MegatronSection::head:
                return 3 + n_layers;
            case MegatronSection::embedding:
            case MegatronSection::tied_copy:
                break;
        }
        return 1;
    }
    static std::string layer_name(const MegatronTensor& tensor) {
        return tensor.section == MegatronSection::head ? "lm_head.weight" : tensor.name;
    }
    // Returns the name that a parameter has in DeepSpeed's pipeline module.
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
        pickle.key("module").none();
        pickle.key("param_shapes").open_list();
        for (const auto& group : groups(tensors)) {
            pickle.open_dict();
            for (const MegatronTensor* tensor : group) {
                pickle.key(parameter_name(*tensor)).size(tensor->map.shape());
            }
            pickle.close_dict();
        }
        pickle.close_list();
        pickle.key("dp_world_size").integer(1);
        pickle.key("mp_world_size").integer(layout_.tp() * layout_.pp());
        pickle.key("global_steps").integer(iteration());
        pickle.key("global_samples").integer(checkpoint_.manifest().counters.consumed_samples);
        pickle.key("skipped_steps").integer(0);
        pickle.key("iteration").integer(iteration());
        pickle.key("checkpoint_version").real(megatron_checkpoint_version);
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
        pickle.key("optimizer_state_dict").open_dict();
        pickle.key("single_partition_of_fp32_groups").open_list();
        for (const auto& group : maps) file.flat(group, SliceKind::master);
        pickle.close_list();
        pickle.key("base_optimizer_state").open_dict();
        pickle.key("state").open_dict();
        for (size_t i = 0; i < maps.size(); ++i) {
            pickle.integer(static_cast<i64>(i));
            pickle.open_dict();
            pickle.key("step").integer(checkpoint_.manifest().counters.optimizer_step);
            for (const spec::OptimizerState& state : spec::adam_states) {
                pickle.key(state.name);
                file.flat(maps[i], state);
            }
            pickle.close_dict();
        }
        pickle.close_dict();
        write_base_groups(pickle, optimizer_);
        pickle.close_dict();
        pickle.key("param_slice_mappings").open_list();
        for (const auto& group : groups(tensors)) {
            write_slice_mapping(pickle, group, [this](const MegatronTensor& tensor) {
                return parameter_name(tensor);
            });
        }
        pickle.close_list();
        write_partition_counts(pickle);
        if (optimizer_.loss_scale) write_loss_scaler(pickle, *optimizer_.loss_scale);
        pickle.close_dict();
        pickle.close_dict();
        file.write(fmt::format("{}/{}zero_pp_rank_0_mp_rank_{:02}_optim_states.pt", step,
                               dtype_ == DType::bf16 ? "bf16_" : "", mp_rank));
    }
};

}  // namespace

ConversionReport to_megatron_deepspeed(const ConversionRequest& request) {
    return DeepSpeedExporter(request).run();
}

}  // namespace lm::convert
