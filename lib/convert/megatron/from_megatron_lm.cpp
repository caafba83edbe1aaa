// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/from_megatron_lm.hpp"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "convert/megatron/dist_checkpoint.hpp"
#include "convert/megatron/distributed_optimizer.hpp"
#include "convert/megatron/from_torch_dist.hpp"
#include "io/file.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

// A parameter of one rank. Parameters are listed in the order of the rank's state_dict.
struct MegatronParameter {
    std::string own;   // name in lm-utils; empty: the last stage's copy of tied word embeddings
    std::string name;  // name in the file
    std::vector<i64> shape;
    bool decays = false;  // true for a matrix: it is in a parameter group with weight decay
    DType dtype = DType::fp32;
};

using Kind = PickleValue::Kind;

// Adds to the import the masters and moments of a rank, the optimizer's step and the loss scale.
// Adds nothing when `file` has no optimizer state. Adds only the loss scale when the distributed
// optimizer has stored the other state in distrib_optim.pt. Throws Error(failure) when the state
// does not belong to these parameters. Megatron-LM saves this state in one piece for each rank.
class OptimizerReader {
  public:
    OptimizerReader(MegatronImport& import, const TorchFile& file,
                    const std::vector<MegatronParameter>& parameters, i64 tp_rank, i64 tp)
        : import_(import), file_(file), parameters_(parameters), tp_rank_(tp_rank), tp_(tp) {}

    void run() {
        const PickleValue* saved = file_.root().find("optimizer");
        if (saved == nullptr || !saved->is(Kind::dict)) return;
        // The distributed optimizer stores the loss scale in this file, and all other state in
        // distrib_optim.pt.
        import_.set_loss_scale(saved->find("grad_scaler"), file_);
        // With mixed precision, the state of PyTorch's or Apex's optimizer is the entry
        // "optimizer". With fp32, the whole dict is that state.
        const PickleValue* inner = saved->find("optimizer");
        const PickleValue* optimizer = inner != nullptr ? inner : saved;
        state_ = optimizer->find("state");
        groups_ = optimizer->find("param_groups");
        if (state_ == nullptr || groups_ == nullptr || !state_->is(Kind::dict) ||
            state_->items.empty() || !groups_->is(Kind::list)) {
            return;
        }
        ids_ = ids_of_parameters();
        for (size_t i = 0; i < ids_.size(); ++i) add_moments(parameters_[i], ids_[i]);
        add_masters(*saved);
        add_step();
    }

  private:
    template <typename... Args>
    [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
        run_error(file_.path(), "optimizer: {}", fmt::format(format, std::forward<Args>(args)...));
    }

    static bool decays(const PickleValue& group, const TorchFile& file) {
        for (const char* key : {"wd_mult", "weight_decay"}) {
            if (const auto value = number_of(group.find(key), file)) return *value != 0;
        }
        return true;
    }

    // Returns the optimizer's id of each of parameters_. The groups with weight decay together list
    // their parameters in the order of the modules; the groups without weight decay do the same.
    std::vector<i64> ids_of_parameters() {
        std::vector<i64> with;
        std::vector<i64> without;
        for (const PickleValue* group : groups_->items) {
            const PickleValue* ids = group->find("params");
            if (ids == nullptr || !ids->is(Kind::list)) refuse("a group has no params");
            for (const PickleValue* id : ids->items) {
                (decays(*group, file_) ? with : without).push_back(id->integer);
                const size_t position = position_.size();
                if (!position_.emplace(id->integer, position).second) {
                    refuse("parameter {} is listed twice", id->integer);
                }
            }
        }
        std::vector<i64> ids;
        size_t at_with = 0;
        size_t at_without = 0;
        const bool one_kind = with.empty() || without.empty();
        const std::vector<i64>& all = with.empty() ? without : with;
        for (const MegatronParameter& parameter : parameters_) {
            const std::vector<i64>& from = one_kind ? all : parameter.decays ? with : without;
            size_t& at = one_kind || parameter.decays ? at_with : at_without;
            if (at == from.size()) {
                refuse("expected {} parameters, got {}", parameters_.size(),
                       with.size() + without.size());
            }
            ids.push_back(from[at++]);
        }
        if (ids.size() != with.size() + without.size()) {
            refuse("expected {} parameters, got {}", ids.size(), with.size() + without.size());
        }
        return ids;
    }

    void add(const MegatronParameter& parameter, ckpt::SliceKind kind, const PickleValue& value) {
        const std::string name = fmt::format("{} ({})", parameter.name, name_of(kind));
        const SourceTensor tensor = file_.tensor(value, name);
        if (tensor.shape != parameter.shape) {
            refuse("{}: expected shape {}, got {}", name, io::Json(parameter.shape).dump(),
                   io::Json(tensor.shape).dump());
        }
        if (parameter.own.empty()) return import_.add_tied_copy(kind, tensor, tp_rank_, tp_);
        import_.add(parameter.own, kind, tensor, tp_rank_, tp_);
    }

