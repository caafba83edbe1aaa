// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/from_torch_dist.hpp"

#include <algorithm>
#include <limits>

#include "base/error.hpp"
#include "convert/megatron/dist_checkpoint.hpp"
#include "convert/megatron/distributed_optimizer.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

using Kind = PickleValue::Kind;
using ckpt::SliceKind;

constexpr std::string_view state_prefix = "optimizer.state.";

// Returns the kind of state that a key names after state_prefix; nullopt for another state.
// Megatron names the fp32 masters "fp32_param" or, in the form fully_reshardable, "param".
std::optional<SliceKind> kind_of(std::string_view name) {
    if (name == "fp32_param" || name == "param") return SliceKind::master;
    const auto state = std::ranges::find(spec::all_states, name, &spec::OptimizerState::name);
    if (state == spec::all_states.end()) return std::nullopt;
    return *state;
}

// A tensor of the checkpoint. A stacked tensor has one layer at each index of its first dimension.
struct DistName {
    SliceKind kind = SliceKind::weight;
    bool stacked = false;
    std::string own;  // name in lm-utils; if stacked, without "layers.N."

    std::string of_layer(i64 layer) const {
        return stacked ? fmt::format("layers.{}.{}", layer, own) : own;
    }
};

class TorchDistImporter {
  public:
    TorchDistImporter(const ConversionRequest& request, const std::string& step)
        : step_(step),
          common_(TorchFile::open(step + "/common.pt")),
          checkpoint_(DistCheckpoint::open(step)),
          import_(request, read_head(common_, request)) {}

    MegatronImport run() {
        for (const SliceKind kind : ckpt::all_kinds) add_kind(kind);
        if (!add_sharded_buffers(import_, checkpoint_, vocab_rows_)) {
            if (const std::string other = import_.tensor_with_other_masters(); !other.empty()) {
                run_error(checkpoint_.path(),
                          "the rounded fp32 masters of {} differ from its weights: megatron-core "
                          "writes padded buckets of the form fully_reshardable at wrong offsets: "
                          "save the checkpoint in the form dp_reshardable",
                          other);
            }
        }
        add_step();
        return std::move(import_);
    }

  private:
    // Returns the name of the tensor `key`; nullopt when a checkpoint of lm-utils has no such
    // tensor. Throws Error(failure) for an unknown key.
    std::optional<DistName> name_of_key(std::string_view key) const {
        DistName name;
        std::string_view rest = key;
        const size_t at = key.find(state_prefix);
        // The keys of a chained optimizer have a prefix.
        if (at != key.npos && (at == 0 || key.starts_with("chained_"))) {
            const std::string_view after = key.substr(at + state_prefix.size());
            const size_t dot = after.find('.');
            if (const auto kind = kind_of(after.substr(0, dot)); kind && dot != after.npos) {
                name.kind = *kind;
                rest = after.substr(dot + 1);
            }
        }
        if (rest == key && (key.starts_with("optimizer.") || key.starts_with("chained_"))) {
            return std::nullopt;
        }
        rest = without_modules(rest);
        std::string prefix;
        if (rest.starts_with("layers.")) {
            rest.remove_prefix(7);
            const auto layer = parse_numbered(rest);
            name.stacked = !layer;
            if (layer) {
                prefix = fmt::format("layers.{}.", layer->number);
                rest = layer->rest;
            }
            name.own = layer_name(rest);
        } else {
            name.own = megatron_outer_name(rest);
        }
        if (name.own.empty())
            run_error(checkpoint_.path(), "tensor {} is unknown: only GPT models can be imported",
                      key);
        if (name.own == "head.weight" && !import_.config().untied_head) return std::nullopt;
        name.own = prefix + name.own;
        return name;
    }

    // Megatron may save the halves of a gated MLP as two tensors: weight_w and weight_v.
    std::string layer_name(std::string_view name) const {
        std::string_view half;
        if (name.ends_with("_w")) half = "mlp.gate.";
        if (name.ends_with("_v")) half = "mlp.up.";
        if (half.empty() || !import_.gated()) return megatron_layer_name(name, import_.gated());
        std::string own = megatron_layer_name(name.substr(0, name.size() - 2), true);
        const size_t dot = own.rfind('.');
        return own.empty() ? own : std::string(half) + own.substr(dot + 1);
    }

    void add_kind(SliceKind kind) {
        for (const auto& [key, tensor] : checkpoint_.tensors()) {
            if (key.ends_with("_extra_state")) continue;
            const auto name = name_of_key(key);
            if (!name || name->kind != kind) continue;
            if (kind == SliceKind::weight && name->own == "embedding.word.weight") {
                vocab_rows_ = tensor.shape.at(0);
            }
            add(*name, key, tensor);
        }
    }

