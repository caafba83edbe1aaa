// SPDX-License-Identifier: Apache-2.0
// The JSON header of safetensors files and the element types that it names.
// Format: https://github.com/huggingface/safetensors
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.hpp"

namespace lm::ckpt {

// The largest header, in bytes, that the safetensors format allows.
constexpr i64 max_safetensors_header = 100'000'000;

// Names and values in the order of the file, which the reference implementation does not
// preserve.
using Metadata = std::vector<std::pair<std::string, std::string>>;

struct SafetensorsEntry {
    std::string name;
    std::string dtype;       // "F32", "BF16", ... as in the file
    std::vector<i64> shape;  // any number of dimensions
    i64 begin = 0;           // offset in bytes from the start of the data
    i64 end = 0;
};

// The parsed header. Its entries are in the order of their data.
struct SafetensorsHeader {
    Metadata metadata;
    std::vector<SafetensorsEntry> entries;
    i64 data_start = 0;  // offset of the data in the file
};
// Parses the header of a file of `file_size` bytes. `bytes`: the start of the file, with the whole
// header. Throws Error(failure) naming `path` and the tensor when the header does not conform to
// the format.
SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, i64 file_size,
                                           const std::string& path);

std::optional<DType> dtype_of_safetensors(std::string_view name);  // nullopt: DType lacks the type
std::string_view safetensors_name(DType dtype);

// Properties of all element types of the format, including types that DType does not have.
int safetensors_bits(std::string_view dtype);  // bits of one element; 0: unknown type
int safetensors_rank(
    std::string_view dtype);  // position in the reference implementation's order; -1: unknown

}  // namespace lm::ckpt
