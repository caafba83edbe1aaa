// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/step_files.hpp"

#include <algorithm>

#include "ckpt/format/data_file.hpp"

namespace lm::ckpt {

i64 nodes_per_part(i64 n_ranks, i64 n_nodes) {
    return std::max<i64>(1, ranks_per_part * n_nodes / n_ranks);
}

i64 files_of_checkpoint(i64 n_ranks, i64 n_nodes) {
    constexpr i64 directory_and_manifest = 2;
    const i64 n_parts = ceil_div(n_nodes, nodes_per_part(n_ranks, n_nodes));
    return 2 * n_nodes + n_parts + directory_and_manifest;
}

DataFile join_shares(std::span<DataFile* const> shares) {
    DataFile file{.name = shares.front()->name,
                  .size = shares.front()->size,
                  .header_bytes = shares.front()->header_bytes,
                  .header_digest = shares.front()->header_digest,
                  .slices = {},
                  .digests = {}};
    for (DataFile* share : shares) append(file, std::move(*share));
    return file;
}

}  // namespace lm::ckpt
