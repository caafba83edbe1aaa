// SPDX-License-Identifier: Apache-2.0
#include "preprocess/build.hpp"

#include <array>
#include <filesystem>

#include "base/log.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "io/atomic.hpp"
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

std::array<std::string, 3> files_of(const std::string& prefix) {
    return {data::bin_path(prefix), data::metadata_path(prefix), data::idx_path(prefix)};
}

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

void note_leftovers(const std::string& prefix) {
    for (const std::string& path : files_of(prefix)) {
        for (const std::string& stale : io::stale_temporaries(path))
            note("{}: left by a run that was killed: the file can be removed", stale);
    }
}

void note_links(const std::string& prefix) {
    std::error_code none;
    for (const std::string& path : files_of(prefix)) {
        if (!std::filesystem::is_symlink(path, none)) continue;
        note(
            "{}: the output replaces this symbolic link; the target of the link, {}, does not "
            "change",
            path, std::filesystem::read_symlink(path, none).string());
    }
}

}  // namespace lm::preprocess
