// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/from_megatron_lm.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "convert/megatron/dist_checkpoint.hpp"
#include "convert/megatron/distributed_optimizer.hpp"
#include "convert/megatron/from_torch_dist.hpp"
#include "convert/megatron/megatron_import.hpp"
#include "convert/megatron/megatron_optimizer.hpp"
#include "io/file.hpp"

namespace lm::convert {
namespace {

using Kind = PickleValue::Kind;

constexpr const char* tracker = "latest_checkpointed_iteration.txt";
constexpr const char* model_file = "model_optim_rng.pt";

// Returns the directory of the step that `path` names: the step in the tracker file of `path`, or
// `path` itself.
std::string lm_step_of(const std::string& path) {
    const std::string file = path + "/" + tracker;
    if (!io::exists(file)) return path;
    std::string text = io::read_file(file);
    std::erase_if(text, [](unsigned char c) { return std::isspace(c) != 0; });
    if (text == "release") return path + "/release";
    if (text.empty() || text.size() > 9 ||
        !std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; })) {
        run_error(file, "expected an iteration or 'release', got '{}'", text.substr(0, 40));
    }
    return fmt::format("{}/iter_{:0>7}", path, text);
}

bool has_ranks(const std::string& step) {
    if (!io::is_directory(step)) return false;
    return std::ranges::any_of(io::list_directory(step), [&](const std::string& name) {
        return name.starts_with("mp_rank_") && io::exists(step + "/" + name + "/" + model_file);
    });
}

class LmImporter {
  public:
    explicit LmImporter(const ConversionRequest& request)
        : request_(request), step_(lm_step_of(request.in)) {}

    MegatronImport run() {
        if (!has_ranks(step_)) {
            run_error(step_,
                      "has no mp_rank_*/{}: only the formats \"torch\" and \"torch_dist\" of "
                      "Megatron-LM can be imported",
                      model_file);
        }
        MegatronHead head = read_head(TorchFile::open(file_of_first()), request_.vocab_size);
        tp_ = head.model.tp;
        pp_ = head.model.pp;
        MegatronImport import(request_, std::move(head));
        for (i64 pp = 0; pp < pp_; ++pp) {
            for (i64 tp = 0; tp < tp_; ++tp) add_rank(import, tp, pp);
        }
        if (distributed_) {
            if (const std::string other = import.tensor_with_other_masters(); !other.empty()) {
                run_error(step_,
                          "the rounded fp32 masters of {} differ from its weights: the optimizer "
                          "state is from another checkpoint",
                          other);
            }
        }
        return import;
    }

  private:
    std::string file_of_first() const {
        for (const std::string& name : io::list_directory(step_)) {
            const std::string file = step_ + "/" + name + "/" + model_file;
            if (name.starts_with("mp_rank_") && io::exists(file)) return file;
        }
        run_error(step_,
                  "no mp_rank_* directory has a model file: copy all files of the checkpoint");
    }

    // Returns the path of a rank's file. Megatron adds the stage's number only when there are
    // several stages.
    std::string file_of(i64 tp, i64 pp) const {
        const std::string plain = fmt::format("{}/mp_rank_{:02}/{}", step_, tp, model_file);
        const std::string staged =
            fmt::format("{}/mp_rank_{:02}_{:03}/{}", step_, tp, pp, model_file);
        if (io::exists(staged)) return staged;
        if (pp_ == 1 && io::exists(plain)) return plain;
        run_error(
            staged,
            "does not exist, but the checkpoint's args state {} tensor ranks and {} stages: copy "
            "all files of the checkpoint",
            tp_, pp_);
    }

    void add_rank(MegatronImport& import, i64 tp, i64 pp) {
        const std::string path = file_of(tp, pp);
        const TorchFile file = TorchFile::open(path);
        std::vector<MegatronParameter> parameters;
        std::vector<size_t> ends;  // the parameters of chunk i end at ends[i]
        const PickleValue* model = file.root().find("model");
        if (model != nullptr) {
            add_chunk(import, file, *model, {tp, pp, 0, 1}, parameters);
            ends.push_back(parameters.size());
        } else {
            std::vector<const PickleValue*> chunks;
            while (const PickleValue* chunk =
                       file.root().find(fmt::format("model{}", chunks.size()))) {
                chunks.push_back(chunk);
            }
            if (chunks.empty())
                run_error(
                    file.path(),
                    "has no entry 'model' or 'model0': incomplete, or not a model file of a rank");
            for (size_t i = 0; i < chunks.size(); ++i) {
                add_chunk(import, file, *chunks[i],
                          {tp, pp, static_cast<i64>(i), static_cast<i64>(chunks.size())},
                          parameters);
                ends.push_back(parameters.size());
            }
        }
        const std::string distributed = path.substr(0, path.rfind('/')) + "/distrib_optim.pt";
        if (io::exists(distributed)) {
            add_distributed(import, TorchFile::open(distributed), parameters, ends, tp, pp);
            distributed_ = true;
        }
        add_megatron_optimizer(import, file, parameters, tp, tp_);
    }

