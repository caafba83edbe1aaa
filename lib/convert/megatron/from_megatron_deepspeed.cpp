// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/from_megatron_deepspeed.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/log.hpp"
#include "convert/megatron/deepspeed_layers.hpp"
#include "convert/megatron/deepspeed_zero.hpp"
#include "convert/megatron/from_universal.hpp"
#include "io/file.hpp"

namespace lm::convert {
namespace {

std::string model_states(const std::string& step, i64 mp_rank) {
    return fmt::format("{}/mp_rank_{:02}_model_states.pt", step, mp_rank);
}

// Returns the directory of the step that `path` names: `path` itself if it is a step; else the step
// that the file `latest` names or, without this file, `latest_universal`.
std::string step_of(const std::string& path) {
    const std::string tracker =
        path + (io::exists(path + "/latest") ? "/latest" : "/latest_universal");
    if (!io::exists(tracker) || io::exists(model_states(path, 0))) return path;
    std::string tag = io::read_file(tracker);
    while (!tag.empty() && (tag.back() == '\n' || tag.back() == ' ')) tag.pop_back();
    if (tag.empty() || tag[0] == '.' || tag.find('/') != tag.npos || tag.find('\n') != tag.npos) {
        return path;
    }
    return path + "/" + tag;
}

constexpr std::string_view tied = "tied_modules.embed.";  // prefix of the names in the embedding

class Importer {
  public:
    explicit Importer(const ConversionRequest& request)
        : step_(step_of(request.in)),
          layers_(DeepspeedLayers::open(step_)),
          import_(request, read_head(TorchFile::open(model_states(step_, 0)), request)) {}

    MegatronImport run() {
        for (const i64 layer : layers_.layers()) {
            for (i64 rank = 0; rank < layers_.tp(); ++rank) add_layer(layer, rank);
        }
        if (layers_.n_transformer_layers() != import_.config().n_layers) {
            run_error(step_, "expected {} transformer layers (args.num_layers), got {}",
                      import_.config().n_layers, layers_.n_transformer_layers());
        }
        for (i64 mp_rank = 0; io::exists(model_states(step_, mp_rank)); ++mp_rank) {
            add_optimizer(mp_rank);
        }
        return std::move(import_);
    }

  private:
    void add_layer(i64 layer, i64 rank) {
        const TorchFile file = TorchFile::open(layers_.file(layer, rank));
        const std::vector<NamedValue> tensors = flat_tensors(file.root());
        if (rank == 0) {
            std::vector<std::string> names;
            for (const NamedValue& item : tensors) names.push_back(item.name);
            layers_.learn(layer, names);
        }
        for (const NamedValue& item : tensors) {
            if (item.name.ends_with("_extra_state")) continue;
            const std::string own = layers_.own_name(layer, item.name, import_.gated());
            if (own.empty())
                run_error(file.path(), "tensor {} is unknown: only GPT models can be imported",
                          item.name);
            const SourceTensor tensor = file.tensor(*item.value, item.name);
            // If the word embeddings are tied, the file of a later layer has a copy of them.
            if (own == "embedding.word.weight" && layer != layers_.layers().front()) {
                import_.add_tied_copy(ckpt::SliceKind::weight, tensor, rank, layers_.tp());
            } else {
                import_.add(own, ckpt::SliceKind::weight, tensor, rank, layers_.tp());
            }
        }
    }

    // Returns the name that a parameter has in lm-utils: "3.mlp.dense_h_to_4h.weight" is in layer
    // file 3, and "tied_modules.embed.word_embeddings.weight" in the embedding.
    std::string own_name(const std::string& name) const {
        if (name.starts_with(tied)) {
            return layers_.own_name(layers_.layers().front(), name.substr(tied.size()),
                                    import_.gated());
        }
        const auto layer = parse_numbered(name);
        const std::string own =
            layer ? layers_.own_name(layer->number, std::string(layer->rest), import_.gated())
                  : std::string();
        if (own.empty())
            run_error(step_,
                      "parameter {} of the optimizer is unknown: only GPT models can be imported",
                      name);
        return own;
    }

    // Adds the ZeRO state of one model-parallel rank: mp_rank = stage * tensor ranks + tensor rank
    // (PipeModelDataParallelTopology of DeepSpeed has the axes pipe, data, model). The "pp_rank" in
    // the file names is the data-parallel rank.
    void add_optimizer(i64 mp_rank) {
        const TorchFile file = TorchFile::open(model_states(step_, mp_rank));
        const i64 stage = mp_rank / layers_.tp();
        const auto state =
            read_zero(step_, mp_rank, file, [&](ckpt::SliceKind kind, const SourceTensor& tensor) {
                const std::string own = own_name(tensor.name);
                const i64 tp_rank = mp_rank % layers_.tp();
                if (stage == 0 || !tensor.name.starts_with(tied)) {
                    return import_.add(own, kind, tensor, tp_rank, layers_.tp());
                }
                // The last stage has a copy of the whole embedding module, but uses only the word
                // embeddings. The other tensors of the copy keep their initial values.
                if (own == "embedding.word.weight") {
                    import_.add_tied_copy(kind, tensor, tp_rank, layers_.tp());
                }
            });
        if (!state) return;
        if (state->steps >= 0) import_.set_optimizer_step(state->steps);
        if (!state->loss_scale.is_null()) import_.set_loss_scale(state->loss_scale);
    }

    std::string step_;
    DeepspeedLayers layers_;
    MegatronImport import_;
};

}  // namespace

bool is_megatron_deepspeed(const std::string& path) {
    return io::is_directory(path) && io::exists(model_states(step_of(path), 0));
}

MegatronImport open_megatron_deepspeed(const ConversionRequest& request) {
    const std::string step = step_of(request.in);
    return is_universal(step) ? open_universal(request, step) : Importer(request).run();
}

ConversionReport from_megatron_deepspeed(const ConversionRequest& request) {
    return open_megatron_deepspeed(request).write();
}

}  // namespace lm::convert
