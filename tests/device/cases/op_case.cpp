// SPDX-License-Identifier: Apache-2.0
#include "device/op_case.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

namespace lm::test {
namespace {

constexpr i64 guard = 256;  // bytes before and after each tensor
constexpr int guard_byte = 0xA5;

DType dtype_of(Kind kind, DType type) {
    if (kind == Kind::f64) return DType::fp64;
    if (kind == Kind::i32) return DType::int32;
    if (kind == Kind::i64) return DType::int64;
    if (kind == Kind::stat && is_half(type)) return DType::fp32;
    return type;
}

template <typename T>
void write_as(std::byte* target, const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) {
        const T value = static_cast<T>(values[i]);
        std::memcpy(target + i * sizeof(T), &value, sizeof value);
    }
}

template <typename T>
std::vector<double> read_as(const std::byte* source, i64 n) {
    std::vector<double> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i) {
        T value;
        std::memcpy(&value, source + i * sizeof(T), sizeof value);
        values[i] = static_cast<double>(value);
    }
    return values;
}

void write(std::byte* target, DType dtype, const std::vector<double>& values) {
    if (dtype == DType::fp32) return write_as<float>(target, values);
    if (dtype == DType::fp64) return write_as<double>(target, values);
    if (dtype == DType::int32) return write_as<i32>(target, values);
    if (is_half(dtype)) {
        std::vector<double> bits;
        for (const double value : values) {
            const float x = static_cast<float>(value);
            bits.push_back(dtype == DType::bf16 ? bf16_from_fp32(x) : fp16_from_fp32(x));
        }
        return write_as<u16>(target, bits);
    }
    write_as<i64>(target, values);
}

std::vector<double> read(const std::byte* source, DType dtype, i64 n) {
    if (dtype == DType::fp32) return read_as<float>(source, n);
    if (dtype == DType::fp64) return read_as<double>(source, n);
    if (dtype == DType::int32) return read_as<i32>(source, n);
    if (is_half(dtype)) {
        std::vector<double> values = read_as<u16>(source, n);
        for (double& value : values) {
            const auto bits = static_cast<u16>(value);
            value = dtype == DType::bf16 ? fp32_from_bf16(bits) : fp32_from_fp16(bits);
        }
        return values;
    }
    return read_as<i64>(source, n);
}

// The position of a tensor in the buffer of a case, which has guard bytes between the tensors.
struct Place {
    const Tensor* tensor;
    DType dtype;
    i64 offset;
    i64 bytes;
};

std::vector<Place> places_of(const OpCase& c, DType type, i64 shift, i64& end) {
    std::vector<Place> places;
    end = 0;
    for (const Tensor& tensor : c.tensors) {
        const DType dtype = dtype_of(tensor.kind, type);
        const i64 bytes = tensor.shape.numel() * size_of(dtype);
        const i64 begin = end + guard + shift * size_of(dtype);
        places.push_back({&tensor, dtype, begin, bytes});
        end = round_up(begin + bytes, 64);
    }
    end += guard;
    return places;
}

void check_bytes(const OpCase& c, const std::vector<std::byte>& before,
                 const std::vector<std::byte>& after, const std::vector<Place>& places) {
    std::vector<bool> writable(before.size(), false);
    for (const Place& p : places) {
        if (p.tensor->role == Role::input) continue;
        std::fill_n(writable.begin() + p.offset, p.bytes, true);
    }
    for (size_t i = 0; i < before.size(); ++i) {
        if (writable[i] || before[i] == after[i]) continue;
        const auto at = static_cast<i64>(i);
        const auto next = std::ranges::find_if(
            places, [at](const Place& p) { return at < p.offset + p.bytes + guard; });
        const std::string near = next == places.end() ? "the end" : next->tensor->name;
        throw std::runtime_error(
            fmt::format("{}: wrote where it must not, at or near '{}'", c.name, near));
    }
}

// Returns a workspace filled with NaN: an operation must not read bytes that it has not written.
device::View poisoned(device::Device& device, const device::Buffer& buffer) {
    const std::vector<unsigned char> bytes(static_cast<size_t>(buffer.bytes()), 0xff);
    const device::View view = buffer.view(DType::uint8, {buffer.bytes()});
    device.copy_from_host(view, bytes.data());
    return view;
}

