// SPDX-License-Identifier: Apache-2.0
#include "train/save/partner_copy.hpp"

#include <algorithm>
#include <array>

#include "ckpt/history/local_steps.hpp"
#include "io/atomic.hpp"
#include "io/block_file.hpp"
#include "io/file.hpp"

namespace lm::train {
namespace {

// The part of a data file that one message carries.
struct Block {
    size_t file = 0;
    i64 begin = 0;
    i64 n = 0;
};

// Returns every n_lanes-th block of the files, from block number `lane` on.
std::vector<Block> blocks_of(const std::vector<ckpt::DataFile>& files, int lane, int n_lanes) {
    std::vector<Block> blocks;
    i64 number = 0;
    for (size_t file = 0; file < files.size(); ++file) {
        for (i64 begin = 0; begin < files[file].size; begin += io::block_bytes, ++number) {
            if (number % n_lanes != lane) continue;
            blocks.push_back({file, begin, std::min(io::block_bytes, files[file].size - begin)});
        }
    }
    return blocks;
}

// The files of one node in a transfer.
struct Transfer {
    int peer = 0;
    std::vector<io::BlockFile> open = {};  // empty after an error
    std::vector<Block> blocks = {};
};

std::vector<ckpt::DataFile> files_in(const std::string& index) {
    if (index.empty()) return {};
    return ckpt::parse_index(index, "the index part of a node").files;
}

// Returns `bytes` as a view, [n] uint8.
comm::View view_of(std::span<std::byte> bytes) {
    return {bytes.data(), DType::uint8, {std::ssize(bytes)}};
}

}  // namespace

std::unique_ptr<PartnerCopy> PartnerCopy::connect(comm::Group& world, NodeFiles& files) {
    std::unique_ptr<PartnerCopy> copy(new PartnerCopy(files));
    const i64 n_nodes = files.n_nodes();
    if (n_nodes == 1) return copy;
    i64 fewest = -files.node().size();
    world.all_reduce({&fewest, DType::int64, {1}}, comm::Reduction::max);
    copy->n_lanes_ = static_cast<int>(-fewest);
    for (i64 node = 0; node < n_nodes; ++node) {
        if (ckpt::partner_of(node, n_nodes) == files.number())
            copy->sources_.push_back(static_cast<int>(node));
    }
    const int place = files.node().rank();
    const bool has_lane = place < copy->n_lanes_;
    auto lane = world.split(has_lane ? place : -1, static_cast<int>(files.number()), "lane");
    if (has_lane) copy->lane_ = std::move(lane);
    if (!files.leads()) return copy;
    i64 own = files.node_bytes();
    std::vector<i64> bytes(static_cast<size_t>(n_nodes));
    copy->lane_->all_gather({&own, DType::int64, {1}}, {bytes.data(), DType::int64, {n_nodes}});
    for (const int node : copy->sources_) copy->incoming_bytes_ += bytes[static_cast<size_t>(node)];
    return copy;
}

// Calls `body` unless an earlier call has failed. Stores the error of `body` instead of throwing
// it: this rank continues to send messages, because other ranks wait for them.
template <typename Body>
void PartnerCopy::attempt(const Body& body) {
    if (error_) return;
    try {
        body();
    } catch (...) {
        error_ = std::current_exception();
    }
}

std::exception_ptr PartnerCopy::exchange(const std::string& directory) {
    error_ = nullptr;
    if (n_lanes_ == 0) return nullptr;
    std::string own;
    std::vector<std::string> indexes;
    if (lane_) {
        attempt([&] { own = io::read_file(directory + "/" + ckpt::index_name(files_.number())); });
        indexes = exchange_indexes(own);
    }
    if (files_.leads()) attempt([&] { create_files(directory, indexes); });
    files_.node().barrier();  // the files exist before other lanes write to them
    if (lane_) exchange_blocks(directory, own, indexes);
    return error_;
}

// Returns the texts of the index parts of the sources.
std::vector<std::string> PartnerCopy::exchange_indexes(const std::string& own) {
    const auto partner = static_cast<int>(ckpt::partner_of(files_.number(), files_.n_nodes()));
    std::string text = own;
    i64 n = std::ssize(text);
    comm::Work size = lane_->start_send({&n, DType::int64, {1}}, partner);
    comm::Work body;
    if (n > 0) body = lane_->start_send({text.data(), DType::uint8, {n}}, partner);
    std::vector<std::string> indexes;
    for (const int source : sources_) {
        i64 bytes = 0;
        lane_->receive({&bytes, DType::int64, {1}}, source);
        std::string& index = indexes.emplace_back(static_cast<size_t>(bytes), '\0');
        if (bytes > 0) lane_->receive({index.data(), DType::uint8, {bytes}}, source);
    }
    size.wait();
    body.wait();
    return indexes;
}

void PartnerCopy::create_files(const std::string& directory,
                               const std::vector<std::string>& indexes) {
    for (size_t at = 0; at < indexes.size(); ++at) {
        for (const ckpt::DataFile& file : files_in(indexes[at])) {
            (void)io::BlockFile::create(directory + "/" + file.name, file.size);
        }
        io::write_file(directory + "/" + ckpt::index_name(sources_[at]), indexes[at],
                       io::Overwrite::no);
    }
}

void PartnerCopy::exchange_blocks(const std::string& directory, const std::string& own,
                                  const std::vector<std::string>& indexes) {
    const auto transfer = [&](int peer, const std::string& index, auto open) {
        Transfer made{.peer = peer};
        const std::vector<ckpt::DataFile> files = files_in(index);
        made.blocks = blocks_of(files, files_.node().rank(), n_lanes_);
        attempt([&] {
            for (const auto& file : files) made.open.push_back(open(directory + "/" + file.name));
        });
        return made;
    };
    const auto partner = static_cast<int>(ckpt::partner_of(files_.number(), files_.n_nodes()));
    Transfer out = transfer(partner, own, io::BlockFile::open_read);
    std::vector<Transfer> in;
    size_t n_rounds = out.blocks.size();
    for (size_t at = 0; at < sources_.size(); ++at) {
        in.push_back(transfer(sources_[at], indexes[at], io::BlockFile::open_write));
        n_rounds = std::max(n_rounds, in.back().blocks.size());
    }
    io::AlignedBlock sent;
    const io::AlignedBlock received;
    for (size_t round = 0; round < n_rounds; ++round) {
        comm::Work sending;
        const bool sends = round < out.blocks.size();
        if (sends) {
            const Block& block = out.blocks[round];
            std::span<std::byte> bytes = sent.first(block.n);
            attempt([&] { bytes = out.open[block.file].read(sent, block.begin, block.n); });
            sending = lane_->start_send(view_of(bytes), out.peer);
        }
        // The peer sends its next block only after this receipt. Without receipts, blocks could
        // arrive faster than they are written, and some backends would keep them all in memory.
        std::array<std::byte, 1> receipt{};
        std::vector<comm::Work> receipts;
        for (Transfer& from : in) {
            if (round >= from.blocks.size()) continue;
            const Block& block = from.blocks[round];
            const std::span<std::byte> bytes = received.first(block.n);
            lane_->receive(view_of(bytes), from.peer);
            attempt([&] { from.open[block.file].write(bytes, block.begin); });
            receipts.push_back(lane_->start_send(view_of(receipt), from.peer));
        }
        sending.wait();
        std::byte other{};
        if (sends) lane_->receive(view_of({&other, 1}), out.peer);
        for (comm::Work& work : receipts) work.wait();
    }
    attempt([&] {
        for (const Transfer& from : in) {
            for (const io::BlockFile& file : from.open) file.sync();
        }
    });
}

}  // namespace lm::train
