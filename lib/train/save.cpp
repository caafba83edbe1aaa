// SPDX-License-Identifier: Apache-2.0
#include "train/save.hpp"

#include <algorithm>
#include <array>

#include "base/joint_error.hpp"
#include "parallel/together.hpp"

namespace lm::train {
namespace {

using parallel::together;

// The index parts of all ranks, by rank. Their names follow from the rank.
std::vector<ckpt::IndexReference> gather(comm::Group& world, const ckpt::IndexReference& own) {
    using Text = std::array<char, 64>;  // a digest
    LM_CHECK(own.digest.size() < Text().size(), "a digest too long to be sent");
    Text mine{};
    std::ranges::copy(own.digest, mine.begin());
    std::vector<Text> all(static_cast<size_t>(world.size()));
    const auto n = static_cast<i64>(mine.size());
    world.all_gather({mine.data(), DType::uint8, {n}},
                     {all.data(), DType::uint8, {n * world.size()}});
    std::vector<ckpt::IndexReference> parts;
    for (size_t rank = 0; rank < all.size(); ++rank) {
        parts.push_back({ckpt::index_name(static_cast<i64>(rank)), all[rank].data()});
    }
    return parts;
}

ckpt::SaveResult write(comm::Group& world, const ckpt::Generation& generation,
                       const ckpt::SaveInfo& info, const std::vector<ckpt::Piece>& pieces) {
    const bool commits = world.rank() == 0;
    std::string temporary;
    together(world, [&] {
        if (commits) temporary = ckpt::begin_save(generation, info.counters.iteration);
    });
    temporary = parallel::broadcast_text(world, temporary);
    ckpt::IndexReference own;
    together(world, [&] { own = ckpt::write_part(temporary, info, world.rank(), pieces); });
    const std::vector<ckpt::IndexReference> parts = gather(world, own);
    ckpt::SaveResult result;
    together(world, [&] {
        if (commits) result = ckpt::commit_save(generation, info, parts);
    });
    return result;
}

}  // namespace

ckpt::Generation claim(comm::Group& world, const std::string& directory) {
    ckpt::Generation generation{directory, 0};
    together(world, [&] {
        if (world.rank() == 0) generation = ckpt::claim(directory);
    });
    world.broadcast({&generation.number, DType::int64, {1}}, 0);
    return generation;
}

ckpt::SaveResult save(comm::Group& world, const ckpt::Generation& generation,
                      const ckpt::SaveInfo& info, const std::vector<ckpt::Piece>& pieces) {
    if (world.size() == 1) return ckpt::save(generation, info, pieces);
    try {
        return write(world, generation, info, pieces);
    } catch (const JointError&) {
        together(world, [&] {
            if (world.rank() != 0) return;
            ckpt::abandon_save(generation, info.counters.iteration);
            ckpt::check_not_superseded(generation);  // a newer run may have removed our directory
        });
        throw;
    }
}

}  // namespace lm::train