// Returns the tensors of a forward operation, computed once for all types.
const Values& forward_values(device::Device& reference, const std::shared_ptr<OpCase>& forward) {
    static std::map<std::shared_ptr<OpCase>, Values> all;
    const auto found = all.find(forward);
    if (found != all.end()) return found->second;
    Values values = forward->values();
    for (auto& [name, computed] : run_case(reference, *forward, DType::fp64)) {
        values[name] = computed;
    }
    return all.emplace(forward, std::move(values)).first->second;
}

}  // namespace

Tensor& OpCase::tensor(const std::string& tensor_name) {
    const auto found = std::ranges::find(tensors, tensor_name, &Tensor::name);
    if (found == tensors.end()) throw std::runtime_error(name + ": no tensor " + tensor_name);
    return *found;
}

Values OpCase::values() const {
    Values result;
    for (const Tensor& tensor : tensors) result[tensor.name] = tensor.values;
    return result;
}

Values run_case(device::Device& device, const OpCase& c, DType type, i64 shift) {
    i64 bytes = 0;
    const std::vector<Place> places = places_of(c, type, shift, bytes);
    std::vector<std::byte> before(static_cast<size_t>(bytes), std::byte{guard_byte});
    for (const Place& p : places) {
        if (p.tensor->role == Role::output) {
            const double nan = std::numeric_limits<double>::quiet_NaN();
            write(before.data() + p.offset, p.dtype,
                  std::vector<double>(static_cast<size_t>(p.tensor->shape.numel()), nan));
        } else {
            write(before.data() + p.offset, p.dtype, p.tensor->values);
        }
    }
    const device::Buffer buffer = device.allocate(bytes, "op test");
    // fp64 runs on the reference loops, which use no workspace.
    const i64 workspace_bytes = type == DType::fp64 ? 64 : i64{16} << 20;
    const device::Buffer workspace = device.allocate(workspace_bytes, "op test workspace");
    device.copy_from_host(buffer.view(DType::uint8, {bytes}), before.data());
    Views views;
    for (const Place& p : places) {
        views.set(p.tensor->name, buffer.view(p.offset, p.dtype, p.tensor->shape));
    }
    device::Context context{device, poisoned(device, workspace)};
    c.call(context, views);
    std::vector<std::byte> after(before.size());
    device.copy_to_host(after.data(), buffer.view(DType::uint8, {bytes}));
    check_bytes(c, before, after, places);
    Values results;
    for (const Place& p : places) {
        if (p.tensor->role == Role::input) continue;
        results[p.tensor->name] = read(after.data() + p.offset, p.dtype, p.tensor->shape.numel());
        for (const double value : results[p.tensor->name]) {
            if (!std::isnan(value)) continue;
            throw std::runtime_error(c.name + ": an unwritten or NaN element in " + p.tensor->name);
        }
    }
    return results;
}

double bound_of(const OpCase& op_case, const std::string& name, DType type) {
    if (!is_half(type)) return op_case.bound;
    const auto found = std::ranges::find(op_case.tensors, name, &Tensor::name);
    const bool stat = found != op_case.tensors.end() && found->kind != Kind::compute;
    if (stat && !op_case.rounds_first) return op_case.bound;
    return op_case.bound + op_case.roundings * (type == DType::bf16 ? 0x1p-7 : 0x1p-10);
}

OpCase prepared(device::Device& reference, const OpCase& op_case, DType type) {
    OpCase c = op_case;
    if (c.forward) {
        const Values& known = forward_values(reference, c.forward);
        for (Tensor& tensor : c.tensors) {
            const auto found = known.find(tensor.name);
            if (found != known.end() && tensor.role == Role::input) tensor.values = found->second;
        }
    }
    for (Tensor& tensor : c.tensors) {
        if (tensor.kind == Kind::i64 || tensor.kind == Kind::i32) continue;
        const DType dtype = dtype_of(tensor.kind, type);
        std::vector<std::byte> stored(tensor.values.size() * sizeof(double));
        write(stored.data(), dtype, tensor.values);
        tensor.values = read(stored.data(), dtype, static_cast<i64>(tensor.values.size()));
    }
    return c;
}

}  // namespace lm::test
