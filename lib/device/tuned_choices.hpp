// SPDX-License-Identifier: Apache-2.0
// Choices that a device makes by measurement: which of several ways to do an operation of one shape
// is fastest. Measurements do not come out the same way twice, and ways may differ in the last bit,
// so choices are kept, and who finds one takes it: a run and its resume, and all ranks, choose
// alike.
#pragma once

#include <string>
#include <vector>

namespace lm::device {

class TunedChoices {
  public:
    virtual ~TunedChoices() = default;
    // What was chosen for `key`, which names all that the choice depends on; empty: nothing yet.
    virtual std::string find(const std::string& key) = 0;
    // Keeps `choice` for `key` unless somebody was quicker; what is kept now.
    virtual std::string keep(const std::string& key, const std::string& choice) = 0;
};

// Which of several ways is to be chosen, by the times of each, at least one: the one whose median
// is least, if that is less than the first one's, which would be taken without measurements, by the
// share `least_gain` of it.
size_t worth_taking(std::vector<std::vector<float>> times, float least_gain);

}  // namespace lm::device
