// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/distributed_optimizer.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"
#include "base/shape.hpp"
#include "io/json.hpp"

namespace lm::convert {

namespace {

constexpr i64 alignment = 64;  // elements; parameters start at multiples of this number

i64 aligned(i64 at) {
    return ceil_div(at, alignment) * alignment;
}

// Returns the elements [begin, begin + n) of a storage.
std::shared_ptr<Storage> part_of(const Storage& storage, i64 begin, i64 n) {
    auto part = std::make_shared<Storage>();
    part->dtype = storage.dtype;
    for (const Extent& extent : storage.extents) {
        const i64 first = std::max(begin, i64{0});
        const i64 last = std::min(begin + n, extent.n);
        if (first < last) {
            Extent cut = extent;
            cut.offset += first * size_of(storage.dtype);
            cut.n = last - first;
            part->extents.push_back(std::move(cut));
        }
        begin -= extent.n;
    }
    return part;
}

}  // namespace

std::vector<i64> bucket_sizes(const std::vector<BufferParameter>& parameters, i64 full) {
    std::vector<i64> sizes;
    i64 at = 0;
    // Buckets are filled from the last parameter to the first.
    for (size_t i = parameters.size(); i-- > 0;) {
        const BufferParameter& parameter = parameters[i];
        at = aligned(at);
        if (parameter.alone && at > 0) {
            sizes.push_back(at);
            at = 0;
        }
        at += numel(parameter.shape);
        if ((full > 0 && at >= full) || parameter.alone) {
            sizes.push_back(at);
            at = 0;
        }
    }
    if (at > 0) sizes.push_back(at);
    return sizes;
}

std::optional<std::vector<i64>> buffer_positions(const std::vector<BufferParameter>& parameters,
                                                 const std::vector<i64>& buckets) {
    std::vector<i64> positions(parameters.size());
    size_t bucket = 0;
    i64 bucket_begin = 0;
    i64 at = 0;
    for (size_t i = parameters.size(); i-- > 0;) {
        if (bucket == buckets.size()) return std::nullopt;
        at = aligned(at);
        positions[i] = bucket_begin + at;
        at += numel(parameters[i].shape);
        if (at > buckets[bucket]) return std::nullopt;
        // The padding that aligns a parameter with its own bucket belongs to the previous bucket.
        if (at == buckets[bucket] || aligned(at) == buckets[bucket]) {
            bucket_begin += buckets[bucket++];
            at = 0;
        }
    }
    return bucket == buckets.size() ? std::optional(positions) : std::nullopt;
}

void add_buffer(MegatronImport& import, const std::vector<BufferParameter>& parameters,
                const std::vector<i64>& positions, const BufferState& state, i64 tp_rank, i64 tp) {
    for (size_t i = 0; i < parameters.size(); ++i) {
        const BufferParameter& parameter = parameters[i];
        if (parameter.own.empty()) continue;
        const SourceTensor tensor{parameter.own,
                                  part_of(state.storage, positions[i], numel(parameter.shape)), 0,
                                  parameter.shape, contiguous_strides(parameter.shape)};
        import.add(parameter.own, state.kind, tensor, tp_rank, tp);
    }
}

void add_in_matching_order(MegatronImport& import, const std::string& path,
                           const std::function<bool(MegatronImport& copy, NormOrder order)>& add) {
    std::string other;
    for (const NormOrder order : {NormOrder::output_first, NormOrder::norm_first}) {
        MegatronImport copy = import;
        if (!add(copy, order)) continue;
        other = copy.tensor_with_other_masters();
        if (!other.empty()) continue;
        import.replace_sources(std::move(copy));
        return;
    }
    if (other.empty()) {
        run_error(path,
                  "the buckets of the distributed optimizer do not have the sizes of the model's "
                  "parameters: the files are from different checkpoints, or the order of the "
                  "parameters is not supported");
    }
    run_error(path,
              "the optimizer state does not match the weights of {} in any known order of the "
              "parameters: the state is from another checkpoint, or its order is not supported",
              other);
}

std::vector<BufferParameter> chunk_parameters(const MegatronImport& import,
                                              const BufferChunk& chunk, NormOrder order) {
    const MegatronModel& model = import.head().model;
    const spec::ModelConfig& c = import.config();
    const i64 n_chunks = std::max<i64>(model.virtual_stages, 1);
    const i64 n_layers = c.n_layers / (model.pp * n_chunks);
    const bool first = chunk.stage == 0 && chunk.chunk == 0;
    const bool last = chunk.stage == model.pp - 1 && chunk.chunk == n_chunks - 1;
    const bool shared = !c.untied_head && model.pp > 1;
    std::vector<BufferParameter> all;
    const auto add = [&](const std::string& own, bool alone = false) {
        if (const auto map = import.part(own, chunk.tp_rank, chunk.vocab_rows)) {
            all.push_back({own, map->shape(), alone});
        }
    };
    const auto add_module = [&](const std::string& module) {
        for (const char* suffix : {".weight", ".bias"}) add(module + suffix);
    };
    if (first) {
        add("embedding.word.weight", shared);
        add("embedding.position.weight");
    }
    for (i64 i = 0; i < n_layers; ++i) {
        const std::string layer = fmt::format(
            "layers.{}.", chunk.chunk * (c.n_layers / n_chunks) + chunk.stage * n_layers + i);
        if (order == NormOrder::norm_first) add_module(layer + "attention.norm");
        add_module(layer + "attention.output");
        if (order == NormOrder::output_first) add_module(layer + "attention.norm");
        add_module(layer + "attention.qkv");
        add_module(layer + "mlp.norm");
        add_module(layer + (import.gated() ? "mlp.gate_up" : "mlp.up"));
        add_module(layer + "mlp.down");
    }
    if (last) {
        add_module("final_norm");
        if (c.untied_head) add("head.weight");
        if (shared) {
            add("embedding.word.weight", true);
            all.back().own.clear();
        }
    }
    return all;
}

namespace {

using Kind = PickleValue::Kind;
using ckpt::SliceKind;

// Returns the name of a kind of state in the distributed optimizer.
std::string_view state_name(SliceKind kind) {
    return kind == SliceKind::master ? "param" : kind.name();
}

std::optional<i64> steps(const PickleValue& value, const TorchFile& file, int level) {
    constexpr int max_levels = 8;
    if (level > max_levels) return std::nullopt;
    for (const char* key : {"common_step", "step"}) {
        if (const auto number = number_of(value.find(key), file)) return static_cast<i64>(*number);
    }
    if (!value.is(Kind::dict) && !value.is(Kind::list)) return std::nullopt;
    for (const PickleValue* item : value.items) {
        if (const auto number = steps(*item, file, level + 1)) return number;
    }
    return std::nullopt;
}

// Returns the value in a buffer {(parameter type, gradient type): value}, which must have one
// entry.
const PickleValue& only_type(const PickleValue* buffer, const std::string& path) {
    if (buffer == nullptr || !buffer->is(Kind::dict)) {
        run_error(path, "distributed optimizer: a chunk of the model has no buffer");
    }
    if (buffer->items.size() != 2) {
        usage_error(path, "distributed optimizer: expected parameters of one type, got {}",
                    buffer->items.size() / 2);
    }
    return *buffer->items[1];
}

// Returns the number of elements at which megatron-core closes a bucket of a chunk
// (distributed_data_parallel.py); 0: the chunk has a single bucket.
i64 full_bucket(const MegatronImport& import, i64 stage, size_t chunk) {
    const MegatronModel& model = import.head().model;
    if (!model.overlap_grad_reduce || stage > 0 || chunk > 0) return 0;
    constexpr i64 least = 40'000'000;
    constexpr i64 least_of_rank = 1'000'000;
    if (model.bucket_size > 0) return model.bucket_size;
    return std::max(least, least_of_rank * model.data_parallel);
}

Storage storage_of(const PickleValue* value, const TorchFile& file, std::string_view name) {
    if (value == nullptr) run_error(file.path(), "distributed optimizer: {} is missing", name);
    const SourceTensor tensor = file.tensor(*value, std::string(name));
    Storage storage = *tensor.storage;
    if (tensor.shape.size() != 1 || tensor.start != 0 || tensor.shape[0] > storage.numel()) {
        run_error(file.path(),
                  "distributed optimizer: {}: expected a tensor of 1 dimension at offset 0 of its "
                  "storage, got shape {} at offset {} of a storage of {} elements",
                  name, io::Json(tensor.shape).dump(), tensor.start, storage.numel());
    }
    storage.extents.at(0).n = tensor.shape[0];
    return storage;
}

// Returns the object of a record. The file of a record contains a list whose only item is the
// object.
const PickleValue& only_item(const TorchFile& file) {
    if (!file.root().is(Kind::list) || file.root().items.size() != 1) {
        run_error(file.path(), "corrupt: expected a list with one object");
    }
    return *file.root().items[0];
}

// The buckets that a model-parallel rank has in the format "torch_dist", in chunks.
class ShardedBuckets {
  public:
    ShardedBuckets(const DistCheckpoint& checkpoint, i64 group) : checkpoint_(checkpoint) {
        prefix_ = fmt::format("optimizer.distributed.dp_group_idx_{}.", group);
    }

