// SPDX-License-Identifier: Apache-2.0
#include "train/distributed_save.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "ckpt/index.hpp"
#include "parallel/together.hpp"

namespace lm::train {
namespace {

using parallel::together;

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

// Merges the index parts of a block of ranks on the first rank of the block. Returns an empty part
// on the other ranks.
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

DistributedSave::DistributedSave(comm::Group& world, const ckpt::Generation& generation,
                                 ckpt::SaveInfo info)
    : world_(world), generation_(generation), info_(std::move(info)) {}

// Runs `body`, which is collective. When it throws the same JointError on all ranks, removes the
// files of the save and throws a JointError. Any other error, such as a failure of the
// communication, is thrown unchanged, because the ranks cannot act together.
template <typename Body>
void DistributedSave::or_abandon(const Body& body) {
    try {
        body();
    } catch (const Error& error) {
        const bool joint = dynamic_cast<const JointError*>(&error) != nullptr;
        if (!joint && world_.size() > 1) throw;
        together(world_, [&] {
            if (world_.rank() != 0) return;
            ckpt::abandon_save(generation_, iteration());
            ckpt::check_not_superseded(generation_);  // a newer run may have removed the directory
        });
        throw JointError(error.code(), error.what());
    }
}

void DistributedSave::begin(const RoomNeed& need) {
    or_abandon([&] {
        together(world_, [&] {
            if (world_.rank() != 0) return;
            check_room(generation_.directory, need);
            temporary_ = ckpt::begin_save(generation_, iteration());
        });
        temporary_ = parallel::broadcast_text(world_, temporary_);
    });
}

void DistributedSave::write(const std::vector<ckpt::Piece>& pieces) noexcept {
    try {
        part_ = ckpt::write_pieces(temporary_, info_, world_.rank(), pieces);
    } catch (const std::bad_alloc&) {
        error_ = std::make_exception_ptr(Error(Exit::failure, "not enough memory for a save"));
    } catch (...) {
        error_ = std::current_exception();
    }
}

void DistributedSave::publish(ckpt::SaveResult& result) {
    together(world_, [&] {
        if (error_) std::rethrow_exception(error_);
    });
    const ckpt::IndexPart part = merge_in_block(world_, std::move(part_));
    ckpt::IndexReference own;
    together(world_, [&] {
        const bool leads = world_.rank() % ranks_per_part == 0;
        if (leads) own = ckpt::write_index(temporary_, part);
    });
    const std::vector<ckpt::IndexReference> parts = gather_references(world_, own);
    together(world_, [&] {
        if (world_.rank() == 0) result = ckpt::commit_save(generation_, info_, parts);
    });
}

ckpt::SaveResult DistributedSave::commit() {
    ckpt::SaveResult result;
    or_abandon([&] { publish(result); });
    return result;
}

}  // namespace lm::train
