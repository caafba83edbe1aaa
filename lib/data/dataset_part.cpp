// SPDX-License-Identifier: Apache-2.0
#include "data/dataset_part.hpp"

#include <algorithm>
#include <numeric>

#include "base/error.hpp"

namespace lm::data {
namespace {

constexpr i64 block_entries = i64{1} << 18;

bool is_one(i32 n) {
    return n == 1;
}

using SizeAndDigest = std::pair<i64, std::string>;

// How many of the leading `wanted` the file agrees with; their sizes ascend.
size_t count_matching(io::AppendFile& file, std::span<const SizeAndDigest> wanted) {
    BlockDigester digester;
    i64 at = 0;
    size_t n = 0;
    const auto compare = [&] {
        while (n < wanted.size() && wanted[n].first == at &&
               wanted[n].second == digester.finish()) {
            ++n;
        }
    };
    compare();
    if (wanted.empty()) return n;
    file.for_each_block(std::min(wanted.back().first, file.size()),
                        [&](std::span<const std::byte> block) {
                            while (n < wanted.size() && wanted[n].first > at && !block.empty()) {
                                const auto size = static_cast<size_t>(
                                    std::min(static_cast<i64>(block.size()), wanted[n].first - at));
                                digester.update(block.first(size));
                                at += static_cast<i64>(size);
                                block = block.subspan(size);
                                compare();
                            }
                        });
    return n;
}

void append(io::AppendFile& file, BlockDigester& digester, std::span<const std::byte> bytes) {
    file.write(bytes);
    digester.update(bytes);
}

}  // namespace

io::OrderedJson PartState::to_json() const {
    io::OrderedJson j;
    j["bytes"] = bytes;
    j["sequences"] = sequences;
    j["documents"] = documents;
    j["largest_id"] = largest_id;
    j["counted"] = counted;
    j["bin_digest"] = bin_digest;
    j["lengths_digest"] = lengths_digest;
    j["documents_digest"] = documents_digest;
    return j;
}

PartState PartState::parse(const io::Json& object, const std::string& path) {
    PartState s;
    s.bytes = io::json_get<i64>(object, "bytes", path);
    s.sequences = io::json_get<i64>(object, "sequences", path);
    s.documents = io::json_get<i64>(object, "documents", path);
    s.largest_id = io::json_get<i64>(object, "largest_id", path);
    s.counted = io::json_get<bool>(object, "counted", path);
    s.bin_digest = io::json_get<std::string>(object, "bin_digest", path);
    s.lengths_digest = io::json_get<std::string>(object, "lengths_digest", path);
    s.documents_digest = io::json_get<std::string>(object, "documents_digest", path);
    return s;
}

DatasetPart::DatasetPart(const std::string& stem, TokenType type, io::ReadAgain read_again)
    : type_(type),
      bin_(bin_of(stem), read_again),
      lengths_(lengths_of(stem)),
      documents_(documents_of(stem)) {}

size_t DatasetPart::count_intact(std::span<const PartState> states) {
    std::vector<std::pair<i64, std::string>> bin, lengths, documents;
    for (const PartState& s : states) {
        bin.emplace_back(s.bytes, s.bin_digest);
        lengths.emplace_back(4 * s.sequences, s.lengths_digest);
        documents.emplace_back(s.counted ? 4 * s.documents : 0, s.documents_digest);
    }
    return std::min({count_matching(bin_, bin), count_matching(lengths_, lengths),
                     count_matching(documents_, documents)});
}

void DatasetPart::resume(const PartState& state) {
    state_ = state;
    bin_.truncate(state.bytes);
    lengths_.truncate(4 * state.sequences);
    documents_.truncate(state.counted ? 4 * state.documents : 0);
    const auto digest_all = [](io::AppendFile& file, BlockDigester& digester) {
        digester = BlockDigester();
        file.for_each_block(file.size(), [&](auto block) { digester.update(block); });
    };
    digest_all(bin_, bin_digest_);
    digest_all(lengths_, lengths_digest_);
    digest_all(documents_, documents_digest_);
}

void DatasetPart::add_tokens(std::span<const std::byte> tokens, i64 largest) {
    append(bin_, bin_digest_, tokens);
    const auto n_bytes = static_cast<i64>(tokens.size());
    state_.bytes += n_bytes;
    ahead_ += n_bytes;
    state_.largest_id = std::max(state_.largest_id, largest);
}

void DatasetPart::add(std::span<const std::byte> tokens, std::span<const i32> lengths,
                      std::span<const i32> sequences_per_document, i64 largest) {
    add_tokens(tokens, largest);
    const i64 sum = std::accumulate(lengths.begin(), lengths.end(), i64{0});
    LM_CHECK(sum * size_of(type_) == ahead_, "lengths do not add up");
    ahead_ = 0;
    if (!state_.counted && !std::ranges::all_of(sequences_per_document, is_one)) {
        state_.counted = true;
        const std::vector<i32> ones(static_cast<size_t>(block_entries), 1);
        for (i64 begin = 0; begin < state_.documents; begin += block_entries) {
            const i64 n = std::min(block_entries, state_.documents - begin);
            append(documents_, documents_digest_,
                   std::as_bytes(std::span(ones).first(static_cast<size_t>(n))));
        }
    }
    append(lengths_, lengths_digest_, std::as_bytes(lengths));
    if (state_.counted)
        append(documents_, documents_digest_, std::as_bytes(sequences_per_document));
    state_.sequences += static_cast<i64>(lengths.size());
    state_.documents += static_cast<i64>(sequences_per_document.size());
}

PartState DatasetPart::state() {
    LM_CHECK(ahead_ == 0, "a document is not complete");
    bin_.flush();
    lengths_.flush();
    documents_.flush();
    state_.bin_digest = bin_digest_.finish();
    state_.lengths_digest = lengths_digest_.finish();
    state_.documents_digest = documents_digest_.finish();
    return state_;
}

void DatasetPart::sync() {
    bin_.sync();
    lengths_.sync();
    documents_.sync();
}

}  // namespace lm::data
