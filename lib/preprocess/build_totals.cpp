// SPDX-License-Identifier: Apache-2.0
#include "preprocess/build_totals.hpp"
#include "io/json.hpp"

namespace lm::preprocess {
namespace {

struct NamedCount {
    const char* name;
    i64 BuildTotals::*value;
};

constexpr NamedCount counts[] = {
    {"documents", &BuildTotals::documents},     {"tokens", &BuildTotals::tokens},
    {"input_bytes", &BuildTotals::input_bytes}, {"text_bytes", &BuildTotals::text_bytes},
    {"blank_lines", &BuildTotals::blank},       {"skipped_lines", &BuildTotals::bad},
    {"replaced_lines", &BuildTotals::replaced},
};

}  // namespace

BuildTotals& BuildTotals::operator+=(const BuildTotals& other) {
    for (const NamedCount& count : counts) this->*count.value += other.*count.value;
    return *this;
}

BuildTotals& BuildTotals::operator-=(const BuildTotals& other) {
    for (const NamedCount& count : counts) this->*count.value -= other.*count.value;
    return *this;
}

io::OrderedJson BuildTotals::to_json() const {
    io::OrderedJson j;
    for (const NamedCount& count : counts) j[count.name] = this->*count.value;
    return j;
}

BuildTotals BuildTotals::parse(const io::Json& object, const std::string& path) {
    BuildTotals totals;
    for (const NamedCount& count : counts)
        totals.*count.value = io::json_get<i64>(object, count.name, path);
    return totals;
}

}  // namespace lm::preprocess
