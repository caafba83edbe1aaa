// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/deepspeed_zero.hpp"

#include <algorithm>
#include <map>

#include "base/error.hpp"
#include "convert/megatron/megatron_import.hpp"
#include "io/file.hpp"

namespace lm::convert {
namespace {

using Kind = PickleValue::Kind;

// Opens the files of all data-parallel ranks, in the order of the ranks. The names of the bf16
// optimizer's files start with "bf16_".
std::vector<TorchFile> open_ranks(const std::string& step, i64 mp_rank) {
    std::vector<TorchFile> files;
    for (const char* prefix : {"bf16_", ""}) {
        for (;;) {
            const std::string path =
                fmt::format("{}/{}zero_pp_rank_{}_mp_rank_{:02}_optim_states.pt", step, prefix,
                            files.size(), mp_rank);
            if (!io::exists(path)) break;
            files.push_back(TorchFile::open(path));
        }
        if (!files.empty()) break;
    }
    return files;
}

class ZeroReader {
  public:
    ZeroReader(const TorchFile& model, std::vector<TorchFile> files, const AddParameter& add)
        : model_(model), files_(std::move(files)), add_(add) {}

    ZeroState run() {
        const PickleValue* shapes = model_.root().find("param_shapes");
        if (shapes == nullptr)
            run_error(model_.path(), "has no param_shapes: not a model file of DeepSpeed");
        check_ranks();
        std::vector<const PickleValue*> groups{shapes};
        if (shapes->is(Kind::list)) groups = {shapes->items.begin(), shapes->items.end()};
        for (size_t group = 0; group < groups.size(); ++group) add_group(group, *groups[group]);
        return {step(), deepspeed_loss_scale(state_of(files_[0]), files_[0])};
    }

  private:
    static const PickleValue& state_of(const TorchFile& file) {
        const PickleValue* state = file.root().find("optimizer_state_dict");
        if (state == nullptr)
            run_error(file.path(),
                      "has no optimizer_state_dict: not an optimizer file of DeepSpeed");
        if (const PickleValue* stage = state->find("zero_stage")) {
            const PickleValue& number =
                stage->is(Kind::object) && !stage->items.empty() ? *stage->items.back() : *stage;
            if (number.is(Kind::integer) && number.integer > 2) {
                usage_error(file.path(), "ZeRO stage {}: only stages 1 and 2 can be imported",
                            number.integer);
            }
        }
        return *state;
    }

    void check_ranks() const {
        const PickleValue* count = state_of(files_[0]).find("partition_count");
        if (count != nullptr && count->is(Kind::list) && !count->items.empty()) {
            count = count->items[0];
        }
        if (count == nullptr || !count->is(Kind::integer)) return;
        if (count->integer == static_cast<i64>(files_.size())) return;
        run_error(files_[0].path(),
                  "incomplete: expected the files of {} data-parallel ranks, got {}",
                  count->integer, files_.size());
    }

    // Returns element `group` of a list, or of a dict with integer keys; nullptr when that does not
    // exist.
    static const PickleValue* element(const PickleValue* list, size_t group) {
        if (list == nullptr) return nullptr;
        if (list->is(Kind::list)) return group < list->items.size() ? list->items[group] : nullptr;
        return list->find(static_cast<i64>(group));
    }

    // Returns the dict with the moments of a group. base_optimizer_state is {state: {group: dict}},
    // or a list with a dict for each group.
    static const PickleValue* moments_of(const PickleValue& state, size_t group) {
        const PickleValue* base = state.find("base_optimizer_state");
        if (base == nullptr) return nullptr;
        const PickleValue* inner = base->find("state");
        return element(inner != nullptr ? inner : base, group);
    }

