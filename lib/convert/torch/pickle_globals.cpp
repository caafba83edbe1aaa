// SPDX-License-Identifier: Apache-2.0
#include "convert/torch/pickle_globals.hpp"

#include <algorithm>
#include <array>
#include <string>

#include "base/error.hpp"

namespace lm::convert {
namespace {

struct ElementType {
    std::string_view storage;  // "BFloat16": torch.BFloat16Storage
    std::string_view dtype;    // torch.bfloat16
    i64 bytes;
    std::optional<DType> known;
};
constexpr std::array element_types{
    ElementType{"Float", "float32", 4, DType::fp32},
    ElementType{"BFloat16", "bfloat16", 2, DType::bf16},
    ElementType{"Half", "float16", 2, DType::fp16},
    ElementType{"Double", "float64", 8, DType::fp64},
    ElementType{"Long", "int64", 8, std::nullopt},
    ElementType{"Int", "int32", 4, std::nullopt},
    ElementType{"Short", "int16", 2, std::nullopt},
    ElementType{"Char", "int8", 1, std::nullopt},
    ElementType{"Byte", "uint8", 1, std::nullopt},
    ElementType{"Bool", "bool", 1, std::nullopt},
    ElementType{"ComplexFloat", "complex64", 8, std::nullopt},
    ElementType{"ComplexDouble", "complex128", 16, std::nullopt},
    ElementType{"", "float8_e4m3fn", 1, std::nullopt},
    ElementType{"", "float8_e5m2", 1, std::nullopt},
};

constexpr std::array<std::string_view, 65> known_globals{
    "argparse Namespace",
    "types SimpleNamespace",
    "collections OrderedDict",
    "collections defaultdict",
    "collections deque",
    "functools partial",
    "pathlib PosixPath",
    "pathlib PurePosixPath",
    "signal Signals",
    "datetime timedelta",
    "_io BytesIO",
    "_codecs encode",
    "copyreg _reconstructor",
    "copy_reg _reconstructor",
    "torch Size",
    "torch device",
    "torch Tensor",
    "torch Generator",
    "torch._C Generator",
    "torch._utils _rebuild_tensor",
    "torch._utils _rebuild_tensor_v2",
    "torch._utils _rebuild_tensor_v3",
    "torch._utils _rebuild_parameter",
    "torch._utils _rebuild_parameter_with_state",
    "torch._tensor _rebuild_from_type_v2",
    "torch.nn.parameter Parameter",
    "torch.nn.functional gelu",
    "torch.nn.functional silu",
    "torch._C._nn gelu",
    "torch._C._nn silu",
    "torch.storage UntypedStorage",
    "torch.storage TypedStorage",
    "torch.storage _UntypedStorage",
    "torch UntypedStorage",
    "torch.serialization _get_layout",
    "torch strided",
    "torch contiguous_format",
    "torch.nn.init xavier_uniform_",
    "numpy dtype",
    "numpy ndarray",
    "numpy.core.multiarray _reconstruct",
    "numpy.core.multiarray scalar",
    "numpy._core.multiarray _reconstruct",
    "numpy._core.multiarray scalar",
    "numpy.core.numeric _frombuffer",
    "numpy._core.numeric _frombuffer",
    "torch.distributed.checkpoint.metadata Metadata",
    "torch.distributed.checkpoint.metadata TensorStorageMetadata",
    "torch.distributed.checkpoint.metadata BytesStorageMetadata",
    "torch.distributed.checkpoint.metadata ChunkStorageMetadata",
    "torch.distributed.checkpoint.metadata MetadataIndex",
    "torch.distributed.checkpoint.metadata TensorProperties",
    "torch.distributed.checkpoint.metadata _MEM_FORMAT_ENCODING",
    "torch.distributed.checkpoint.metadata StorageMeta",
    "torch.distributed.checkpoint.filesystem _StorageInfo",
    "torch.distributed.checkpoint.filesystem _StoragePrefix",
    "torch.distributed._shard.sharded_tensor.metadata TensorProperties",
    "torch.distributed._shard.sharded_tensor.metadata MEM_FORMAT_ENCODING",
    "torch.distributed.checkpoint.planner SavePlan",
    "torch.distributed.checkpoint.planner TensorWriteData",
    "torch.distributed.checkpoint.planner WriteItem",
    "torch.distributed.checkpoint.planner WriteItemType",
    "torch.serialization _LayoutMap",
    "torch.optim.adamw AdamW",
    "torch.optim.adam Adam"};

// Types of data, and getattr, which names a member of an enum in pickles of Python 3.11. lm-utils
// calls none of them.
constexpr std::array<std::string_view, 16> builtins{
    "dict", "set",  "frozenset", "list", "tuple", "bytes", "bytearray", "complex",
    "int",  "bool", "float",     "str",  "slice", "range", "object",    "getattr"};

bool is_package(std::string_view module, std::string_view package) {
    return module == package ||
           (module.starts_with(package) && module.substr(package.size()).starts_with('.'));
}

bool is_element_type(std::string_view name) {
    return std::ranges::any_of(element_types, [&](const ElementType& type) {
        const bool storage = name.ends_with("Storage") && !type.storage.empty() &&
                             name.substr(0, name.size() - 7) == type.storage;
        return storage || name == type.dtype;
    });
}

void set(const ElementType& type, PickledTensor& storage) {
    storage.type = type.dtype;
    storage.dtype = type.known;
    storage.element_bytes = type.bytes;
}

const ElementType& element_type(DType dtype) {
    const auto type = std::ranges::find(element_types, dtype, &ElementType::known);
    LM_CHECK(type != element_types.end(), "expected a float type, got {}", name_of(dtype));
    return *type;
}

}  // namespace

std::string_view torch_dtype(DType dtype) {
    return element_type(dtype).dtype;
}

std::string_view torch_storage(DType dtype) {
    return element_type(dtype).storage;
}

bool is_known_global(std::string_view module, std::string_view name) {
    if (module == "builtins" || module == "__builtin__") {
        return std::ranges::find(builtins, name) != builtins.end();
    }
    if (module == "torch" || module == "torch.cuda" || module == "torch.storage") {
        if (is_element_type(name)) return true;
    }
    if (module == "numpy.dtypes") return name.ends_with("DType");
    for (const char* package : {"megatron", "deepspeed", "transformer_engine"}) {
        // Refuses a name with dots, because it could refer to a module that the package imports.
        if (is_package(module, package)) return name.find('.') == name.npos;
    }
    const std::string full = std::string(module) + " " + std::string(name);
    return std::ranges::find(known_globals, full) != known_globals.end();
}

bool set_storage_type(std::string_view global, PickledTensor& storage) {
    const std::string_view name = global.substr(global.find(' ') + 1);
    if (!global.starts_with("torch")) return false;
    if (name == "UntypedStorage" || name == "_UntypedStorage") {
        storage.type = "bytes";
        storage.element_bytes = 1;
        return true;
    }
    for (const ElementType& type : element_types) {
        if (type.storage.empty() || name != std::string(type.storage) + "Storage") continue;
        set(type, storage);
        return true;
    }
    return false;
}

bool set_dtype(std::string_view global, PickledTensor& storage) {
    for (const ElementType& type : element_types) {
        if (global != "torch " + std::string(type.dtype)) continue;
        set(type, storage);
        return true;
    }
    return false;
}

}  // namespace lm::convert
