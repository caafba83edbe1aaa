// SPDX-License-Identifier: Apache-2.0
// Runs the list of operation cases on the CPU: reference loops against formulas in fp64, gradients
// against finite differences, fast versions against the reference, equal bits for every thread
// count.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "compare.hpp"
#include "cpu/cpu_device.hpp"
#include "op_case.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::test;

namespace {

double objective(device::Device& reference, const OpCase& backward, const OpCase& forward) {
    const Values outputs = run_case(reference, forward, DType::fp64);
    const Values values = backward.values();
    double sum = 0;
    for (const auto& [output, gradient] : backward.upstream) {
        const std::vector<double>& y = outputs.at(output);
        for (size_t i = 0; i < y.size(); ++i) sum += y[i] * values.at(gradient)[i];
    }
    return sum;
}

// Compares some elements of each gradient with central differences, in fp64.
void check_gradient(device::Device& reference, const OpCase& op_case) {
    OpCase backward = prepared(reference, op_case, DType::fp64);
    const Values results = run_case(reference, backward, DType::fp64);
    for (const auto& [variable, gradient] : backward.gradients) {
        const Tensor& target = backward.tensor(gradient);
        const std::vector<double>& analytic = results.at(gradient);
        OpCase forward = *backward.forward;
        std::vector<double>& x = forward.tensor(variable).values;
        const size_t stride = std::max<size_t>(1, x.size() / 12);
        for (size_t i = 0; i < x.size(); i += stride) {
            constexpr double h = 1e-5;
            const double old = x[i];
            x[i] = old + h;
            const double above = objective(reference, backward, forward);
            x[i] = old - h;
            const double below = objective(reference, backward, forward);
            x[i] = old;
            const double before = target.role == Role::updated ? target.values[i] : 0.0;
            INFO(op_case.name << ": " << gradient << "[" << i << "]");
            const double numeric = (above - below) / (2 * h);
            CHECK(std::abs(analytic[i] - before - numeric) <=
                  1e-6 * std::max(largest(analytic), 1.0));
        }
    }
}

}  // namespace

TEST_CASE("reference loops agree with formulas in double precision", "[ops]") {
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    for (const OpCase& op_case : op_cases()) {
        if (!op_case.formula) continue;
        for (const DType type : {DType::fp64, DType::fp32}) {
            const OpCase c = prepared(*reference, op_case, type);
            compare(c.name + " " + std::string(name_of(type)), run_case(*reference, c, type),
                    c.formula(c.values()), [&](const std::string& tensor) {
                        return type == DType::fp64 ? 1e-8 : bound_of(c, tensor, type);
                    });
        }
    }
}

TEST_CASE("gradients agree with finite differences", "[ops][differences]") {
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    for (const OpCase& op_case : op_cases()) {
        if (op_case.gradients.empty()) continue;
        bool small = true;
        for (const Tensor& tensor : op_case.tensors) small = small && tensor.shape.numel() < 20000;
        if (small) check_gradient(*reference, op_case);
    }
}

TEST_CASE("fast versions agree with the reference in double precision", "[ops]") {
    const DType type = GENERATE(DType::fp32, DType::bf16, DType::fp16);
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const auto fast = cpu::make_device(2, cpu::Kernels::fast);
    for (const OpCase& op_case : op_cases()) {
        const OpCase c = prepared(*reference, op_case, type);
        compare(c.name + " " + std::string(name_of(type)), run_case(*fast, c, type),
                run_case(*reference, c, DType::fp64),
                [&](const std::string& tensor) { return bound_of(c, tensor, type); });
    }
}

TEST_CASE("results have the same bits for 1, 2 and 3 threads", "[ops][bits]") {
    const DType type = GENERATE(DType::fp32, DType::bf16, DType::fp16);
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const auto one = cpu::make_device(1);
    const auto two = cpu::make_device(2);
    const auto three = cpu::make_device(3);
    for (const OpCase& op_case : op_cases()) {
        INFO(op_case.name << " " << name_of(type));
        const OpCase c = prepared(*reference, op_case, type);
        const Values first = run_case(*one, c, type);
        CHECK(run_case(*two, c, type) == first);
        CHECK(run_case(*three, c, type) == first);
    }
}

TEST_CASE("a recomputed activation has the same bits", "[ops]") {
    const auto [kernels, type] = GENERATE(
        std::pair{cpu::Kernels::reference, DType::fp32}, std::pair{cpu::Kernels::fast, DType::fp32},
        std::pair{cpu::Kernels::fast, DType::bf16}, std::pair{cpu::Kernels::fast, DType::fp16});
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const auto device = cpu::make_device(2, kernels);
    for (const OpCase& op_case : op_cases()) {
        if (!op_case.name.starts_with("linear_forward recomputed")) continue;
        OpCase c = prepared(*reference, op_case, type);
        const Values kept = run_case(*device, c, type);
        if (kept.count("pre") == 0) continue;
        INFO(c.name << " " << name_of(type));
        const Shape shape = c.tensor("y").shape;
        const auto activation = static_cast<device::Activation>(c.name.back() - '0');
        OpCase again = activation_case(shape[0], shape[1], activation);
        again.tensor("x").values = kept.at("pre");
        CHECK(run_case(*device, again, type).at("y") == kept.at("y"));
    }
}
