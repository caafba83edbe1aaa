// SPDX-License-Identifier: Apache-2.0
// One case of one operation: its tensors by name, the call, and what it is compared with. The list
// (cases/op_cases.cpp) drives every check of every backend; run_case() takes any Device.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "device/ops.hpp"

namespace lm::test {

// compute and stat are f32 on a backend under test, f64 on the reference in double precision.
enum class Kind { compute, stat, f64, i32, i64 };
enum class Role { input, output, updated };

struct Tensor {
    std::string name;
    Kind kind = Kind::compute;
    Role role = Role::input;
    Shape shape;
    std::vector<double> values;  // of inputs and updated tensors
};

// Tensors by name; one that the case does not have is "none".
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
    // Largest error of each output, relative to its largest magnitude, against double precision.
    double bound = 1e-5;
    // Statistics are of values that were rounded to the compute type first.
    bool rounds_first = false;
    // The outputs in double precision, written another way than the loops of the backend.
    std::function<Values(const Values&)> formula = {};
    // Backward operations: what ran before, whose tensors of the same name replace this case's
    // values; pairs (forward output, its incoming gradient), (forward input, its gradient here).
    std::shared_ptr<OpCase> forward = {};
    std::vector<std::pair<std::string, std::string>> upstream = {};
    std::vector<std::pair<std::string, std::string>> gradients = {};

    Tensor& tensor(const std::string& tensor_name);
    Values values() const;
};

// Outputs and updated tensors after the call. Throws std::runtime_error when the operation wrote
// beside an output, changed an input, or left an element of an output unwritten. `type` is what the
// compute type stands for. Tensors lie `shift` elements past an aligned address.
Values run_case(device::Device& device, const OpCase& op_case, DType type, i64 shift = 0);

// The case with the tensors of its forward operation computed by `reference` in double precision,
// then every value rounded as `type` rounds it (statistics to f32 where `type` is 16-bit).
OpCase prepared(device::Device& reference, const OpCase& op_case, DType type);

// The largest error allowed of a tensor when the compute type is `type`: the case's own, and one
// rounding of the result where it is kept in 16 bits.
double bound_of(const OpCase& op_case, const std::string& tensor, DType type);

const std::vector<OpCase>& op_cases();
// y = activation(x) of [n, m].
OpCase activation_case(i64 n, i64 m, device::Activation activation);

}  // namespace lm::test
