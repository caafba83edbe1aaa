// SPDX-License-Identifier: Apache-2.0
// An axis of a chart: the range of its data, its ticks at round numbers, and the position of a
// value.
#pragma once

#include <string>
#include <vector>

namespace lm::plot {

// The least and the greatest of the finite values that were added.
class DataExtent {
  public:
    void add(double value);
    bool empty() const { return !(low_ <= high_); }
    double low() const { return low_; }
    double high() const { return high_; }

  private:
    double low_ = 1, high_ = -1;
};

struct Tick {
    double value = 0;
    std::string label;
};

class Axis {
  public:
    // Returns an axis from `begin` to `end` (in points; y axes grow downwards) whose ends are round
    // numbers around `data`. `most` is the greatest number of intervals between ticks. An empty
    // extent gives 0 to 1; one value gives a range around it.
    static Axis linear(const DataExtent& data, double begin, double end, int most);
    // Returns a linear axis whose ends are the least and the greatest value of `data`.
    static Axis tight(const DataExtent& data, double begin, double end, int most);
    // Returns a logarithmic axis around `data`. All values of `data` must be positive.
    static Axis logarithmic(const DataExtent& data, double begin, double end, int most);

    // Returns the position of `value` in points. It may lie outside of the axis.
    double at(double value) const;
    double low() const { return low_; }
    double high() const { return high_; }
    const std::vector<Tick>& ticks() const { return ticks_; }
    // Returns n if the labels are divided by 10^n, for example -5 for values of 1e-5; the title of
    // the axis must then state this factor. Returns 0 if the labels have no factor, or state the
    // factor themselves (k, M, B, T).
    int exponent() const { return exponent_; }

  private:
    void add_ticks(double step);
    void add_log_ticks(int most);

    double low_ = 0, high_ = 1, begin_ = 0, end_ = 1;
    bool log_ = false;
    int exponent_ = 0;
    std::vector<Tick> ticks_;
};

// Returns the least number f x 10^n, where f is 1, 2, 2.5 or 5, that is at least `span` / `most`.
double round_step(double span, int most);

// Returns " (×10⁻⁵)" for -5, and nothing for 0.
std::string power_of_ten(int exponent);

}  // namespace lm::plot
