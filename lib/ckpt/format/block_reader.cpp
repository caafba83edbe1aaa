// SPDX-License-Identifier: Apache-2.0
#include "ckpt/format/block_reader.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <optional>
#include <utility>

#include "base/hash.hpp"
#include "ckpt/format/damage.hpp"
#include "ckpt/format/elements.hpp"

namespace lm::ckpt {
namespace {

constexpr size_t max_open_files = 64;
constexpr size_t max_kept_blocks = 16;
constexpr i64 least_kept_bytes = i64{1} << 20;  // smaller blocks are read again instead of kept

}  // namespace

// Keeps at most 64 data files open, because a step of a large job has more files than a process may
// open.
struct BlockReader::OpenFiles {
    std::shared_ptr<const io::BlockFile> get(const std::string& path) {
        const std::lock_guard lock(mutex_);
        if (const auto found = files_.find(path); found != files_.end()) return found->second;
        if (files_.size() >= max_open_files) files_.clear();  // files in use stay open
        ++n_opened_;
        return files_[path] = std::make_shared<const io::BlockFile>(io::BlockFile::open_read(path));
    }
    i64 n_opened() const {
        const std::lock_guard lock(mutex_);
        return n_opened_;
    }

    mutable std::mutex mutex_;
    std::map<std::string, std::shared_ptr<const io::BlockFile>> files_;
    i64 n_opened_ = 0;
};

// Verified blocks of which loads have used only a part. They are kept, because the next load often
// needs another part.
struct BlockReader::KeptBlocks {
    struct Kept {
        std::shared_ptr<io::AlignedBlock> memory;
        std::span<const std::byte> bytes;
        i64 n_left = 0;  // elements that no load has used
        i64 time = 0;
    };
    using Key = std::pair<const Slice*, i64>;

    // If the block is kept, returns it and counts `n` of its elements as used. Otherwise returns
    // nullopt.
    std::optional<Kept> use(const Key& key, i64 n) {
        const std::lock_guard lock(mutex_);
        const auto found = blocks_.find(key);
        if (found == blocks_.end()) return std::nullopt;
        found->second.time = ++time_;
        found->second.n_left -= n;
        Kept kept = found->second;
        if (kept.n_left <= 0) blocks_.erase(found);
        return kept;
    }

    void keep(const Key& key, io::AlignedBlock memory, std::span<const std::byte> bytes,
              i64 n_left) {
        const std::lock_guard lock(mutex_);
        if (blocks_.size() >= max_kept_blocks) {
            blocks_.erase(std::ranges::min_element(
                blocks_, {}, [](const auto& item) { return item.second.time; }));
        }
        blocks_[key] = {std::make_shared<io::AlignedBlock>(std::move(memory)), bytes, n_left,
                        ++time_};
    }

    std::mutex mutex_;
    std::map<Key, Kept> blocks_;
    i64 time_ = 0;
};

i64 add_uses(std::vector<BlockUse>& uses, const std::vector<SliceIn>& slices,
             const LoadTarget& target, size_t at_target) {
    const Region wanted{target.box, target.flat_begin, target.flat_end};
    spec::Box common;
    i64 total = 0;
    for (const SliceIn& from : slices) {
        if (!intersect(from.slice->box, target.box, common)) continue;
        for (i64 block = 0; block < from.slice->n_blocks(); ++block) {
            BlockUse use{.from = from, .block = block, .target = at_target, .runs = {}};
            for_each_common_run(from.slice->region(block), wanted,
                                [&](i64 at_block, i64 at_target_element, i64 n) {
                                    use.runs.push_back({at_block, at_target_element, n});
                                    use.n += n;
                                });
            total += use.n;
            if (use.n > 0) uses.push_back(std::move(use));
        }
    }
    return total;
}

std::string describe(const Slice& slice, const Manifest& manifest) {
    return fmt::format("tensor {} ({})",
                       manifest.tensors.at(static_cast<size_t>(slice.tensor)).name,
                       name_of(slice.kind));
}

BlockReader::BlockReader(std::string path, const Manifest& manifest)
    : path_(std::move(path)),
      manifest_(manifest),
      files_(std::make_unique<OpenFiles>()),
      kept_(std::make_unique<KeptBlocks>()) {}

BlockReader::~BlockReader() = default;

// Each use writes different elements of the targets, so the threads need no lock.
void BlockReader::load(const std::vector<BlockUse>& uses, const std::vector<LoadTarget>& targets) {
    io::for_each_block(static_cast<i64>(uses.size()), io::blocks_in_flight,
                       [&](i64 at, io::AlignedBlock& block) {
                           const BlockUse& use = uses[static_cast<size_t>(at)];
                           load_block(use, targets[use.target], block);
                       });
}

void BlockReader::load_block(const BlockUse& use, const LoadTarget& target,
                             io::AlignedBlock& block) {
    const Slice& slice = *use.from.slice;
    const auto convert = [&](std::span<const std::byte> bytes) {
        for (const BlockUse::Run& run : use.runs) {
            convert_elements(
                bytes.data() + run.at_block * size_of(slice.dtype), slice.dtype,
                static_cast<std::byte*>(target.data) + run.at_target * size_of(target.dtype),
                target.dtype, run.n);
        }
    };
    const KeptBlocks::Key key{&slice, use.block};
    if (const auto found = kept_->use(key, use.n)) return convert(found->bytes);
    const std::span<const std::byte> bytes = read_verified(use, block);
    convert(bytes);
    const i64 n_left = static_cast<i64>(bytes.size()) / size_of(slice.dtype) - use.n;
    if (n_left == 0 || static_cast<i64>(bytes.size()) < least_kept_bytes) return;
    io::AlignedBlock fresh;
    std::swap(fresh, block);
    kept_->keep(key, std::move(fresh), bytes, n_left);
}

std::span<const std::byte> BlockReader::read_verified(const BlockUse& use,
                                                      io::AlignedBlock& block) {
    const auto& [file, slice] = use.from;
    const i64 begin = slice->block_begin(use.block);
    const auto bytes = files_->get(path_ + "/" + file->name)
                           ->read(block, begin, slice->block_end(use.block) - begin);
    if (hash128(bytes) == file->digest_of(*slice, use.block)) return bytes;
    damaged(path_ + "/" + file->name,
            "{}: checksum mismatch: corrupt (see lm-ckpt verify): use another step",
            describe(*slice, manifest_));
}

std::span<std::byte> BlockReader::read(const DataFile& file, i64 begin, i64 end,
                                       io::AlignedBlock& block) {
    return files_->get(path_ + "/" + file.name)->read(block, begin, end - begin);
}

i64 BlockReader::n_files_opened() const {
    return files_->n_opened();
}

}  // namespace lm::ckpt
