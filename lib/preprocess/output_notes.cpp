// SPDX-License-Identifier: Apache-2.0
#include "preprocess/output_notes.hpp"

#include <array>
#include <filesystem>

#include "base/log.hpp"
#include "data/indexed/indexed_dataset.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"

namespace lm::preprocess {
namespace {

std::array<std::string, 3> files_of(const std::string& prefix) {
    return {data::bin_path(prefix), data::metadata_path(prefix), data::idx_path(prefix)};
}

}  // namespace

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
