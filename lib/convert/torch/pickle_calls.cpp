// SPDX-License-Identifier: Apache-2.0
#include "convert/torch/pickle_calls.hpp"

#include <algorithm>
#include <limits>

#include "convert/torch/pickle_globals.hpp"

namespace lm::convert {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t max_dimensions = 8;

bool read_sizes(const PickleValue& value, std::vector<i64>& sizes) {
    if (!value.is(Kind::tuple) && !value.is(Kind::list)) return false;
    if (value.items.size() > max_dimensions) return false;
    for (const PickleValue* item : value.items) {
        if (!item->is(Kind::integer) || item->integer < 0) return false;
        sizes.push_back(item->integer);
    }
    return true;
}

// Returns whether all elements of the tensor are within its storage.
bool fits(const PickledTensor& tensor) {
    __extension__ using Wide = __int128;
    constexpr Wide most = std::numeric_limits<i64>::max() / 16;
    if (tensor.shape.size() != tensor.strides.size() || tensor.offset < 0) return false;
    Wide n = 1;
    Wide last = tensor.offset;
    for (size_t dim = 0; dim < tensor.shape.size(); ++dim) {
        n *= tensor.shape[dim];
        last += Wide{std::max<i64>(tensor.shape[dim] - 1, 0)} * tensor.strides[dim];
        if (n > most || last > most) return false;
    }
    return n == 0 || last < tensor.storage_numel;
}

// Turns a call _rebuild_tensor_v2(storage, offset, size, stride, ...) into a tensor. `has_dtype`:
// the call is _rebuild_tensor_v3, which has the dtype as argument 6.
std::string interpret_tensor(PickleValue& call, bool has_dtype) {
    const auto& args = call.items;
    if (args.size() < (has_dtype ? 7U : 4U) || !args[0]->is(Kind::storage) ||
        !args[1]->is(Kind::integer)) {
        return "the arguments of a tensor have unexpected types";
    }
    PickledTensor tensor = args[0]->tensor.at(0);
    if (has_dtype) {
        const i64 bytes = tensor.storage_numel * tensor.element_bytes;
        if (!args[6]->is(Kind::global) || !set_dtype(args[6]->text, tensor)) {
            return "a tensor has an unknown dtype";
        }
        tensor.storage_numel = bytes / tensor.element_bytes;
    }
    tensor.offset = args[1]->integer;
    if (!read_sizes(*args[2], tensor.shape) || !read_sizes(*args[3], tensor.strides)) {
        return "a tensor has an invalid shape or stride";
    }
    if (!fits(tensor)) return "a tensor exceeds its storage";
    call.kind = Kind::tensor;
    call.tensor = {std::move(tensor)};
    call.items.clear();
    return {};
}

// Turns a call _rebuild_from_type_v2(function, type, arguments, state) into a tensor. PyTorch 2
// saves a tensor with Python attributes, such as Megatron's fp32 masters, in this form. Leaves
// calls with other types unchanged.
std::string interpret_typed_tensor(PickleValue& call) {
    const auto& args = call.items;
    const bool known = args.size() >= 3 && args[0]->is(Kind::global) &&
                       args[0]->text.starts_with("torch._utils _rebuild_tensor_v") &&
                       args[2]->is(Kind::tuple);
    if (!known) return {};
    const bool has_dtype = args[0]->text.ends_with("3");
    PickleValue inner;
    inner.items = args[2]->items;
    const std::string problem = interpret_tensor(inner, has_dtype);
    if (!problem.empty()) return problem;
    call.kind = Kind::tensor;
    call.tensor = std::move(inner.tensor);
    call.items.clear();
    return {};
}

// Fills a dict from the argument of dict(...) or OrderedDict(...): a dict, or a list of pairs.
bool fill_dict(PickleValue& call, size_t argument) {
    std::vector<PickleValue*> items;
    if (call.items.size() > argument) {
        const PickleValue& from = *call.items[argument];
        if (from.is(Kind::dict)) {
            items = from.items;
        } else if (from.is(Kind::list) || from.is(Kind::tuple)) {
            for (const PickleValue* pair : from.items) {
                if (pair->items.size() != 2 || pair->is(Kind::dict)) return false;
                items.insert(items.end(), pair->items.begin(), pair->items.end());
            }
        } else {
            return false;
        }
    }
    call.kind = Kind::dict;
    call.items = std::move(items);
    return true;
}

// Turns a call list(...), set(...), tuple(...) or torch.Size(...) into a value of `kind` with the
// items of the argument.
void fill_sequence(PickleValue& call, Kind kind) {
    std::vector<PickleValue*> items;
    if (!call.items.empty()) {
        const PickleValue& from = *call.items[0];
        if (!from.is(Kind::list) && !from.is(Kind::tuple) && !from.is(Kind::set)) return;
        items = from.items;
    }
    call.kind = kind;
    call.items = std::move(items);
}

// Turns a call _codecs.encode(text, "latin1") into bytes. Protocol 2 writes bytes in this form.
void decode_bytes(PickleValue& call) {
    if (call.items.size() != 2 || !call.items[0]->is(Kind::text) ||
        call.items[1]->text != "latin1") {
        return;
    }
    std::string bytes;
    const std::string& text = call.items[0]->text;
    for (size_t i = 0; i < text.size(); ++i) {
        const auto c = static_cast<unsigned char>(text[i]);
        if (c < 0x80) {
            bytes.push_back(static_cast<char>(c));
        } else if ((c & 0xfcU) == 0xc0U && i + 1 < text.size()) {
            const auto next = static_cast<unsigned char>(text[++i]);
            bytes.push_back(static_cast<char>((c & 3U) << 6U | (next & 0x3fU)));
        } else {
            return;
        }
    }
    call.kind = Kind::bytes;
    call.text = std::move(bytes);
    call.items.clear();
}

}  // namespace

