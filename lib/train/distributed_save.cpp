// SPDX-License-Identifier: Apache-2.0
#include "train/distributed_save.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "ckpt/index.hpp"
#include "parallel/together.hpp"

namespace lm::train {
namespace {

using parallel::together;

// The number of ranks in a block, which share an index part; the first rank of the block writes it.
// This keeps the number of files small. No rank has to hold the index of all ranks, or to read it
// at a resume.
constexpr int ranks_per_part = 64;

void send_text(comm::Group& group, const std::string& text, int to) {
    i64 n = static_cast<i64>(text.size());
    group.send({&n, DType::int64, {1}}, to);
    std::string copy = text;
    group.send({copy.data(), DType::uint8, {n}}, to);
}
std::string receive_text(comm::Group& group, int from) {
    i64 n = 0;
    group.receive({&n, DType::int64, {1}}, from);
    std::string text(static_cast<size_t>(n), '\0');
    group.receive({text.data(), DType::uint8, {n}}, from);
    return text;
}

// Merges the parts of a block of ranks on its first rank. Returns an empty part on the other ranks.
ckpt::IndexPart merge_in_block(comm::Group& world, ckpt::IndexPart own) {
    const int leader = world.rank() / ranks_per_part * ranks_per_part;
    if (world.rank() != leader) {
        send_text(world, ckpt::index_text(own), leader);
        return {};
    }
    const int end = std::min(leader + ranks_per_part, world.size());
    for (int rank = leader + 1; rank < end; ++rank) {
        const std::string source = fmt::format("the index part of rank {}", rank);
        ckpt::append(own, ckpt::parse_index(receive_text(world, rank), source));
    }
    return own;
}

// Gathers on rank 0 the references of all index parts, from the first rank of each block.
std::vector<ckpt::IndexReference> gather_references(comm::Group& world,
                                                    const ckpt::IndexReference& own) {
    if (world.rank() % ranks_per_part != 0) return {};
    if (world.rank() != 0) {
        send_text(world, ckpt::reference_text(own), 0);
        return {};
    }
    std::vector<ckpt::IndexReference> parts{own};
    for (int rank = ranks_per_part; rank < world.size(); rank += ranks_per_part) {
        parts.push_back(ckpt::parse_reference(receive_text(world, rank)));
    }
    return parts;
}

ckpt::SaveResult write(comm::Group& world, const ckpt::Generation& generation,
                       const ckpt::SaveInfo& info, const std::vector<ckpt::Piece>& pieces) {
    const bool is_rank0 = world.rank() == 0;
    std::string temporary;
    together(world, [&] {
        if (is_rank0) temporary = ckpt::begin_save(generation, info.counters.iteration);
    });
    temporary = parallel::broadcast_text(world, temporary);
    ckpt::IndexPart part;
    together(world, [&] { part = ckpt::write_pieces(temporary, info, world.rank(), pieces); });
    part = merge_in_block(world, std::move(part));
    ckpt::IndexReference own;
    together(world, [&] {
        const bool leads = world.rank() % ranks_per_part == 0;
        if (leads) own = ckpt::write_index(temporary, info, part);
    });
    const std::vector<ckpt::IndexReference> parts = gather_references(world, own);
    ckpt::SaveResult result;
    together(world, [&] {
        if (is_rank0) result = ckpt::commit_save(generation, info, parts);
    });
    return result;
}

}  // namespace

ckpt::Generation claim_generation(comm::Group& world, const std::string& directory,
                                  const std::optional<ckpt::Tip>& start) {
    ckpt::Generation generation{directory, 0};
    together(world, [&] {
        if (world.rank() == 0) generation = ckpt::claim(directory, start);
    });
    world.broadcast({&generation.number, DType::int64, {1}}, 0);
    return generation;
}

ckpt::SaveResult save_distributed(comm::Group& world, const ckpt::Generation& generation,
                                  const ckpt::SaveInfo& info,
                                  const std::vector<ckpt::Piece>& pieces) {
    if (world.size() == 1) return ckpt::save(generation, info, pieces);
    try {
        return write(world, generation, info, pieces);
    } catch (const JointError&) {
        together(world, [&] {
            if (world.rank() != 0) return;
            ckpt::abandon_save(generation, info.counters.iteration);
            ckpt::check_not_superseded(generation);  // a newer run may have removed the directory
        });
        throw;
    }
}

}  // namespace lm::train
