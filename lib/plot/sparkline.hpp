// SPDX-License-Identifier: Apache-2.0
// A curve as one line of block characters, for a terminal.
#pragma once

#include <span>
#include <string>

#include "plot/svg.hpp"

namespace lm::plot {

// Returns at most `columns` characters: for each column the mean of its points, as one of eight
// heights between the least and the greatest mean. A column without a finite point is a space.
std::string sparkline(std::span<const Point> points, int columns);

}  // namespace lm::plot