    const std::string& prefix() const { return prefix_; }

    // Returns the keys of the buckets of a buffer, in the order of the buckets. The keys omit the
    // name of the state.
    std::vector<std::string> keys(i64 buffer) const {
        const std::string start = fmt::format("{}gbuf_idx_{}.dtype_", prefix_, buffer);
        const std::string end = ".param";
        std::map<i64, std::string> found;
        for (const auto& [key, tensor] : checkpoint_.tensors()) {
            const size_t at = key.find(start);
            const size_t number = key.rfind(".bucket_idx_");
            if (at == key.npos || !key.ends_with(end) || number == key.npos) continue;
            const std::string bucket = key.substr(0, key.size() - end.size());
            const auto index = parse_number(std::string_view(bucket).substr(number + 12));
            if (!index) continue;
            if (!found.emplace(*index, bucket).second) {
                usage_error(checkpoint_.path(),
                            "distributed optimizer: expected parameters of one type, got several");
            }
        }
        std::vector<std::string> keys;
        for (auto& [digits, key] : found) keys.push_back(std::move(key));
        return keys;
    }

    i64 size(const std::string& key) const { return checkpoint_.tensors().at(key).shape.at(0); }

    // Appends the elements of a bucket to `storage`.
    void append(const std::string& key, Storage& storage) const {
        const auto tensor = checkpoint_.tensors().find(key);
        if (tensor == checkpoint_.tensors().end()) {
            run_error(checkpoint_.path(), "{} is missing", key);
        }
        std::map<i64, SourceTensor> chunks;
        for (const DistChunk& chunk : tensor->second.chunks) {
            chunks.emplace(chunk.offsets.at(0), DistCheckpoint::read(chunk, key));
        }
        const i64 size = tensor->second.shape.at(0);
        const i64 n = checkpoint_.append(key, chunks, size, storage);
        if (n != size) {
            run_error(checkpoint_.path(), "{}: expected {} elements, got {}", key, size, n);
        }
    }

