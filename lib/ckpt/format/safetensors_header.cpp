// SPDX-License-Identifier: Apache-2.0
// Parses the header strictly with a SAX handler, so that the time is linear in the number of
// entries, duplicate names are detected, and nesting is bounded. The reference implementation
// (tensor.rs) limits the header to 100 MB and requires that the entries tile the data; this parser
// has the same limit and requirement.
#include "ckpt/format/safetensors_header.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "base/error.hpp"
#include "io/other_format.hpp"

namespace lm::ckpt {
namespace {

constexpr int max_depth = 16;
constexpr std::string_view metadata_key = "__metadata__";

std::string in_quotes(const std::string& name) {
    return nlohmann::json(name).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// depth_ is the nesting of objects. 1: the header; 2: an entry or the metadata; more: inside
// unknown fields, which are skipped.
class HeaderHandler {
  public:
    HeaderHandler(const std::string& path, SafetensorsHeader& header)
        : path_(path), header_(header) {}

    // The reference implementation reads null as no metadata.
    bool null() { return depth_ == 1 && entry_ == metadata_key ? true : other("null"); }
    bool boolean(bool) { return other("a boolean"); }
    bool number_float(double, const std::string&) {
        return other("a fraction or a number beyond 64 bits");
    }
    bool binary(nlohmann::json::binary_t&) { return other("binary data"); }

    bool number_integer(i64 value) {
        if (!skipping()) refuse("a negative number ({})", value);
        return true;
    }

    bool number_unsigned(u64 value) {
        if (skipping()) return true;
        if (!in_array_) return other("a number");
        if (value > static_cast<u64>(std::numeric_limits<i64>::max()))
            refuse("{} does not fit in 63 bits", value);
        (field_ == "shape" ? shape_ : offsets_).push_back(static_cast<i64>(value));
        return true;
    }

    bool string(std::string& value) {
        if (skipping()) return true;
        if (in_metadata()) {
            header_.metadata.emplace_back(field_, value);
        } else if (depth_ == 2 && field_ == "dtype") {
            dtype_ = value;
        } else {
            return other("a string");
        }
        return true;
    }

    bool start_object(size_t) {
        deeper();
        if (skipping() || depth_ == 1) return true;
        if (depth_ != 2) refuse("unexpected object");
        names_in_entry_.clear();
        dtype_.clear();
        shape_.clear();
        offsets_.clear();
        return true;
    }

    // Names are checked for duplicates in the header (depth 1) and in each entry (depth 2). When
    // two names are equal, nlohmann's DOM would silently keep one of the two values, and other
    // readers might keep the other value.
    bool key(std::string& name) {
        if (depth_ == 1) {
            entry_ = name;
            if (!names_.insert(name).second) refuse("the name occurs twice");
        } else if (depth_ == 2) {
            field_ = name;
            if (!names_in_entry_.insert(name).second) refuse("'{}' occurs twice", name);
            skip_ = !in_metadata() && name != "dtype" && name != "shape" && name != "data_offsets";
        }
        return true;
    }

    // The end of an object at depth 2 completes an entry.
    bool end_object() {
        if (depth_ == 2 && !in_metadata()) add_entry();
        if (depth_ == 2) skip_ = false;
        --depth_;
        return true;
    }

    bool start_array(size_t) {
        if (skipping()) {
            deeper();
            return true;
        }
        if (in_array_ || depth_ != 2 || in_metadata() || field_ == "dtype") return other("a list");
        in_array_ = true;
        return true;
    }

    bool end_array() {
        if (skipping()) {
            --depth_;
        } else {
            in_array_ = false;
        }
        return true;
    }

    bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) {
        run_error(path_, "the safetensors header is not valid JSON at byte {}", position);
    }

  private:
    // Returns whether the parser is inside an unknown field of an entry; later versions of the
    // format may add such fields.
    bool skipping() const { return skip_; }
    bool in_metadata() const { return depth_ >= 2 && entry_ == metadata_key; }

    void deeper() {
        if (++depth_ > max_depth) refuse("nested deeper than {} levels", max_depth);
    }

    bool other(std::string_view what) {
        if (!skipping()) refuse("unexpected {}", what);
        return true;
    }

    template <typename... Args>
    [[noreturn]] void refuse(fmt::format_string<Args...> format, Args&&... args) const {
        run_error(path_, "safetensors header, entry {}: {}", in_quotes(entry_),
                  fmt::format(format, std::forward<Args>(args)...));
    }

    // Checks one entry: shape and dtype determine its size. check_offsets() checks the entries
    // together.
    void add_entry() {
        for (const char* needed : {"dtype", "shape", "data_offsets"}) {
            if (!names_in_entry_.contains(needed)) refuse("'{}' is missing", needed);
        }
        if (offsets_.size() != 2)
            refuse("expected two numbers in 'data_offsets', got {}", offsets_.size());
        const i64 begin = offsets_[0];
        const i64 end = offsets_[1];
        if (end < begin) refuse("data_offsets [{}, {}] end before they begin", begin, end);
        const int bits = safetensors_bits(dtype_);
        if (bits == 0) refuse("unknown dtype {}", in_quotes(dtype_));
        if (data_bytes(bits) != end - begin) {
            refuse("shape and dtype require {} bytes, but data_offsets has {}", data_bytes(bits),
                   end - begin);
        }
        header_.entries.push_back({entry_, dtype_, shape_, begin, end});
    }

    i64 data_bytes(int bits) const {
        i64 n = bits;
        // A zero is checked first, because the product of [huge, huge, 0] would overflow before it
        // becomes 0.
        if (std::ranges::find(shape_, 0) != shape_.end()) return 0;
        for (const i64 dim : shape_) {
            if (__builtin_mul_overflow(n, dim, &n))
                refuse("the number of its elements does not fit in 63 bits");
        }
        if (n % 8 != 0) refuse("its data does not end at a byte boundary");
        return n / 8;
    }

    const std::string& path_;
    SafetensorsHeader& header_;
    std::unordered_set<std::string> names_;
    std::unordered_set<std::string> names_in_entry_;
    std::string entry_;
    std::string field_;
    std::string dtype_;
    std::vector<i64> shape_;
    std::vector<i64> offsets_;
    int depth_ = 0;
    bool skip_ = false;
    bool in_array_ = false;
};

// Checks that the entries cover the data without gaps, overlaps or bytes after the last entry.
void check_offsets(SafetensorsHeader& header, i64 data_bytes, const std::string& path) {
    std::ranges::stable_sort(header.entries, [](const auto& a, const auto& b) {
        return std::tie(a.begin, a.end) < std::tie(b.begin, b.end);
    });
    i64 expected = 0;
    for (const SafetensorsEntry& entry : header.entries) {
        if (entry.begin != expected) {
            run_error(path, "safetensors entry {}: expected its data at byte {}, got {}",
                      in_quotes(entry.name), expected, entry.begin);
        }
        expected = entry.end;
    }
    if (expected != data_bytes) {
        run_error(path, "its safetensors header requires {} bytes of data, got {}: {}", expected,
                  data_bytes, data_bytes < expected ? "truncated" : "extra bytes at the end");
    }
}

struct TypeRow {
    std::string_view name;
    int bits;
};
// The types in the order of the enum Dtype of the reference implementation; the writer sorts by
// this order.
constexpr std::array type_table{
    TypeRow{"BOOL", 8},        TypeRow{"F4", 4},          TypeRow{"F6_E2M3", 6},
    TypeRow{"F6_E3M2", 6},     TypeRow{"U8", 8},          TypeRow{"I8", 8},
    TypeRow{"F8_E5M2", 8},     TypeRow{"F8_E4M3", 8},     TypeRow{"F8_E8M0", 8},
    TypeRow{"F8_E4M3FNUZ", 8}, TypeRow{"F8_E5M2FNUZ", 8}, TypeRow{"I16", 16},
    TypeRow{"U16", 16},        TypeRow{"F16", 16},        TypeRow{"BF16", 16},
    TypeRow{"I32", 32},        TypeRow{"U32", 32},        TypeRow{"F32", 32},
    TypeRow{"C64", 64},        TypeRow{"F64", 64},        TypeRow{"I64", 64},
    TypeRow{"U64", 64},
};

}  // namespace

int safetensors_rank(std::string_view dtype) {
    const auto row = std::ranges::find(type_table, dtype, &TypeRow::name);
    return row == type_table.end() ? -1 : static_cast<int>(row - type_table.begin());
}

int safetensors_bits(std::string_view dtype) {
    const int rank = safetensors_rank(dtype);
    return rank < 0 ? 0 : type_table[static_cast<size_t>(rank)].bits;
}

std::optional<DType> dtype_of_safetensors(std::string_view name) {
    for (const DType dtype : {DType::uint8, DType::uint16, DType::int32, DType::int64, DType::fp32,
                              DType::fp64, DType::bf16, DType::fp16}) {
        if (safetensors_name(dtype) == name) return dtype;
    }
    return std::nullopt;
}

std::string_view safetensors_name(DType dtype) {
    switch (dtype) {
        case DType::uint8:
            return "U8";
        case DType::uint16:
            return "U16";
        case DType::int32:
            return "I32";
        case DType::int64:
            return "I64";
        case DType::fp32:
            return "F32";
        case DType::fp64:
            return "F64";
        case DType::bf16:
            return "BF16";
        case DType::fp16:
            return "F16";
    }
    return "?";
}

SafetensorsHeader parse_safetensors_header(std::span<const std::byte> bytes, i64 file_size,
                                           const std::string& path) {
    if (file_size < 8 || bytes.size() < 8) {
        run_error(path, "is not a safetensors file: expected at least 8 bytes, got {}", file_size);
    }
    // The file has 8 bytes of length (little-endian), the JSON header, then the data. The
    // data_offsets of an entry count from the start of the data.
    u64 length = 0;
    std::memcpy(&length, bytes.data(), sizeof length);
    const std::string_view whole(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    if (!whole.substr(8).starts_with('{')) {
        if (const auto other = io::other_format(whole); !other.empty())
            run_error(path, "is {}", other);
    }
    if (length > static_cast<u64>(max_safetensors_header)) {
        run_error(path, "is not a safetensors file: expected a header of at most {} bytes, got {}",
                  max_safetensors_header, length);
    }
    SafetensorsHeader header;
    header.data_start = 8 + static_cast<i64>(length);
    if (header.data_start > file_size || header.data_start > static_cast<i64>(bytes.size())) {
        run_error(path,
                  "truncated: expected a safetensors header of {} bytes, got a file of {} bytes",
                  header.data_start, file_size);
    }
    const std::string_view text(reinterpret_cast<const char*>(bytes.data()) + 8, length);
    if (text.empty() || text[0] != '{') {
        run_error(path, "is not a safetensors file: its header does not begin with '{{'");
    }
    // sax_parse() reports errors through the handler, which throws.
    HeaderHandler handler(path, header);
    nlohmann::json::sax_parse(text, &handler);
    check_offsets(header, file_size - header.data_start, path);
    return header;
}

}  // namespace lm::ckpt
