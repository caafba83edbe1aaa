// SPDX-License-Identifier: Apache-2.0
#include "train/save/distributed_save.hpp"

#include <algorithm>
#include <new>
#include <utility>

#include "base/error.hpp"
#include "ckpt/format/index.hpp"
#include "io/lines.hpp"
#include "parallel/together.hpp"

namespace lm::train {

using parallel::together;

std::vector<ckpt::IndexReference> references_from(const std::string& lines) {
    std::vector<ckpt::IndexReference> parts;
    for (const std::string_view line : io::lines_of(lines))
        parts.push_back(ckpt::parse_reference(line));
    return parts;
}

ckpt::Generation claim_generation(comm::Group& world, const std::string& directory,
                                  const std::optional<ckpt::Tip>& start) {
    ckpt::Generation generation{directory, 0};
    together(world, [&] {
        if (world.rank() == 0) generation = ckpt::claim(directory, start);
    });
    world.broadcast({&generation.number, DType::int64, {1}}, 0);
    return generation;
}

DistributedSave::DistributedSave(comm::Group& world, NodeFiles& files,
                                 const ckpt::Generation& generation, ckpt::SaveInfo info)
    : world_(world), files_(files), generation_(generation), info_(std::move(info)) {}

// Runs `body`, which is collective. When `body` throws the same JointError on all ranks, removes
// the files of the save and throws a JointError. Any other error, such as a failure of the
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
            ckpt::discard_save(generation_, iteration());
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
            ckpt::begin_save(generation_, iteration());
        });
    });
}

void DistributedSave::write(const std::vector<ckpt::Piece>& pieces) noexcept {
    own_.add(world_.rank(), [&] {
        try {
            own_.text = files_.write(directory(), pieces);
        } catch (const std::bad_alloc&) {
            throw Error(Exit::failure, "not enough memory for a save");
        }
    });
}

void DistributedSave::publish(ckpt::SaveResult& result) {
    files_.write_index(directory(), own_);
    if (world_.rank() == 0) {
        own_.add(
            0, [&] { result = ckpt::commit_save(generation_, info_, references_from(own_.text)); });
    }
    conclude(world_, own_);
}

ckpt::SaveResult DistributedSave::commit() {
    ckpt::SaveResult result;
    or_abandon([&] { publish(result); });
    return result;
}

}  // namespace lm::train
