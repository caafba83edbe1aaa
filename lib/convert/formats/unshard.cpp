// SPDX-License-Identifier: Apache-2.0
#include "convert/formats/unshard.hpp"

#include <algorithm>
#include <cctype>

#include "base/error.hpp"
#include "ckpt/format/geometry.hpp"
#include "ckpt/format/index.hpp"
#include "ckpt/format/model_json.hpp"
#include "ckpt/format/safetensors.hpp"
#include "convert/conversion.hpp"
#include "convert/hf/files.hpp"
#include "io/atomic.hpp"
#include "io/checked.hpp"
#include "io/json.hpp"
#include "io/ordered_blocks.hpp"
#include "io/output_place.hpp"
#include "io/path.hpp"

namespace lm::convert {
namespace {

constexpr std::string_view ending = ".safetensors";
constexpr std::string_view index_ending = ".safetensors.index.json";

// Returns whether `name` has the form STEM-00001-of-00002.safetensors.
bool is_shard_of(std::string_view name, std::string_view stem) {
    if (!name.starts_with(stem) || !name.ends_with(ending)) return false;
    name.remove_prefix(stem.size());
    name.remove_suffix(ending.size());
    std::string pattern(name);
    std::ranges::replace_if(
        pattern, [](unsigned char c) { return std::isdigit(c) != 0; }, '0');
    return pattern == "-00000-of-00000";
}

class Unsharder {
  public:
    Unsharder(const ckpt::TensorSource& source, const UnshardRequest& request)
        : source_(source), request_(request), directory_(io::parent_of(request.out)) {
        const size_t slash = request.out.rfind('/');
        if (slash != request.out.npos) before_ = request.out.substr(0, slash + 1);
        stem_ = request.out.substr(before_.size());
        if (!stem_.ends_with(ending) || stem_.size() == ending.size()) {
            usage_error(request.out, "the name must end with {}", ending);
        }
        stem_.resize(stem_.size() - ending.size());
        const DType stored = source.tensors().at(0).dtype;
        dtype_ = request.dtype.value_or(stored);
        // If the requested type is the stored type, uses the stored weights. Otherwise converts the
        // masters, which are more exact.
        kind_ = dtype_ == stored ? ckpt::SliceKind::weight : ckpt::SliceKind::master;
    }

    UnshardReport run() {
        io::require_parent(request_.out);
        refuse_existing();
        std::vector<SizedName> sizes;
        for (const ckpt::TensorInfo& tensor : source_.tensors()) {
            sizes.push_back({tensor.name, tensor.shape.numel() * size_of(dtype_)});
            report_.n_bytes += sizes.back().bytes;
            ++report_.n_tensors;
        }
        const auto shards = plan_shards(sizes, request_.max_shard_bytes);
        const auto n_shards = static_cast<i64>(shards.size());
        std::vector<ckpt::SafetensorsWriter> writers;
        for (i64 shard = 0; shard < n_shards; ++shard) {
            report_.files.push_back(in(shard_name(shard, n_shards, stem_)));
            writers.push_back(write(report_.files.back(), shards[static_cast<size_t>(shard)]));
        }
        for (ckpt::SafetensorsWriter& writer : writers) writer.commit();
        if (n_shards > 1) {
            report_.files.push_back(in(stem_ + std::string(index_ending)));
            io::write_file(report_.files.back(), index_json(shards, report_.n_bytes, stem_),
                           overwrite());
        }
        if (request_.force) remove_earlier();
        return report_;
    }

  private:
    std::string in(const std::string& name) const { return before_ + name; }

    io::Overwrite overwrite() const {
        return request_.force ? io::Overwrite::yes : io::Overwrite::no;
    }

    // Throws when an earlier output exists, as one file or as shards with an index.
    void refuse_existing() const {
        const std::string index = in(stem_ + std::string(index_ending));
        for (const std::string& path : {request_.out, index}) {
            if (io::is_directory(path)) usage_error(path, "is a directory: choose another name");
            if (request_.force || !io::exists(path)) continue;
            usage_error(path, "exists already: use --force to replace it");
        }
    }

