// SPDX-License-Identifier: Apache-2.0
#include "energy_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/bounds.hpp"
#include "base/error.hpp"
#include "base/types.hpp"
#include "base/units.hpp"

namespace lm::estimate {
namespace {

// The price of a GPU-hour or of a kWh.
struct Price {
    double value = 0;
    bool of_energy = false;
};

Price parse_price(std::string_view text) {
    const std::string_view number = text.substr(0, text.find('/'));
    std::string unit(text.substr(number.size()));
    std::ranges::transform(unit, unit.begin(), [](unsigned char c) { return std::tolower(c); });
    const bool is_number =
        !number.empty() && number.find_first_not_of("0123456789.eE+-") == number.npos;
    const Price price{.value = is_number ? parse_number("--price", number) : 0,
                      .of_energy = unit == "/kwh"};
    if (!is_number || !(unit.empty() || unit == "/gpuh" || price.of_energy)) {
        usage_error("--price",
                    "expected a price such as 2.50 or 2.50/GPUh, or of energy, such as 0.15/kWh, "
                    "got {}",
                    text);
    }
    check_at_least("--price", price.value, 0);
    return price;
}

// Large amounts are printed without fractions.
Unit unit_of(double value) {
    return value >= 1000 ? Unit::count : Unit::plain;
}

}  // namespace

void add_energy_options(cli::Options& options, EnergyFlags& flags) {
    options.group("Energy and cost");
    options.value(
        "--watts", &flags.watts, "W",
        "power of a GPU, including its share of the power of the node; default: from --gpu");
    options.value("--pue", &flags.pue, "X",
                  "energy of the computing centre / energy of its computers; default: 1");
    options.value(
        "--price", &flags.price, "P",
        "price of a GPU-hour, as 2.50 or 2.50/GPUh, or of energy, as 0.15/kWh, in any currency");
    options.value("--carbon", &flags.carbon, "G", "grams of CO2 equivalent per kWh");
}

void check(const EnergyFlags& flags) {
    check_above_to("--watts", flags.watts, 0, 1e6);
    if (flags.pue) check_from_to("--pue", *flags.pue, 1, 10);
    check_at_least("--carbon", flags.carbon, 0);
    if (!flags.price.empty()) parse_price(flags.price);
}

std::vector<Figure> energy_figures(const EnergyFlags& flags, const GpuTime& time) {
    const double gpu_hours = as_double(time.n_gpus) * time.running_s / 3600;
    std::vector<Figure> figures{{"gpu_hours", "GPU-hours", unit_of(gpu_hours), gpu_hours,
                                 "--gpus x running time, without waiting in the queue"}};
    const std::optional<double> watts = flags.watts ? flags.watts : time.hardware_watts;
    const double kwh = gpu_hours * watts.value_or(0) * flags.pue.value_or(1) / 1000;
    if (watts) {
        figures.push_back(
            {"energy_kwh", "energy (kWh)", unit_of(kwh), kwh,
             fmt::format("GPU-hours x {:.4g} W x {:.3g} (--pue)", *watts, flags.pue.value_or(1))});
    }
    const auto need_watts = [&watts](const char* flag) {
        if (!watts)
            usage_error(flag,
                        "needs the power of a GPU: give --gpu, or --watts, the power of a GPU, "
                        "including its share of the power of the node");
    };
    if (flags.pue) need_watts("--pue");
    if (!flags.price.empty()) {
        const Price price = parse_price(flags.price);
        if (price.of_energy) need_watts("--price");
        const double cost = price.value * (price.of_energy ? kwh : gpu_hours);
        figures.push_back({"cost", "cost", unit_of(cost), cost,
                           price.of_energy ? "energy x --price" : "GPU-hours x --price"});
    }
    if (flags.carbon) {
        need_watts("--carbon");
        const double co2_kg = kwh * *flags.carbon / 1000;
        figures.push_back({"co2_kg", "CO2 (kg)", unit_of(co2_kg), co2_kg, "energy x --carbon"});
    }
    return figures;
}

}  // namespace lm::estimate
