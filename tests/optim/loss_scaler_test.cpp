// SPDX-License-Identifier: Apache-2.0
#include "optim/loss_scaler.hpp"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "io/file.hpp"
#include "io/json.hpp"
#include "support/catch.hpp"

using namespace lm;
using namespace lm::optim;

namespace {

// Returns the scales after each step of a script: 'x' is an overflow, '.' a step without one.
std::vector<double> run(const spec::LossScaleConfig& config, const std::string& script) {
    LossScaler scaler(config);
    std::vector<double> scales;
    for (const char step : script) {
        scaler.update(step == 'x');
        scales.push_back(scaler.scale());
    }
    return scales;
}

// Computes the scales from the whole history, without counters. An overflow halves the scale when
// it is at least the `hysteresis`-th one since the last doubling. The scale doubles after `window`
// steps without overflow since the last overflow or doubling.
std::vector<double> by_history(const spec::LossScaleConfig& config, const std::string& script) {
    std::vector<double> scales;
    double scale = config.initial;
    size_t last_doubling = 0;  // index of the step after the last doubling
    for (size_t i = 0; i < script.size(); ++i) {
        const std::string since = script.substr(last_doubling, i + 1 - last_doubling);
        if (script[i] == 'x') {
            const auto overflows = std::count(since.begin(), since.end(), 'x');
            if (overflows >= config.hysteresis) scale = std::max(0.5 * scale, config.min);
        } else {
            const size_t last_overflow = since.rfind('x');
            const size_t good = last_overflow == std::string::npos
                                    ? since.size()
                                    : since.size() - last_overflow - 1;
            if (static_cast<i64>(good) == config.window) {
                scale = 2 * scale;
                last_doubling = i + 1;
            }
        }
        scales.push_back(scale);
    }
    return scales;
}

}  // namespace

TEST_CASE("three overflows from 2^32, as Megatron logs them") {
    CHECK(run({}, "xxx") == std::vector<double>{4294967296.0, 2147483648.0, 1073741824.0});
}

TEST_CASE("only a doubling restores the hysteresis") {
    const spec::LossScaleConfig config{.initial = 1024, .window = 3, .hysteresis = 2};
    CHECK(run(config, "x..x...xx") ==
          std::vector<double>{1024, 1024, 1024, 512, 512, 512, 1024, 1024, 512});
}

TEST_CASE("the scale never falls below its minimum") {
    const spec::LossScaleConfig config{.initial = 4, .min = 2, .window = 2, .hysteresis = 1};
    CHECK(run(config, "xxx..x") == std::vector<double>{2, 2, 2, 2, 4, 2});
}

TEST_CASE("series of overflows change the scale like megatron-core's scaler") {
    const std::string path = LM_TEST_DIR "/golden/text/loss-scales.jsonl";
    std::istringstream lines(io::read_file(path));
    int n_series = 0;
    for (std::string line; std::getline(lines, line); ++n_series) {
        const io::Json series = io::parse_json(line, path);
        const spec::LossScaleConfig config{.initial = series.at("initial"),
                                           .min = series.at("min"),
                                           .window = series.at("window"),
                                           .hysteresis = series.at("hysteresis")};
        INFO(line);
        CHECK(run(config, series.at("steps")) == series.at("scales").get<std::vector<double>>());
    }
    CHECK(n_series > 40);
}

TEST_CASE("random series of overflows follow the rule") {
    for (u64 seed = 1; seed <= 200; ++seed) {
        const spec::LossScaleConfig config{
            .initial = 65536,
            .min = 16,
            .window = 1 + static_cast<i64>(uniform(seed, 0) * 12),
            .hysteresis = 1 + static_cast<i64>(uniform(seed, 1) * 4),
        };
        const double rate = uniform(seed, 2) * 0.6;
        std::string script;
        for (u64 i = 0; i < 300; ++i) script += uniform(seed, 3 + i) < rate ? 'x' : '.';
        INFO(script << " window " << config.window << " hysteresis " << config.hysteresis);
        CHECK(run(config, script) == by_history(config, script));
    }
}

TEST_CASE("a fixed scale is changed neither by overflows nor by a checkpoint") {
    LossScaler scaler({.fixed = 12.0});
    CHECK_FALSE(scaler.dynamic());
    scaler.update(true);
    scaler.update(true);
    scaler.restore({.scale = 99});
    CHECK(scaler.scale() == 12.0);
}

TEST_CASE("a restored scaler continues like an uninterrupted one") {
    const spec::LossScaleConfig config{.initial = 256, .window = 4, .hysteresis = 2};
    const std::string script = "x...x....x..xx....x";
    const std::vector<double> whole = run(config, script);
    for (size_t cut = 0; cut < script.size(); ++cut) {
        LossScaler first(config);
        for (size_t i = 0; i < cut; ++i) first.update(script[i] == 'x');
        LossScaler second(config);
        second.restore(first.state());
        for (size_t i = cut; i < script.size(); ++i) {
            second.update(script[i] == 'x');
            CHECK(second.scale() == whole[i]);
        }
    }
}

TEST_CASE("invalid scales are errors that name the flag") {
    const auto refused = [](const spec::LossScaleConfig& config, const std::string& flag) {
        try {
            LossScaler scaler(config);
        } catch (const Error& error) {
            return error.code() == Exit::usage &&
                   std::string(error.what()).find(flag) != std::string::npos;
        }
        return false;
    };
    CHECK(refused({.fixed = 0.0}, "--loss-scale"));
    CHECK(refused({.fixed = 1e300}, "--loss-scale"));
    CHECK(refused({.fixed = 1e-40}, "--loss-scale"));
    CHECK(refused({.initial = 1, .min = 1e-39}, "--min-loss-scale"));
    CHECK(refused({.initial = 1e300}, "--initial-loss-scale"));
    CHECK(refused({.initial = -1}, "--initial-loss-scale"));
    CHECK(refused({.initial = std::nan("")}, "--initial-loss-scale"));
    CHECK(refused({.initial = 1, .min = 2}, "--initial-loss-scale"));
    CHECK(refused({.window = 0}, "--loss-scale-window"));
    CHECK(refused({.hysteresis = 0}, "--hysteresis"));
}

TEST_CASE("without fp16 the scale is 1") {
    LossScaler scaler;
    scaler.update(true);
    CHECK(scaler.scale() == 1.0);
    CHECK_FALSE(scaler.dynamic());
}
