// SPDX-License-Identifier: Apache-2.0
// Tests linear layers on a GPU or on the emulator: with and without fused epilogues, with operands
// of any alignment, and with autotuning.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>

#include "base/error.hpp"
#include "cpu/cpu_device.hpp"
#include "device/compare.hpp"
#include "device/op_case.hpp"
#include "device/tuned_choices.hpp"
#include "support/catch.hpp"
#include "train/start/open_device.hpp"

using namespace lm;
using namespace lm::test;

namespace {

std::vector<OpCase> cases_of(std::initializer_list<std::string_view> names) {
    std::vector<OpCase> chosen;
    for (const OpCase& c : op_cases()) {
        for (const std::string_view name : names) {
            if (c.name.starts_with(name)) chosen.push_back(c);
        }
    }
    return chosen;
}

void check_against_reference(device::Device& gpu, const OpCase& op_case, DType type, i64 shift) {
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const OpCase c = prepared(*reference, op_case, type);
    compare(c.name + " " + std::string(name_of(type)), run_case(gpu, c, type, shift),
            run_case(*reference, c, DType::fp64),
            [&](const std::string& tensor) { return bound_of(c, tensor, type); });
}

class ChoicesInMemory final : public device::TunedChoices {
  public:
    std::string find(const std::string& key) override {
        const auto found = kept.find(key);
        if (found == kept.end()) return {};
        ++n_found;
        return found->second;
    }
    std::string store(const std::string& key, const std::string& choice) override {
        return kept.emplace(key, choice).first->second;
    }
    std::map<std::string, std::string> kept;
    int n_found = 0;
};

}  // namespace

TEST_CASE("products are correct with a library without epilogues", "[ops][at_once]") {
    const DType type = GENERATE(DType::fp32, DType::bf16, DType::fp16);
    setenv("EMULATED_CUBLASLT_EPILOGUES", "0", 1);
    const auto gpu = train::cuda_plugin().open_device(0);
    for (const OpCase& c : cases_of({"linear_"})) check_against_reference(*gpu, c, type, 0);
    unsetenv("EMULATED_CUBLASLT_EPILOGUES");
}

TEST_CASE("a cuBLASLt error is distinguished from a missing algorithm", "[ops]") {
    const auto gpu = train::cuda_plugin().open_device(0);
    if (!ContainsSubstring("emulated").match(gpu->name())) return;
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const OpCase c = prepared(*reference, cases_of({"linear_forward"}).front(), DType::bf16);
    const auto with_status = [&](const char* status, const std::string& message) {
        setenv("EMULATED_CUBLASLT_STATUS", status, 1);
        CHECK_THROWS_WITH(run_case(*gpu, c, DType::bf16), ContainsSubstring(message));
        unsetenv("EMULATED_CUBLASLT_STATUS");
    };
    with_status("14", "(CUBLAS_STATUS_INTERNAL_ERROR)");
    with_status("7", "(CUBLAS_STATUS_INVALID_VALUE)");
    with_status("15", "no algorithm");
}

TEST_CASE("algorithms are chosen separately for each number of reserved SMs", "[ops]") {
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    const auto gpu = train::cuda_plugin().open_device(0);
    const OpCase op_case = cases_of({"linear_forward"}).front();
    const OpCase c = prepared(*reference, op_case, DType::bf16);
    ChoicesInMemory choices;
    gpu->tune(&choices);
    for (const int held : {0, 16, 1000, 0, 16}) {
        gpu->reserve_sms(held);
        run_case(*gpu, c, DType::bf16);
        check_against_reference(*gpu, op_case, DType::bf16, 0);
    }
    gpu->tune(nullptr);
    std::set<std::string> chosen_for;
    for (const auto& [key, choice] : choices.kept) {
        const size_t at = key.find(" of which ");
        chosen_for.insert(at == std::string::npos ? "" : key.substr(at, key.find(',', at) - at));
    }
    CHECK(chosen_for.contains(""));
    CHECK(chosen_for.size() >= 2);  // with few SMs, 16 and 1000 both reserve half
    CHECK(choices.n_found == 0);    // repeated numbers use the plans in the device's cache
}

TEST_CASE("operands may have any alignment", "[ops][at_once]") {
    const DType type = GENERATE(DType::fp32, DType::bf16);
    const auto gpu = train::cuda_plugin().open_device(0);
    for (const OpCase& c : cases_of({"linear_", "activation_", "gated_", "residual_norm_"})) {
        check_against_reference(*gpu, c, type, 1);
    }
}

TEST_CASE("tuned products are correct, with the same bits on every device that uses the choices",
          "[ops][at_once]") {
    const DType type = GENERATE(DType::fp32, DType::bf16);
    const auto reference = cpu::make_device(1, cpu::Kernels::reference);
    ChoicesInMemory choices;
    const auto first = train::cuda_plugin().open_device(0);
    const auto second = train::cuda_plugin().open_device(0);
    const auto cases = cases_of({"linear_"});
    // Measuring overwrites outputs, so this run is only for the choices.
    for (device::Device* const gpu : {first.get(), second.get()}) {
        gpu->tune(&choices);
        for (const OpCase& op_case : cases) {
            run_case(*gpu, prepared(*reference, op_case, type), type);
        }
        gpu->tune(nullptr);
    }
    CHECK(choices.kept.size() > 20);
    CHECK(choices.n_found == static_cast<int>(choices.kept.size()));
    // The library's GELU is an approximation, so it is used for 16-bit types only.
    const auto n_gelu = std::ranges::count_if(choices.kept, [](const auto& kept) {
        return kept.first.find("epilogue gelu") != std::string::npos;
    });
    CHECK((n_gelu > 0) == is_half(type));
    for (const OpCase& op_case : cases) {
        const OpCase c = prepared(*reference, op_case, type);
        INFO(c.name << " " << name_of(type));
        check_against_reference(*first, op_case, type, 0);
        CHECK(run_case(*first, c, type) == run_case(*second, c, type));
    }
    // An invalid stored choice is an error.
    for (auto& [key, choice] : choices.kept) choice = "fused 1 2 3";
    const auto third = train::cuda_plugin().open_device(0);
    third->tune(&choices);
    CHECK_THROWS_WITH(run_case(*third, prepared(*reference, cases.front(), type), type),
                      ContainsSubstring("cuBLASLt"));
}
