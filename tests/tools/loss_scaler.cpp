// SPDX-License-Identifier: Apache-2.0
// test_loss_scaler: prints the scale after each step, for comparison with Megatron's. Each line of
// standard input is "INITIAL MIN WINDOW HYSTERESIS STEPS", with STEPS of 'x' (an overflow) and '.'.
#include <cstdio>
#include <iostream>
#include <string>

#include "base/error.hpp"
#include "optim/loss_scaler.hpp"

using namespace lm;

int main() try {
    spec::LossScaleConfig config;
    std::string steps;
    while (std::cin >> config.initial >> config.min >> config.window >> config.hysteresis >>
           steps) {
        optim::LossScaler scaler(config);
        for (const char step : steps) {
            scaler.update(step == 'x');
            std::printf("%.17g ", scaler.scale());
        }
        std::printf("\n");
    }
    return 0;
} catch (const Error& error) {
    std::fprintf(stderr, "test_loss_scaler: %s\n", error.what());
    return static_cast<int>(error.code());
}
