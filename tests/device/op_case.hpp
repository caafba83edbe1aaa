// SPDX-License-Identifier: Apache-2.0
// A test case of an operation: its tensors by name, the call, and the expected results. The list of
// cases (cases/op_cases.cpp) is used by every test of every backend; run_case() accepts any Device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/ops.hpp"

namespace lm::test {

// `compute` is the compute type of a run. `stat` is fp64 when the compute type is fp64, else fp32.
enum class Kind { compute, stat, f64, i32, i64 };
enum class Role { input, output, updated };

struct Tensor {
    std::string name;
    Kind kind = Kind::compute;
    Role role = Role::input;
    Shape shape;
    std::vector<double> values;  // for inputs and updated tensors
};

// Tensors by name; the view is empty for a name that the case does not have.
class Views {
  public:
    device::View operator[](const std::string& name) const {
        const auto found = views_.find(name);
        return found == views_.end() ? device::View{} : found->second;
    }
    void set(const std::string& name, const device::View& view) { views_[name] = view; }

  private:
    std::map<std::string, device::View> views_;
};

using Values = std::map<std::string, std::vector<double>>;

struct OpCase {
    std::string name;  // "linear_forward n=3 ..."
    std::vector<Tensor> tensors;
    std::function<void(device::Context&, const Views&)> call;
    // Largest allowed error of each output, relative to its largest magnitude, against fp64.
    double bound = 1e-5;
    // The operation computes mean and rstd, or a sum, from values that it has rounded to the
    // compute type.
    bool rounds_first = false;
    // The roundings to 16 bits that the largest error has, 2^-10 (fp16) or 2^-7 (bf16) each.
    int roundings = 1;
    // Computes the outputs in fp64 by other formulas than the loops of the backend.
    std::function<Values(const Values&)> formula = {};
    // For a backward operation: `forward` is the forward case, whose tensors replace the values of
    // the tensors with the same names in this case; `upstream` has pairs (forward output, its
    // incoming gradient), `gradients` pairs (forward input, its gradient).
    std::shared_ptr<OpCase> forward = {};
    std::vector<std::pair<std::string, std::string>> upstream = {};
    std::vector<std::pair<std::string, std::string>> gradients = {};

    Tensor& tensor(const std::string& tensor_name);
    Values values() const;
};

// Runs the case with compute type `type` and returns outputs and updated tensors. Throws
// std::runtime_error when the operation wrote outside of an output, changed an input, or left an
// element of an output unwritten. Tensors begin `shift` elements after an aligned address.
Values run_case(device::Device& device, const OpCase& op_case, DType type, i64 shift = 0);

// Returns the case with the tensors of its forward operation computed by `reference` in fp64, and
// with every value rounded to `type` (statistics to fp32 when `type` is 16-bit).
OpCase prepared(device::Device& reference, const OpCase& op_case, DType type);

// Returns the largest allowed error of a tensor with compute type `type`: the bound of the case,
// plus its roundings when the tensor is stored in 16 bits.
double bound_of(const OpCase& op_case, const std::string& tensor, DType type);

const std::vector<OpCase>& op_cases();
// Returns a case of y = activation(x), x [n, m].
OpCase activation_case(i64 n, i64 m, device::Activation activation);

}  // namespace lm::test