    // Returns a rank's flat partition of a parameter group. `file`: the file of this rank.
    SourceTensor partition(const TorchFile& file, size_t group, ckpt::SliceKind kind) const {
        const PickleValue& state = state_of(file);
        const PickleValue* value = nullptr;
        if (kind == ckpt::SliceKind::master) {
            value = element(state.find("single_partition_of_fp32_groups"), group);
        } else if (const PickleValue* moments = moments_of(state, group)) {
            value = moments->find(name_of(kind));
        }
        const std::string name = fmt::format("group {} ({})", group, name_of(kind));
        if (value == nullptr) run_error(file.path(), "{} is missing", name);
        SourceTensor tensor = file.tensor(*value, name);
        if (tensor.shape.size() != 1 || (tensor.shape[0] > 1 && tensor.strides[0] != 1)) {
            run_error(
                file.path(),
                "{}: expected a contiguous tensor of 1 dimension, got shape {} with strides {}",
                name, io::Json(tensor.shape).dump(), io::Json(tensor.strides).dump());
        }
        return tensor;
    }

    struct Fragment {
        size_t rank = 0;
        i64 start = 0;  // first element in the flat partition
        i64 n = 0;
    };
    using Fragments = std::map<std::string, std::vector<Fragment>>;

    // Reads the fragments from param_slice_mappings, {name: fragment_address}, which the bf16
    // optimizer and newer versions of DeepSpeed save. Returns false when the files do not have
    // param_slice_mappings.
    bool stated_fragments(size_t group, Fragments& fragments) const {
        for (size_t rank = 0; rank < files_.size(); ++rank) {
            const PickleValue* mappings = state_of(files_[rank]).find("param_slice_mappings");
            const PickleValue* names = element(mappings, group);
            if (names == nullptr || !names->is(Kind::dict)) return false;
            for (size_t i = 0; i + 1 < names->items.size(); i += 2) {
                const PickleValue* n = names->items[i + 1]->find("numel");
                const PickleValue* start = names->items[i + 1]->find("start");
                if (n == nullptr || start == nullptr || !n->is(Kind::integer) ||
                    !start->is(Kind::integer)) {
                    run_error(files_[rank].path(),
                              "param_slice_mappings: expected whole numbers 'numel' and 'start' of "
                              "each parameter");
                }
                fragments[names->items[i]->text].push_back({rank, start->integer, n->integer});
            }
        }
        return true;
    }

    // Computes the fragments of files without param_slice_mappings: the partitions of all ranks,
    // concatenated, contain the parameters of `shapes` in sequence.
    void derive_fragments(size_t group, const PickleValue& shapes, Fragments& fragments) const {
        size_t rank = 0;
        i64 at = 0;
        i64 size = partition(files_[0], group, ckpt::SliceKind::master).shape[0];
        for (size_t i = 0; i + 1 < shapes.items.size(); i += 2) {
            i64 left = numel(shape_of(*shapes.items[i + 1]));
            while (left > 0) {
                if (at == size) {
                    if (++rank == files_.size()) {
                        run_error(
                            files_[0].path(),
                            "the partitions of group {} have fewer elements than its parameters",
                            group);
                    }
                    at = 0;
                    size = partition(files_[rank], group, ckpt::SliceKind::master).shape[0];
                    continue;
                }
                const i64 n = std::min(left, size - at);
                fragments[shapes.items[i]->text].push_back({rank, at, n});
                at += n;
                left -= n;
            }
        }
    }

    std::vector<i64> shape_of(const PickleValue& size) const {
        std::vector<i64> shape;
        for (const PickleValue* dim : size.items) {
            if (!dim->is(Kind::integer) || dim->integer < 0 || dim->integer > (i64{1} << 40)) {
                run_error(
                    model_.path(),
                    "param_shapes: expected whole numbers of at least 0 as the sizes of a tensor");
            }
            shape.push_back(dim->integer);
        }
        return shape;
    }