    // Adds the state of distrib_optim.pt. The parameters of chunk i end at ends[i].
    void add_distributed(MegatronImport& import, const TorchFile& file,
                         const std::vector<MegatronParameter>& parameters,
                         const std::vector<size_t>& ends, i64 tp, i64 pp) const {
        std::vector<std::vector<BufferParameter>> chunks(1);
        for (size_t i = 0; i < parameters.size(); ++i) {
            if (i == ends[chunks.size() - 1]) chunks.emplace_back();
            const MegatronParameter& parameter = parameters[i];
            const bool word = parameter.own.empty() || parameter.own == "embedding.word.weight";
            const bool alone = word && pp_ > 1 && !import.config().untied_head;
            chunks.back().push_back({parameter.own, parameter.shape, alone});
        }
        if (!add_gathered_state(import, file.root(), file, chunks, tp, pp)) {
            run_error(
                file.path(),
                "the gradient buffers do not have the sizes that the checkpoint's args determine");
        }
    }

    struct Place {
        i64 tp = 0;
        i64 pp = 0;
        i64 chunk = 0;
        i64 n_chunks = 1;
    };

    // Returns the index that layer `local` of a chunk has in the whole model. The layer numbers in
    // tensor names count from 0 in each chunk. With V chunks on each of P stages, chunk v of stage
    // p starts at layer v * L / V + p * L / (V * P) (ParallelTransformer of Megatron's legacy
    // transformer.py).
    i64 layer_number(const MegatronImport& import, const Place& place, i64 local) const {
        const i64 n_layers = import.config().n_layers;
        if (n_layers % (pp_ * place.n_chunks) != 0) {
            usage_error(step_,
                        "{} layers cannot be divided equally over {} pipeline chunks: only equal "
                        "chunks can be imported",
                        n_layers, pp_ * place.n_chunks);
        }
        const i64 in_chunk = n_layers / (pp_ * place.n_chunks);
        return place.chunk * (n_layers / place.n_chunks) + place.pp * in_chunk + local;
    }

    // Returns the name that `name` has in lm-utils; an empty text for the last stage's copy of tied
    // word embeddings.
    std::string own_name(const MegatronImport& import, const std::string& name,
                         const Place& place) const {
        std::string_view rest = without_modules(name);
        if (rest.starts_with("word_embeddings_for_head.")) return {};
        std::string own;
        if (rest.starts_with("layers.")) {
            if (const auto layer = parse_numbered(rest.substr(7))) {
                own = megatron_layer_name(layer->rest, import.gated());
                if (!own.empty()) {
                    own = fmt::format("layers.{}.{}", layer_number(import, place, layer->number),
                                      own);
                }
            }
        } else {
            own = megatron_outer_name(rest);
        }
        if (own.empty())
            run_error(step_, "tensor {} is unknown: only GPT models can be imported", name);
        if (own == "head.weight" && !import.config().untied_head) return {};
        if (own == "embedding.word.weight" && place.pp > 0) return {};
        return own;
    }

    void add_chunk(MegatronImport& import, const TorchFile& file, const PickleValue& chunk,
                   const Place& place, std::vector<MegatronParameter>& parameters) const {
        for (const NamedValue& item : flat_tensors(chunk)) {
            if (item.name.ends_with("_extra_state")) continue;
            const SourceTensor tensor = file.tensor(*item.value, item.name);
            const std::string own = own_name(import, item.name, place);
            parameters.push_back({own, item.name, tensor.shape,
                                  !item.name.ends_with(".bias") && tensor.shape.size() > 1,
                                  tensor.storage->dtype});
            if (own.empty()) {
                import.add_tied_copy(ckpt::SliceKind::weight, tensor, place.tp, tp_);
            } else {
                import.add(own, ckpt::SliceKind::weight, tensor, place.tp, tp_);
            }
        }
    }

    const ConversionRequest& request_;
    std::string step_;
    i64 tp_ = 1;
    i64 pp_ = 1;
    bool distributed_ = false;  // the step has files of the distributed optimizer
};

}  // namespace

bool is_megatron_lm(const std::string& path) {
    return io::is_directory(path) &&
           (io::exists(path + "/" + tracker) || has_ranks(path) || is_torch_dist(path));
}

MegatronImport open_megatron_lm(const ConversionRequest& request) {
    const std::string step = lm_step_of(request.in);
    return is_torch_dist(step) ? open_torch_dist(request, step) : LmImporter(request).run();
}

ConversionReport from_megatron_lm(const ConversionRequest& request) {
    return open_megatron_lm(request).write();
}

}  // namespace lm::convert