    void add(const DistName& name, const std::string& key, const DistTensor& tensor) {
        const size_t first = name.stacked ? 1 : 0;
        const MappedTensor map = import_.whole(name.of_layer(0), vocab_rows_, checkpoint_.path());
        const auto rank = static_cast<size_t>(map.rank);
        if (tensor.shape.size() == first + rank + 1) return add_flattened(name, key, tensor, map);
        if (tensor.shape.size() != first + rank) {
            run_error(checkpoint_.path(), "{}: expected a tensor of {} dimensions, got {}", key,
                      first + rank, tensor.shape.size());
        }
        for (const DistChunk& chunk : tensor.chunks) {
            const SourceTensor part = DistCheckpoint::read(chunk, key);
            const i64 n_layers = name.stacked ? part.shape[0] : 1;
            for (i64 i = 0; i < n_layers; ++i) {
                const i64 col = rank == 2 ? chunk.offsets[first + 1] : 0;
                import_.add_part(name.of_layer(name.stacked ? chunk.offsets[0] + i : 0), name.kind,
                                 name.stacked ? of_first_index(part, i) : part,
                                 chunk.offsets[first], col, vocab_rows_);
            }
        }
    }

    // Returns the tensor at index i of the first dimension of `part`.
    static SourceTensor of_first_index(SourceTensor part, i64 i) {
        part.start += i * part.strides[0];
        part.shape.erase(part.shape.begin());
        part.strides.erase(part.strides.begin());
        return part;
    }

    // Adds a tensor of the form fully_sharded_model_space. Its shape is [f0, f1, n]: the tensor is
    // divided into f0 x f1 boxes, and the n elements of each box are divided over the data-parallel
    // ranks.
    void add_flattened(const DistName& name, const std::string& key, const DistTensor& tensor,
                       const MappedTensor& map) {
        const size_t first = name.stacked ? 1 : 0;
        std::vector<i64> box = map.shape();
        for (size_t dim = 0; dim < box.size(); ++dim) {
            const i64 n = tensor.shape[first + dim];
            if (n == 0 || box[dim] % n != 0) {
                run_error(checkpoint_.path(),
                          "{0}: {2} elements of a dimension cannot be divided over {1} boxes", key,
                          n, box[dim]);
            }
            box[dim] /= n;
        }
        std::map<std::vector<i64>, std::map<i64, SourceTensor>> boxes;  // chunks by start
        for (const DistChunk& chunk : tensor.chunks) {
            std::vector<i64> at = chunk.offsets;
            const i64 begin = at.back();
            at.pop_back();
            boxes[at].emplace(begin, DistCheckpoint::read(chunk, key));
        }
        for (const auto& [at, chunks] : boxes) {
            const i64 row = at[first] * box[0];
            const i64 col = box.size() == 2 ? at[first + 1] * box[1] : 0;
            import_.add_part(name.of_layer(name.stacked ? at[0] : 0), name.kind,
                             joined(key, chunks, box), row, col, vocab_rows_);
        }
    }

    // Returns a tensor of shape `box` that has the elements of `chunks` in sequence.
    SourceTensor joined(const std::string& key, const std::map<i64, SourceTensor>& chunks,
                        const std::vector<i64>& box) const {
        auto storage = std::make_shared<Storage>();
        constexpr i64 all = std::numeric_limits<i64>::max();
        const i64 n = checkpoint_.append(key, chunks, all, *storage);
        if (n != numel(box)) {
            run_error(checkpoint_.path(), "{}: expected boxes of shape {}, got {} elements", key,
                      io::Json(box).dump(), n);
        }
        return {key, std::move(storage), 0, box, contiguous_strides(box)};
    }

    void add_step() {
        const PickleValue* optimizer = common_.root().find("optimizer");
        if (optimizer == nullptr) return;
        if (const auto n = optimizer_steps(*optimizer, common_)) import_.set_optimizer_step(*n);
        import_.set_loss_scale(optimizer->find("grad_scaler"), common_);
    }

    std::string step_;
    TorchFile common_;
    DistCheckpoint checkpoint_;
    MegatronImport import_;
    i64 vocab_rows_ = 0;
};

}  // namespace

MegatronImport open_torch_dist(const ConversionRequest& request, const std::string& step) {
    return TorchDistImporter(request, step).run();
}

}  // namespace lm::convert