    void add_moments(const MegatronParameter& parameter, i64 id) {
        const PickleValue* state = state_->find(id);
        if (state == nullptr) refuse("parameter {} has no state", parameter.name);
        for (const ckpt::SliceKind kind : spec::adam_states) {
            const PickleValue* value = state->find(name_of(kind));
            if (value == nullptr) refuse("{}: no {}", parameter.name, name_of(kind));
            add(parameter, kind, *value);
        }
    }

    // Adds the masters of fp32_from_fp16_params, which has a list for each group, in the order of
    // the group's params.
    void add_masters(const PickleValue& saved) {
        const PickleValue* lists = saved.find("fp32_from_fp16_params");
        if (lists == nullptr) lists = saved.find("fp32_from_float16_params");
        if (lists == nullptr || !lists->is(Kind::list)) return;
        std::vector<const PickleValue*> masters;
        for (const PickleValue* list : lists->items) {
            masters.insert(masters.end(), list->items.begin(), list->items.end());
        }
        if (masters.size() != ids_.size()) {
            refuse("expected {} fp32 masters, got {}", ids_.size(), masters.size());
        }
        for (size_t i = 0; i < ids_.size(); ++i) {
            add(parameters_[i], ckpt::SliceKind::master, *masters[position_.at(ids_[i])]);
        }
    }

    // Apex stores the number of steps in the group, PyTorch in the state of each parameter.
    void add_step() {
        auto step = number_of(groups_->items.at(0)->find("step"), file_);
        if (!step && !ids_.empty()) {
            step = number_of(state_->find(ids_[0])->find("step"), file_);
        }
        if (step) import_.set_optimizer_step(static_cast<i64>(*step));
    }

    MegatronImport& import_;
    const TorchFile& file_;
    const std::vector<MegatronParameter>& parameters_;
    i64 tp_rank_;
    i64 tp_;
    const PickleValue* state_ = nullptr;
    const PickleValue* groups_ = nullptr;
    std::vector<i64> ids_;            // the optimizer's id of each of parameters_
    std::map<i64, size_t> position_;  // place of a parameter, by its id
};

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
        if (step_ != request_.in && !io::exists(step_)) {
            run_error(step_,
                      "does not exist, but {} names it: copy the step, or give the directory of "
                      "another one",
                      tracker);
        }
        if (!has_ranks(step_)) {
            run_error(step_,
                      "has no mp_rank_*/{}: only the formats \"torch\" and \"torch_dist\" of "
                      "Megatron-LM can be imported",
                      model_file);
        }
        const auto [n_ranks, n_stages] = ranks();
        MegatronHead head =
            read_head(TorchFile::open(file_of_first()), request_, n_ranks, n_stages);
        tp_ = head.model.tp;
        pp_ = head.model.pp;
        if (!request_.model_flag.empty()) check_layers(head.model.config.n_layers);
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

    // Returns the numbers of tensor ranks and stages in the names of the directories.
    std::pair<i64, i64> ranks() const {
        std::pair<i64, i64> n{1, 1};
        for (const std::string& name : io::list_directory(step_)) {
            std::string_view rest = name;
            constexpr std::string_view prefix = "mp_rank_";
            if (!rest.starts_with(prefix)) continue;
            rest.remove_prefix(prefix.size());
            n.first = std::max(n.first, consume_number(rest).value_or(0) + 1);
            if (rest.starts_with('_')) {
                n.second = std::max(n.second, parse_number(rest.substr(1)).value_or(0) + 1);
            }
        }
        return n;
    }

    // Returns the path of a rank's file. Megatron adds the stage's number only when there are
    // several stages.
    std::string file_of(i64 tp, i64 pp) const {
        const std::string plain = fmt::format("{}/mp_rank_{:02}/{}", step_, tp, model_file);
        const std::string staged =
            fmt::format("{}/mp_rank_{:02}_{:03}/{}", step_, tp, pp, model_file);
        if (io::exists(staged)) return staged;
        if (pp_ == 1 && io::exists(plain)) return plain;
        run_error(staged,
                  "does not exist, but the checkpoint has {} tensor ranks and {} stages: copy "
                  "all files of the checkpoint",
                  tp_, pp_);
    }

    // Throws Error(usage) if the files do not have as many layers as the flags say.
    void check_layers(i64 wanted) const {
        i64 n_layers = 0;
        for (i64 pp = 0; pp < pp_; ++pp) {
            const TorchFile file = TorchFile::open(file_of(0, pp));
            std::set<std::string> layers;  // "model.language_model.encoder.layers.3"
            for (const NamedValue& item : flat_tensors(file.root())) {
                constexpr std::string_view start = "layers.";
                const size_t at = item.name.find(start);
                if (!item.name.starts_with("model") || at == item.name.npos) continue;
                layers.insert(item.name.substr(0, item.name.find('.', at + start.size())));
            }
            n_layers += std::ssize(layers);
        }
        if (n_layers == wanted) return;
        usage_error("--num-layers", "is {}, but {} has {} layers: give --num-layers {}", wanted,
                    step_, n_layers, n_layers);
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
        OptimizerReader(import, file, parameters, tp, tp_).run();
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