  private:
    const DistCheckpoint& checkpoint_;
    std::string prefix_;
};

// Adds the state in the buckets of one rank. Returns false when the sizes of the buckets do not
// match these parameters.
bool add_sharded_rank(MegatronImport& import, const ShardedBuckets& buckets, i64 buffer,
                      const std::vector<BufferParameter>& parameters, i64 tp_rank) {
    const std::vector<std::string> keys = buckets.keys(buffer);
    std::vector<i64> sizes;
    for (const std::string& key : keys) sizes.push_back(buckets.size(key + ".param"));
    const auto positions = buffer_positions(parameters, sizes);
    if (!positions) return false;
    for (const SliceKind kind : adam_kinds) {
        BufferState all{kind, {}};
        for (const std::string& key : keys) {
            buckets.append(fmt::format("{}.{}", key, state_name(kind)), all.storage);
        }
        add_buffer(import, parameters, *positions, all, tp_rank, import.head().model.tp);
    }
    return true;
}

}  // namespace

std::optional<i64> optimizer_steps(const PickleValue& state, const TorchFile& file) {
    return steps(state, file, 0);
}

bool add_gathered_state(MegatronImport& import, const PickleValue& root, const TorchFile& file,
                        const std::vector<std::vector<BufferParameter>>& chunks, i64 tp_rank,
                        i64 stage) {
    const PickleValue* coalesced = root.find("buckets_coalesced");
    if (coalesced == nullptr || !coalesced->boolean) {
        usage_error(file.path(),
                    "distributed optimizer: written by an old version of Megatron-LM: load the "
                    "checkpoint with megatron-core 0.6 or later, and save it again");
    }
    for (size_t chunk = 0; chunk < chunks.size(); ++chunk) {
        const PickleValue& tensors = only_type(root.find(static_cast<i64>(chunk)), file.path());
        const std::vector<i64> buckets =
            bucket_sizes(chunks[chunk], full_bucket(import, stage, chunk));
        const i64 n = std::accumulate(buckets.begin(), buckets.end(), i64{0});
        const auto positions = buffer_positions(chunks[chunk], buckets);
        LM_CHECK(positions.has_value(),
                 "expected parameters that fill buckets of {} elements in total, got one that fits "
                 "into no bucket",
                 n);
        for (const SliceKind kind : adam_kinds) {
            const std::string_view name = state_name(kind);
            BufferState all{kind, storage_of(tensors.find(name), file, name)};
            if (all.storage.numel() != n) return false;
            add_buffer(import, chunks[chunk], *positions, all, tp_rank, import.head().model.tp);
        }
    }
    return true;
}

bool add_sharded_buffers(MegatronImport& import, const DistCheckpoint& checkpoint, i64 vocab_rows) {
    const auto is_state = [](const auto& item) {
        return item.first.starts_with("optimizer.distributed.") ||
               item.first.starts_with("chained_");
    };
    if (std::ranges::none_of(checkpoint.tensors(), is_state) &&
        std::ranges::none_of(checkpoint.objects(), is_state)) {
        return false;
    }
    const MegatronModel& model = import.head().model;
    const i64 n_chunks = std::max<i64>(model.virtual_stages, 1);
    add_in_matching_order(import, checkpoint.path(), [&](MegatronImport& copy, NormOrder order) {
        for (i64 group = 0; group < model.pp * model.tp; ++group) {
            const i64 tp_rank = group % model.tp;
            const i64 stage = group / model.tp;
            const ShardedBuckets buckets(checkpoint, group);
            std::vector<std::vector<BufferParameter>> chunks;
            for (i64 chunk = 0; chunk < n_chunks; ++chunk) {
                chunks.push_back(
                    chunk_parameters(copy, {tp_rank, stage, chunk, vocab_rows}, order));
            }
            const auto gathered =
                checkpoint.objects().find(buckets.prefix() + "param_state/shard_0_1");
            if (gathered != checkpoint.objects().end()) {
                const TorchFile file = gathered->second.open();
                if (!add_gathered_state(copy, only_item(file), file, chunks, tp_rank, stage)) {
                    return false;
                }
                continue;
            }
            for (i64 chunk = 0; chunk < n_chunks; ++chunk) {
                const auto& parameters = chunks[static_cast<size_t>(chunk)];
                if (!add_sharded_rank(copy, buckets, chunk, parameters, tp_rank)) return false;
            }
        }
        return true;
    });
    for (const char* part : {"optimizer", "grad_scaler"}) {
        const auto object = checkpoint.objects().find(
            fmt::format("optimizer.distributed.dp_group_idx_0.{}/shard_0_1", part));
        if (object == checkpoint.objects().end()) continue;
        const TorchFile file = object->second.open();
        if (const auto n = optimizer_steps(file.root(), file)) import.set_optimizer_step(*n);
        if (part == std::string_view("grad_scaler")) import.set_loss_scale(&only_item(file), file);
    }
    return true;
}

}  // namespace lm::convert
