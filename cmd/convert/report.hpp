// SPDX-License-Identifier: Apache-2.0
// The report of lm-convert on each output: notes, or with --json one object on standard output.
#pragma once

#include <string>
#include <string_view>

#include "base/clock.hpp"
#include "check/logits_check.hpp"
#include "convert/conversion.hpp"
#include "convert/formats/model_format.hpp"
#include "io/json.hpp"

namespace lm {

struct Formats {
    convert::ModelFormat from;
    convert::ModelFormat to;
};

// The tensors whose copies on the tensor ranks of Megatron differ.
struct Drift {
    i64 n = 0;
    double largest = 0;  // absolute difference
    std::string first;   // name of the first tensor whose copies differ
    void add(const std::string& tensor, double difference);
};

// The report of one output. Prints warnings even with `quiet`.
class Report {
  public:
    // `quiet` hides notes.
    Report(std::string in, std::string out, bool quiet, bool json);

    // Each of these functions adds the result of one kind of --check.
    void compared(const check::Comparison& result);
    void imported(const check::ImportCheck& result);
    void read_again(i64 n_tensors);

    // Each of these functions prints the last lines of the report.
    void converted(const Formats& formats, const convert::ConversionReport& result,
                   const Drift& drift);
    void skipped(const Formats& formats);
    void proved(const std::string& against);

  private:
    bool notes() const { return !quiet_ && !json_; }
    void print(io::OrderedJson object) const;

    std::string in_;
    std::string out_;
    bool quiet_;
    bool json_;
    Stopwatch watch_;
    io::OrderedJson checks_ = io::OrderedJson::array();
};

}  // namespace lm
