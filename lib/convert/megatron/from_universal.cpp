// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/from_universal.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "convert/megatron/deepspeed_layers.hpp"
#include "convert/megatron/deepspeed_zero.hpp"
#include "convert/torch/pickle_globals.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

using Kind = PickleValue::Kind;

// A folder of zero/, with the layer and the tensor that the name of the folder states. An example
// of a name is "3.mlp.dense_h_to_4h.weight"; for "tied_modules.embed.word_embeddings.weight" the
// layer is -1.
struct Parameter {
    std::string folder;
    i64 layer = -1;
    std::string name;
};

Parameter parameter_of(const std::string& folder) {
    constexpr std::string_view tied = "tied_modules.embed.";
    if (folder.starts_with(tied)) return {folder, -1, folder.substr(tied.size())};
    const auto layer = parse_numbered(folder);
    if (!layer) return {folder, -1, {}};
    return {folder, layer->number, std::string(layer->rest)};
}

class UniversalImporter {
  public:
    UniversalImporter(const ConversionRequest& request, const std::string& step)
        : zero_(step + "/zero"),
          head_file_(TorchFile::open(step + "/mp_rank_00_model_states.pt")),
          import_(request, read_head(head_file_, request)) {}

    MegatronImport run() {
        std::map<i64, std::vector<Parameter>> layers;
        for (const std::string& name : io::list_directory(zero_)) {
            if (!io::is_directory(zero_ + "/" + name)) continue;
            const Parameter parameter = parameter_of(name);
            if (parameter.name.empty())
                run_error(zero_, "parameter {} is unknown: only GPT models can be imported", name);
            layers[parameter.layer].push_back(parameter);
        }
        DeepspeedLayers roles;
        for (const auto& [layer, parameters] : layers) {
            std::vector<std::string> names;
            for (const Parameter& parameter : parameters) names.push_back(parameter.name);
            roles.learn(layer, names);
        }
        import_.set_weights(weights());
        for (const auto& [layer, parameters] : layers) {
            for (const Parameter& parameter : parameters) add(roles, parameter);
        }
        if (const std::string path = zero_ + "/optimizer_state.pt"; io::exists(path)) {
            const TorchFile file = TorchFile::open(path);
            const io::Json scale = deepspeed_loss_scale(file.root(), file);
            if (!scale.is_null()) import_.set_loss_scale(scale);
        }
        return std::move(import_);
    }

  private:
    DType weights() const {
        const PickleValue* dtype = head_file_.root().find("args")->find("params_dtype");
        if (dtype == nullptr) return DType::fp32;
        // `dtype` is a class of PyTorch. In files that lm-convert wrote, `dtype` is a text with the
        // name of the class.
        std::string name = dtype->text;
        if (name.starts_with("torch.")) name[5] = ' ';
        PickledTensor type;
        if (set_dtype(name, type)) return type.dtype.value_or(DType::fp32);
        return DType::fp32;
    }

    void add(const DeepspeedLayers& roles, const Parameter& parameter) {
        const std::string own = roles.own_name(parameter.layer, parameter.name, import_.gated());
        if (own.empty())
            run_error(zero_, "parameter {} is unknown: only GPT models can be imported",
                      parameter.folder);
        const std::string folder = zero_ + "/" + parameter.folder;
        const SourceTensor fp32 = read(folder, "fp32");
        import_.add(own, ckpt::SliceKind::weight, fp32, 0, 1);
        import_.add(own, ckpt::SliceKind::master, fp32, 0, 1);
        for (const spec::OptimizerState& state : spec::adam_states) {
            import_.add(own, state, read(folder, std::string(state.name)), 0, 1);
        }
        if (const std::string path = folder + "/step.pt"; io::exists(path)) {
            const TorchFile file = TorchFile::open(path);
            if (const auto step = number_of(&file.root(), file)) {
                import_.set_optimizer_step(static_cast<i64>(*step));
            }
        }
    }

    // Returns the tensor in the file FOLDER/NAME.pt. The file contains {"param": tensor, "cat_dim":
    // ...}; in the first version of the format, only the tensor.
    static SourceTensor read(const std::string& folder, const std::string& name) {
        const TorchFile file = TorchFile::open(folder + "/" + name + ".pt");
        const PickleValue* param = file.root().find("param");
        return file.tensor(param != nullptr ? *param : file.root(), name);
    }

    std::string zero_;
    TorchFile head_file_;
    MegatronImport import_;
};

}  // namespace

bool is_universal(const std::string& step) {
    return io::is_directory(step + "/zero") && io::exists(step + "/mp_rank_00_model_states.pt");
}

MegatronImport open_universal(const ConversionRequest& request, const std::string& step) {
    return UniversalImporter(request, step).run();
}

}  // namespace lm::convert