std::string interpret_call(PickleValue& call) {
    if (!call.callable->is(Kind::global)) return {};
    const std::string& name = call.callable->text;
    const auto is_builtin = [&](std::string_view type) {
        return name == "builtins " + std::string(type) ||
               name == "__builtin__ " + std::string(type);
    };
    if (name == "torch._utils _rebuild_tensor_v2" || name == "torch._utils _rebuild_tensor") {
        return interpret_tensor(call, false);
    }
    if (name == "torch._utils _rebuild_tensor_v3") return interpret_tensor(call, true);
    if (name == "torch._tensor _rebuild_from_type_v2") return interpret_typed_tensor(call);
    if (name.starts_with("torch._utils _rebuild_parameter")) {
        if (call.items.empty() || !call.items[0]->is(Kind::tensor)) {
            return "a parameter is not a tensor";
        }
        call.kind = Kind::tensor;
        call.tensor = call.items[0]->tensor;
        call.items.clear();
    } else if (name == "collections OrderedDict" || is_builtin("dict")) {
        if (!fill_dict(call, 0)) return "the arguments of a dict have unexpected types";
    } else if (name == "collections defaultdict") {
        if (!fill_dict(call, 1)) return "the arguments of a dict have unexpected types";
    } else if (name == "torch Size" || is_builtin("tuple")) {
        fill_sequence(call, Kind::tuple);
    } else if (is_builtin("list")) {
        fill_sequence(call, Kind::list);
    } else if (is_builtin("set") || is_builtin("frozenset")) {
        fill_sequence(call, Kind::set);
    } else if (name == "_codecs encode") {
        decode_bytes(call);
    } else if (is_builtin("bytes") && call.items.empty()) {
        call.kind = Kind::bytes;
    }
    return {};
}

std::string interpret_storage(const PickleValue& id, PickleValue& storage) {
    // `id` is ('storage', type, key, location, numel). Old files have a sixth item, a view, which
    // must be None.
    const auto& items = id.items;
    const bool known = id.is(Kind::tuple) && (items.size() == 5 || items.size() == 6) &&
                       items[0]->is(Kind::text) && items[0]->text == "storage" &&
                       items[1]->is(Kind::global) && items[2]->is(Kind::text) &&
                       items[3]->is(Kind::text) && items[4]->is(Kind::integer);
    if (!known) return "a persistent id is not a storage";
    if (items.size() == 6 && !items[5]->is(Kind::none))
        return "a storage is a view of another storage";
    PickledTensor tensor;
    tensor.storage_key = items[2]->text;
    tensor.storage_numel = items[4]->integer;
    const bool digits = !tensor.storage_key.empty() && tensor.storage_key.size() <= 20 &&
                        std::ranges::all_of(tensor.storage_key,
                                            [](unsigned char c) { return c >= '0' && c <= '9'; });
    if (!digits) return "the key of a storage is not a number";
    if (!set_storage_type(items[1]->text, tensor)) return "a storage has an unknown type";
    constexpr i64 most = std::numeric_limits<i64>::max() / 16;
    if (tensor.storage_numel < 0 || tensor.storage_numel > most) {
        return "a storage has an invalid number of elements";
    }
    storage.kind = Kind::storage;
    storage.tensor = {std::move(tensor)};
    return {};
}

}  // namespace lm::convert
