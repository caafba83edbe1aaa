// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/megatron_optimizer.hpp"

#include "base/error.hpp"
#include "io/json.hpp"

namespace lm::convert {
namespace {

using Kind = PickleValue::Kind;

// Returns the value that a dict has for an integer key, or nullptr.
const PickleValue* at_key(const PickleValue& dict, i64 key) {
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
        if (dict.items[i]->is(Kind::integer) && dict.items[i]->integer == key) {
            return dict.items[i + 1];
        }
    }
    return nullptr;
}

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
        const PickleValue* state = at_key(*state_, id);
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
            step = number_of(at_key(*state_, ids_[0])->find("step"), file_);
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

}  // namespace

void add_megatron_optimizer(MegatronImport& import, const TorchFile& file,
                            const std::vector<MegatronParameter>& parameters, i64 tp_rank, i64 tp) {
    OptimizerReader(import, file, parameters, tp_rank, tp).run();
}

}  // namespace lm::convert
