// SPDX-License-Identifier: Apache-2.0
#include "train/save/node_files.hpp"

#include <algorithm>
#include <utility>

#include "base/error.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/format/step_files.hpp"
#include "io/json.hpp"
#include "parallel/together.hpp"
#include "train/save/save_room.hpp"

namespace lm::train {
namespace {

constexpr size_t hex_digits = 32;

}  // namespace

std::unique_ptr<NodeFiles> NodeFiles::plan(comm::Group& world, std::unique_ptr<comm::Group> node,
                                           std::vector<ckpt::TensorInfo> tensors,
                                           const std::vector<ckpt::Piece>& pieces) {
    std::unique_ptr<NodeFiles> files(new NodeFiles(world, std::move(node), std::move(tensors)));
    files->split_leaders();
    ckpt::IndexPart own{.writer = files->number_, .files = {}};
    for (ckpt::DataShare& share : ckpt::plan_shares(files->tensors_, files->number_, pieces)) {
        files->places_[share.file.name].planned_size = share.file.size;
        own.files.push_back(std::move(share.file));
    }
    std::vector<ckpt::IndexPart> plans = files->gather_plans(std::move(own));
    std::string answers;
    if (files->leads()) answers = files->place(std::move(plans));
    answers = parallel::broadcast_text(*files->node_, answers);
    const io::Json document = io::parse_json(answers, "the places in the files of a node");
    for (const auto& [name, numbers] :
         document[static_cast<size_t>(files->node_->rank())].items()) {
        files->places_[name].shift = numbers[0].get<i64>();
        files->places_[name].file_size = numbers[1].get<i64>();
    }
    return files;
}

i64 NodeFiles::n_files() const {
    return ckpt::files_of_checkpoint(world_.size(), n_nodes_);
}

i64 NodeFiles::node_bytes() const {
    i64 bytes = 0;
    for (const ckpt::DataFile& file : part_.files) bytes += file.size;
    return bytes;
}

// Numbers the nodes and forms the groups of leaders. Collective.
void NodeFiles::split_leaders() {
    const auto leaders = world_.split(leads() ? 0 : -1, world_.rank(), "leaders of nodes");
    i64 numbers[] = {leaders->rank(), leaders->size()};
    node_->broadcast({numbers, DType::int64, {2}}, 0);
    number_ = numbers[0];
    n_nodes_ = numbers[1];
    if (!leads()) return;
    const auto block = static_cast<int>(number_ / ckpt::nodes_per_part(world_.size(), n_nodes_));
    block_ = leaders->split(block, leaders->rank(), "nodes of an index part");
    block_writers_ =
        leaders->split(block_->rank() == 0 ? 0 : -1, leaders->rank(), "writers of index parts");
}

// Returns the plans of all ranks of the node, on its leader only. Collective over the node.
std::vector<ckpt::IndexPart> NodeFiles::gather_plans(ckpt::IndexPart own) {
    SaveReport report{.text = leads() ? std::string() : ckpt::index_text(own)};
    std::vector<ckpt::IndexPart> plans;
    if (leads()) plans.push_back(std::move(own));
    gather_reports(*node_, report, [&](int member, const std::string& text) {
        plans.push_back(ckpt::parse_index(text, fmt::format("the plan of member {}", member)));
    });
    return plans;
}

// Places the shares of all ranks of the node in their files, and sets part_ and digests_. Returns
// the places of the shares of each rank as JSON: [{FILE: [shift, size of the file], ...}, ...].
std::string NodeFiles::place(std::vector<ckpt::IndexPart> plans) {
    struct Share {
        size_t member;
        ckpt::DataFile* file;
    };
    std::map<std::string, std::vector<Share>> by_name;
    for (size_t member = 0; member < plans.size(); ++member) {
        for (ckpt::DataFile& file : plans[member].files) {
            by_name[file.name].push_back({member, &file});
        }
    }
    io::OrderedJson answers(plans.size(), io::OrderedJson::object());
    digests_.resize(plans.size());
    part_.writer = number_;
    for (const auto& [name, shares] : by_name) {
        std::vector<ckpt::DataFile*> files;
        std::vector<i64> planned;
        for (const Share& share : shares) {
            files.push_back(share.file);
            planned.push_back(share.file->slices.front().offset);
        }
        places_[name].header = ckpt::place_shares(files, tensors_);
        size_t n_digests = 0;
        for (size_t i = 0; i < shares.size(); ++i) {
            answers[shares[i].member][name] = {files[i]->slices.front().offset - planned[i],
                                               files[i]->size};
            const size_t own = files[i]->digests.size();
            digests_[shares[i].member].push_back({part_.files.size(), n_digests, own});
            n_digests += own;
        }
        const ckpt::DataFile& whole = part_.files.emplace_back(ckpt::join_shares(files));
        // The leader writes the headers, so the leader's answer names this file even if the leader
        // has no share in the file.
        if (!answers[0].contains(name)) answers[0][name] = {0, whole.size};
    }
    return answers.dump();
}

std::string NodeFiles::write(const std::string& directory,
                             const std::vector<ckpt::Piece>& pieces) const {
    std::vector<ckpt::DataShare> shares = ckpt::plan_shares(tensors_, number_, pieces);
    for (const auto& [name, place] : places_) {
        auto share = std::ranges::find(shares, name,
                                       [](const ckpt::DataShare& each) { return each.file.name; });
        if (share == shares.end()) {
            shares.emplace_back().file.name = name;
            share = std::prev(shares.end());
        }
        LM_CHECK(share->file.size == place.planned_size, "{}: expected a share of {} bytes, got {}",
                 name, place.planned_size, share->file.size);
        for (ckpt::Slice& slice : share->file.slices) slice.offset += place.shift;
        share->file.size = place.file_size;
        share->header = place.header;
    }
    ckpt::write_shares(directory, shares);
    std::ranges::sort(shares, {}, [](const ckpt::DataShare& each) { return each.file.name; });
    std::string digests;
    for (const ckpt::DataShare& share : shares) {
        for (const Hash128& digest : share.file.digests) digests += hex_of(digest);
    }
    return digests;
}

// Sets the digests of a member of the node in part_. `digests` has the digests of the member's
// files, in the order of the file names.
void NodeFiles::accept_digests(int member, const std::string& digests) {
    size_t at = 0;
    for (const DigestRange& range : digests_[static_cast<size_t>(member)]) {
        for (size_t i = 0; i < range.n; ++i, at += hex_digits) {
            LM_CHECK(at + hex_digits <= digests.size(),
                     "expected digests of all blocks, got only {} from rank {} of the node",
                     digests.size() / hex_digits, member);
            Hash128& digest = part_.files[range.file].digests[range.begin + i];
            LM_CHECK(
                parse_hex(std::string_view(digests).substr(at, hex_digits), digest),
                "expected a block's digest of 32 hex digits from rank {} of the node, got '{}'",
                member, digests.substr(at, hex_digits));
        }
    }
    LM_CHECK(at == digests.size(), "expected {} digests from rank {} of the node, got {}",
             at / hex_digits, member, digests.size() / hex_digits);
}

// Sets the digests of all members of the node on its leader. Collective over the node.
void NodeFiles::gather_digests(SaveReport& own) {
    if (leads()) own.add(world_.rank(), [&] { accept_digests(0, own.text); });
    gather_reports(*node_, own, [this](int member, const std::string& digests) {
        accept_digests(member, digests);
    });
}

void NodeFiles::write_index(const std::string& directory, SaveReport& own) {
    gather_digests(own);
    if (!leads()) return;
    ckpt::IndexPart part = part_;
    if (block_->rank() != 0) own.text = ckpt::index_text(part);
    gather_reports(*block_, own, [&](int, const std::string& text) {
        ckpt::append(part, ckpt::parse_index(text, "an index part"));
    });
    if (block_->rank() != 0) return;
    own.add(world_.rank(),
            [&] { own.text = ckpt::reference_text(ckpt::write_index(directory, part)) + "\n"; });
    join_reports(*block_writers_, own);
}

void NodeFiles::write_node_index(const std::string& directory, SaveReport& own) {
    gather_digests(own);
    if (!leads()) return;
    own.add(world_.rank(),
            [&] { own.text = ckpt::reference_text(ckpt::write_index(directory, part_)) + "\n"; });
    join_reports(*block_, own);
    if (block_->rank() == 0) join_reports(*block_writers_, own);
}

}  // namespace lm::train
