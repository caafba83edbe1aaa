// SPDX-License-Identifier: Apache-2.0
#include "convert/megatron/megatron_import.hpp"

#include <algorithm>
#include <filesystem>

#include "base/error.hpp"
#include "base/log.hpp"
#include "convert/tokenizer_fit.hpp"
#include "io/file.hpp"

namespace lm::convert {
namespace {

using Kind = PickleValue::Kind;

constexpr int max_levels = 30;

void collect(const PickleValue& dict, const std::string& prefix, int level,
             std::vector<NamedValue>& tensors) {
    if (level > max_levels || !dict.is(Kind::dict)) return;
    for (size_t i = 0; i + 1 < dict.items.size(); i += 2) {
        const PickleValue& key = *dict.items[i];
        const PickleValue& value = *dict.items[i + 1];
        if (!key.is(Kind::text)) continue;
        if (value.is(Kind::tensor)) {
            tensors.push_back({prefix + key.text, &value});
        } else {
            collect(value, prefix + key.text + ".", level + 1, tensors);
        }
    }
}

// Returns the order of query, key and value in checkpoints with the checkpoint_version `version`
// (fix_query_key_value_ordering in Megatron's checkpointing.py).
QkvOrder qkv_order(double version) {
    if (version >= 2) return QkvOrder::groups;
    return version >= 1 ? QkvOrder::interleaved : QkvOrder::whole;
}

// Returns the rows of the word embeddings in the file of a rank; 0 when it has none.
i64 word_rows(const PickleValue& root) {
    for (const NamedValue& item : flat_tensors(root)) {
        const std::vector<i64>& shape = item.value->tensor[0].shape;
        if (item.name.ends_with("word_embeddings.weight") && !shape.empty()) return shape[0];
    }
    return 0;
}

// Reads the state of the learning rate schedule, whose num_steps are samples. Older schedulers have
// num_iters instead, which are iterations.
void read_scheduler(const PickleValue& root, MegatronHead& head) {
    const PickleValue* scheduler = root.find("opt_param_scheduler");
    if (scheduler == nullptr) scheduler = root.find("lr_scheduler");
    if (scheduler == nullptr || !scheduler->is(Kind::dict)) return;
    const PickleValue* steps = scheduler->find("num_steps");
    if (steps == nullptr || !steps->is(Kind::integer)) return;
    head.schedule_samples = steps->integer;
    i64& consumed = head.model.consumed_samples;
    if (consumed == 0 && head.iteration > 0) consumed = steps->integer;
}

}  // namespace

std::string tokenizer_directory(const std::string& path) {
    std::error_code error;
    const std::string name = std::filesystem::canonical(path, error).filename().string();
    const bool is_step =
        name.starts_with("iter_") || name.starts_with("global_step") || name == "release";
    const auto has_tokenizer = [&](std::string_view file) {
        return io::exists(fmt::format("{}/{}", path, file));
    };
    if (!is_step || std::ranges::any_of(ckpt::tokenizer_file_names, has_tokenizer)) return path;
    return path + "/..";  // also of the path "."
}

std::vector<NamedValue> flat_tensors(const PickleValue& dict) {
    std::vector<NamedValue> tensors;
    collect(dict, "", 0, tensors);
    return tensors;
}

std::optional<double> number_of(const PickleValue* value, const TorchFile& file) {
    if (value == nullptr) return std::nullopt;
    if (value->is(Kind::integer)) return static_cast<double>(value->integer);
    if (value->is(Kind::real)) return value->real;
    if (!value->is(Kind::tensor)) return std::nullopt;
    const PickledTensor& tensor = value->tensor[0];
    if (numel(tensor.shape) != 1 || !tensor.dtype) return std::nullopt;
    float number = 0;
    const SourceTensor source = file.tensor(*value, "number");
    SourceReader().read({source.storage, source.start, 1, 1, 1, 1}, DType::fp32,
                        reinterpret_cast<std::byte*>(&number), 1);
    return number;
}

MegatronHead read_head(const TorchFile& file, const ConversionRequest& request, i64 tp, i64 pp) {
    const PickleValue& root = file.root();
    const PickleValue* args = root.find("args");
    const PickleValue no_args;
    const bool has_args = args != nullptr && args->is(Kind::object);
    MegatronHead head;
    head.model = megatron_model(has_args ? *args : no_args, root.find("checkpoint_info"), request,
                                {.tp = tp, .pp = pp, .word_rows = word_rows(root)}, file.path());
    const PickleValue* iteration = root.find("iteration");
    for (const char* key : {"total_iters", "global_steps"}) {
        if (iteration == nullptr || !iteration->is(Kind::integer)) iteration = root.find(key);
    }
    if (iteration != nullptr && iteration->is(Kind::integer)) head.iteration = iteration->integer;
    read_scheduler(root, head);
    head.qkv = qkv_order(number_of(root.find("checkpoint_version"), file).value_or(0));
    return head;
}

MegatronImport::MegatronImport(const ConversionRequest& request, MegatronHead head)
    : request_(request), head_(std::move(head)), import_(head_.model.config) {}

void MegatronImport::require_rows(i64 vocab_rows, const SourceTensor& tensor) const {
    const i64 wanted = head_.model.config.vocab_size;
    if (wanted <= vocab_rows) return;
    if (request_.vocab_size > 0) {
        usage_error("--vocab-size", "must be at most {}, the number of rows of {} in {}, got {}",
                    vocab_rows, tensor.name, tensor.path(), wanted);
    }
    run_error(tensor.path(),
              "tensor {}: expected at least {} rows, the stated vocabulary size, got {}",
              tensor.name, wanted, vocab_rows);
}

void MegatronImport::add(const std::string& own, ckpt::SliceKind kind, const SourceTensor& tensor,
                         i64 tp_rank, i64 tp) {
    if (request_.weights_only && kind != ckpt::SliceKind::weight) return;
    const bool copy = tp_rank > 0 && is_replicated(own);
    if (copy && !request_.replicas) return;
    // Masters of fp32 weights are skipped, because the weights are their own masters.
    if (kind == ckpt::SliceKind::master && weights_ == DType::fp32) return;
    MegatronPart part{tp_rank, tp, head_.qkv, head_.model.padded_vocab};
    // Computes the padded vocabulary from the rows in the file, because the arguments may state
    // another padding.
    if (own == "embedding.word.weight" || own == "head.weight") {
        part.padded_vocab = tensor.shape.empty() ? 0 : tensor.shape[0] * tp;
        require_rows(part.padded_vocab, tensor);
    }
    const auto map = megatron_part(import_.tensors(), own, part);
    if (!map) {
        run_error(tensor.path(), "tensor {} is not part of the model that args or flags describe",
                  tensor.name);
    }
    if (copy) return import_.add_copy(*map, kind, tensor);
    if (kind == ckpt::SliceKind::weight && !weights_) weights_ = tensor.storage->dtype;
    import_.add(*map, kind, tensor);
}

void MegatronImport::add_tied_copy(ckpt::SliceKind kind, const SourceTensor& tensor, i64 tp_rank,
                                   i64 tp) {
    if (request_.replicas != Replicas::rank0) return;
    if (request_.weights_only && kind != ckpt::SliceKind::weight) return;
    if (kind == ckpt::SliceKind::master && weights_ == DType::fp32) return;
    const i64 rows = tensor.shape.empty() ? 0 : tensor.shape[0] * tp;
    const auto map =
        megatron_part(import_.tensors(), "embedding.word.weight", {tp_rank, tp, head_.qkv, rows});
    if (map) import_.add_copy(*map, kind, tensor);
}

MappedTensor MegatronImport::whole(const std::string& own, i64 vocab_rows,
                                   const std::string& path) const {
    const auto map = megatron_part(import_.tensors(), own, {0, 1, head_.qkv, vocab_rows});
    if (!map)
        run_error(path, "tensor {} is not part of the model that args or flags describe", own);
    return *map;
}

void MegatronImport::add_part(const std::string& own, ckpt::SliceKind kind,
                              const SourceTensor& tensor, i64 row, i64 col, i64 vocab_rows) {
    if (request_.weights_only && kind != ckpt::SliceKind::weight) return;
    if (kind == ckpt::SliceKind::master && weights_ == DType::fp32) return;
    if (own == "embedding.word.weight" || own == "head.weight") require_rows(vocab_rows, tensor);
    const MappedTensor map = whole(own, vocab_rows, tensor.path());
    const i64 n_rows = tensor.shape[0];
    const i64 n_cols = map.rank == 2 && tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    if (n_rows > map.n_rows() - row || n_cols > map.n_cols() - col) {
        run_error(
            tensor.path(),
            "tensor {}: expected shape {} from the arguments in the checkpoint, got a part that "
            "ends at row and column ({}, {})",
            tensor.name, io::Json(map.shape()).dump(), row + n_rows, col + n_cols);
    }
    if (kind == ckpt::SliceKind::weight && !weights_) weights_ = tensor.storage->dtype;
    import_.add(map.part(row, n_rows, col, n_cols), kind, tensor);
}

std::optional<MappedTensor> MegatronImport::part(const std::string& own, i64 tp_rank,
                                                 i64 vocab_rows) const {
    return megatron_part(import_.tensors(), own, {tp_rank, head_.model.tp, head_.qkv, vocab_rows});
}

std::string MegatronImport::tensor_with_other_masters() const {
    import_.check_complete(request_.in);
    return import_.tensor_with_other_masters(weights_.value_or(DType::fp32));
}

void MegatronImport::set_loss_scale(const PickleValue* scaler, const TorchFile& file) {
    if (scaler == nullptr) return;
    const auto scale = number_of(scaler->find("scale"), file);
    if (!scale) return;
    const double growth = number_of(scaler->find("growth_tracker"), file).value_or(0);
    const double hysteresis = number_of(scaler->find("hysteresis_tracker"), file).value_or(2);
    loss_scale_ = {{"scale", *scale},
                   {"steps_since_overflow", static_cast<i64>(growth)},
                   {"hysteresis_left", static_cast<i64>(hysteresis)}};
}

ImportVerification MegatronImport::verify() const {
    return import_.verify(request_, weights());
}

ConversionReport MegatronImport::write() {
    const MegatronModel& model = head_.model;
    if (!model.vocab_known) {
        note(
            "{}: the unpadded size of the vocabulary is unknown, so all {} rows are kept: give "
            "--vocab-size",
            request_.in, model.config.vocab_size);
    }
    if (model.eod_after_vocab) {
        note(
            "{}: {} rows of the vocabulary are kept: if this version of Megatron-LM added the "
            "end-of-document id of NullTokenizer to --vocab-size, give --vocab-size {}",
            request_.in, model.config.vocab_size, model.config.vocab_size + 1);
    }
    if (head_.schedule_samples >= 0 && head_.schedule_samples != model.consumed_samples) {
        note(
            "{}: its learning rate schedule is at sample {}, but the training has consumed {}: "
            "lm-train continues the schedule at {}",
            request_.in, head_.schedule_samples, model.consumed_samples, model.consumed_samples);
    }
    ckpt::SaveInfo info;
    info.counters = {.iteration = head_.iteration,
                     .consumed_samples = model.consumed_samples,
                     .consumed_tokens = model.consumed_tokens >= 0
                                            ? model.consumed_tokens
                                            : model.consumed_samples * model.config.seq_length,
                     .optimizer_step = optimizer_step()};
    const std::string tokenizer = tokenizer_directory(request_.in);
    check_tokenizer_fits(tokenizer, model.config.vocab_size);
    info.tokenizer.files = ckpt::tokenizer_files_in(tokenizer);
    info.seed = model.seed;
    info.weights = weights();
    if (!loss_scale_.is_null()) {
        info.state = io::json_line(io::OrderedJson{{"loss_scale", loss_scale_}});
    }
    if (!request_.weights_only && !ckpt::optimizer_of(import_)) {
        note("{}: has no optimizer state that can be imported: the output has weights only",
             request_.in);
    }
    return import_.write(request_, info);
}

}  // namespace lm::convert
