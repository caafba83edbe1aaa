// SPDX-License-Identifier: Apache-2.0
#include "train/save.hpp"

#include <algorithm>
#include <array>

#include "base/joint_error.hpp"
#include "parallel/together.hpp"

namespace lm::train {
namespace {

using parallel::together;

// On rank 0 the index parts of all ranks, by rank. Their names follow from the rank.
std::vector<ckpt::IndexReference> gather(comm::Group& world, const ckpt::IndexReference& own) {
    std::array<char, 64> digest{};
    LM_CHECK(own.digest.size() < digest.size(), "a digest too long to be sent");
    const device::View message{digest.data(), DType::uint8, {static_cast<i64>(digest.size())}};
    if (world.rank() != 0) {
        std::ranges::copy(own.digest, digest.begin());
        world.send(message, 0);
        return {};
    }
    std::vector<ckpt::IndexReference> parts{own};
    for (int rank = 1; rank < world.size(); ++rank) {
        world.receive(message, rank);
        parts.push_back({ckpt::index_name(rank), digest.data()});
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