    void add_group(size_t group, const PickleValue& shapes) const {
        Fragments fragments;
        if (!stated_fragments(group, fragments)) derive_fragments(group, shapes, fragments);
        for (const ckpt::SliceKind kind : adam_kinds) {
            std::vector<SourceTensor> partitions;
            for (const TorchFile& file : files_) partitions.push_back(partition(file, group, kind));
            for (size_t i = 0; i + 1 < shapes.items.size(); i += 2) {
                const std::string& name = shapes.items[i]->text;
                add_(kind,
                     assemble(name, shape_of(*shapes.items[i + 1]), fragments[name], partitions));
            }
        }
    }

    SourceTensor assemble(const std::string& name, std::vector<i64> shape,
                          const std::vector<Fragment>& fragments,
                          const std::vector<SourceTensor>& partitions) const {
        auto storage = std::make_shared<Storage>();
        for (const Fragment& fragment : fragments) {
            const SourceTensor& from = partitions[fragment.rank];
            storage->dtype = from.storage->dtype;
            if (fragment.start < 0 || fragment.n < 0 ||
                fragment.n > from.shape[0] - fragment.start) {
                run_error(from.path(),
                          "corrupt: a fragment of {} exceeds the partition of the rank", name);
            }
            Extent extent = from.storage->extents[0];
            extent.offset += (from.start + fragment.start) * size_of(storage->dtype);
            extent.n = fragment.n;
            storage->extents.push_back(std::move(extent));
        }
        if (storage->extents.empty() || storage->numel() != numel(shape)) {
            run_error(files_[0].path(), "{}: expected {} elements in {} ranks, got {}", name,
                      numel(shape), files_.size(), storage->numel());
        }
        const std::vector<i64> strides = contiguous_strides(shape);
        return {name, std::move(storage), 0, std::move(shape), strides};
    }

    // Returns the number of Adam's steps. Different versions of DeepSpeed save this number in
    // different places, so all places are searched.
    i64 step() const {
        const PickleValue& state = state_of(files_[0]);
        std::vector<const PickleValue*> places{state.find("base_optimizer_state_step")};
        if (const PickleValue* moments = moments_of(state, 0))
            places.push_back(moments->find("step"));
        if (const PickleValue* base = state.find("base_optimizer_state")) {
            const PickleValue* groups = base->find("param_groups");
            if (const PickleValue* first = element(groups, 0))
                places.push_back(first->find("step"));
        }
        for (const PickleValue* place : places) {
            if (const auto number = number_of(place, files_[0])) return static_cast<i64>(*number);
        }
        return -1;
    }

    const TorchFile& model_;
    std::vector<TorchFile> files_;
    const AddParameter& add_;
};

}  // namespace

// The scale grows when the number of steps since the last overflow is a multiple of the window
// (DynamicLossScaler of fp16/loss_scaler.py).
io::Json deepspeed_loss_scale(const PickleValue& state, const TorchFile& file) {
    const PickleValue* scaler = state.find("loss_scaler");
    if (scaler == nullptr) return {};
    const auto number = [&](const char* key) { return number_of(scaler->find(key), file); };
    const auto scale = number("cur_scale");
    const auto n_updates = number("cur_iter");
    if (!scale || !n_updates) return {};
    const auto window = static_cast<i64>(number("scale_window").value_or(1000));
    const auto steps = static_cast<i64>(*n_updates - 1 - number("last_overflow_iter").value_or(-1));
    return {{"scale", *scale},
            {"steps_since_overflow", window > 0 && steps > 0 ? steps % window : 0},
            {"hysteresis_left", static_cast<i64>(number("cur_hysteresis").value_or(2))}};
}

std::optional<ZeroState> read_zero(const std::string& step, i64 mp_rank, const TorchFile& model,
                                   const AddParameter& add) {
    std::vector<TorchFile> files = open_ranks(step, mp_rank);
    if (files.empty()) return std::nullopt;
    return ZeroReader(model, std::move(files), add).run();
}

}  // namespace lm::convert
