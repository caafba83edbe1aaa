// SPDX-License-Identifier: Apache-2.0
#include "train/step/step_fault.hpp"

#include <cstdlib>
#include <limits>
#include <vector>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "base/units.hpp"
#include "parallel/grid.hpp"

namespace lm::train {

StepFault parse_step_fault(const std::string& text) {
    constexpr std::string_view name = "LM_STEP_FAULT";
    std::vector<std::string> words(1);
    for (const char c : text) {
        if (c == ':') {
            words.emplace_back();
        } else {
            words.back() += c;
        }
    }
    StepFault fault;
    if (words.size() == 6 && words[5] == "once") {
        fault.once = true;
        words.pop_back();
    }
    if (words.size() != 5) {
        usage_error(name, "expected KIND:VALUE:ITERATION:RANK:LAYER[:once], got '{}'", text);
    }
    using enum StepFault::Kind;
    if (words[0] != "activation" && words[0] != "gradient" && words[0] != "loss") {
        usage_error(name, "'{}' is not activation, gradient or loss", words[0]);
    }
    fault.kind = words[0] == "loss" ? loss : words[0] == "gradient" ? gradient : activation;
    fault.value = words[1] == "nan"   ? std::numeric_limits<double>::quiet_NaN()
                  : words[1] == "inf" ? std::numeric_limits<double>::infinity()
                                      : parse_number(name, words[1]);
    fault.iteration = parse_count(name, words[2]);
    fault.rank = parse_count(name, words[3]);
    fault.layer = parse_count(name, words[4]);
    return fault;
}

std::optional<StepFault> armed_step_fault(i64 rank) {
    const char* const text = std::getenv("LM_STEP_FAULT");
    if (text == nullptr) return {};
    const StepFault fault = parse_step_fault(text);
    if (fault.rank != rank) return {};
    return fault;
}

std::optional<StepFault> injected_fault(const config::StoppingFlags& flags, u64 seed, i64 iteration,
                                        const spec::ParallelConfig& parallel, i64 rank) {
    if (flags.injection_rate == 0) return {};
    const Philox4 random =
        philox(stream_key(seed, "error injection"), static_cast<u64>(iteration), 0);
    if (random[0] % static_cast<u64>(flags.injection_rate) != 0) return {};
    const config::InjectedError error = flags.injected_error();
    const i64 replica = random[1] % parallel.dp;
    const spec::Coordinates at = spec::coordinates_of(parallel, rank);
    // The fault is planted in the loss, which only the last stage has.
    const bool here = error == config::InjectedError::correct || (at.dp == replica && at.tp == 0);
    if (!here || at.pp != parallel.pp - 1) return {};
    return StepFault{.kind = StepFault::Kind::loss,
                     .value = std::numeric_limits<double>::quiet_NaN(),
                     .iteration = iteration,
                     .rank = rank,
                     .once = error == config::InjectedError::transient};
}

}  // namespace lm::train