    // Removes the files of an earlier output that this output does not have, because a reader could
    // load old shards.
    void remove_earlier() const {
        for (const std::string& name : io::list_directory(directory_)) {
            const bool ours = name == stem_ + std::string(ending) ||
                              name == stem_ + std::string(index_ending) || is_shard_of(name, stem_);
            if (ours && std::ranges::find(report_.files, in(name)) == report_.files.end()) {
                io::checked::unlink(in(name));
            }
        }
    }

    // Writes one file and makes it durable under its temporary name. All shards get their final
    // names together at the end.
    ckpt::SafetensorsWriter write(const std::string& path, const std::vector<std::string>& names) {
        const ckpt::Metadata metadata{{"format", "pt"},
                                      {"iteration", std::to_string(source_.iteration())},
                                      {"model", ckpt::to_json(source_.model()).dump()}};
        std::vector<ckpt::SafetensorsEntry> entries;
        for (const std::string& name : names) {
            const auto dims = source_.find(name)->shape.dims();
            entries.push_back({name, std::string(ckpt::safetensors_name(dtype_)),
                               std::vector<i64>(dims.begin(), dims.end()), 0, 0});
        }
        auto writer =
            ckpt::SafetensorsWriter::create(path, std::move(entries), metadata, overwrite());
        append_all(writer);
        writer.sync();
        return writer;
    }

    // Elements [begin, end) of a tensor.
    struct Chunk {
        const std::string* tensor;
        spec::Box box;
        i64 begin;
        i64 end;
        i64 n_bytes;
    };

    // Divides the tensors of a file into chunks of at most one stored block.
    std::vector<Chunk> chunks_of(const ckpt::SafetensorsWriter& writer) const {
        const DType stored = source_.tensors().at(0).dtype;
        const i64 most = io::block_bytes / std::max(size_of(dtype_), size_of(stored));
        std::vector<Chunk> chunks;
        for (const ckpt::SafetensorsEntry& entry : writer.entries()) {
            const ckpt::Region all = ckpt::whole(source_.find(entry.name)->shape);
            for (i64 begin = 0; begin < all.flat_end; begin += most) {
                const i64 end = std::min(begin + most, all.flat_end);
                chunks.push_back(
                    {&entry.name, all.box, begin, end, (end - begin) * size_of(dtype_)});
            }
        }
        return chunks;
    }

    // Reads several chunks at once, while earlier ones are written.
    void append_all(ckpt::SafetensorsWriter& writer) {
        const std::vector<Chunk> chunks = chunks_of(writer);
        const auto read = [&](i64 at, io::AlignedBlock& block) {
            const Chunk& chunk = chunks[static_cast<size_t>(at)];
            const std::span<std::byte> bytes = block.first(chunk.n_bytes);
            source_.load(*chunk.tensor, kind_,
                         {.box = chunk.box,
                          .flat_begin = chunk.begin,
                          .flat_end = chunk.end,
                          .dtype = dtype_,
                          .data = bytes.data()});
            check_converted(source_.path(), *chunk.tensor, kind_, dtype_, bytes);
        };
        const auto append = [&](i64 at, io::AlignedBlock& block) {
            writer.append(block.first(chunks[static_cast<size_t>(at)].n_bytes));
            n_written_ += chunks[static_cast<size_t>(at)].n_bytes;
            if (request_.progress) request_.progress(n_written_, report_.n_bytes);
        };
        io::for_each_block_in_order(std::ssize(chunks), io::blocks_in_flight, read, append);
    }

    const ckpt::TensorSource& source_;
    const UnshardRequest& request_;
    std::string directory_;
    std::string before_;  // directory part of OUT, with the slash
    std::string stem_;
    DType dtype_ = DType::fp32;
    ckpt::SliceKind kind_ = ckpt::SliceKind::weight;
    i64 n_written_ = 0;
    UnshardReport report_;
};

}  // namespace

UnshardReport unshard(const ckpt::TensorSource& source, const UnshardRequest& request) {
    return Unsharder(source, request).run();
}

}  // namespace lm::convert
