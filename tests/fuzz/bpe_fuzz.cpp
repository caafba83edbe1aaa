// SPDX-License-Identifier: Apache-2.0
// libFuzzer: a piece under merges made of the first bytes of the input. The fast encoder gives what
// the plain algorithm gives: the adjacent pair of lowest rank, leftmost first, until none is left.
// So does the encoder of many short pieces at once, given all parts of the piece.
#include <array>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "text/bpe.hpp"
#include "text/short_merger.hpp"
#include "text/vector_merger.hpp"

namespace {

using lm::i32;
using lm::u32;
using lm::text::BpeModel;
using lm::text::Merge;

// Two bytes of the input name the parts of a merge among the tokens so far.
BpeModel make_model(const std::uint8_t* data, std::size_t n_merges) {
    std::vector<std::string> tokens;
    std::array<i32, 256> byte_ids{};
    for (int byte = 0; byte < 256; ++byte) {
        byte_ids[static_cast<std::size_t>(byte)] = byte;
        tokens.emplace_back(1, static_cast<char>(byte));
    }
    std::vector<Merge> merges;
    for (std::size_t i = 0; i < n_merges; ++i) {
        // Bytes of a small alphabet, and what was merged before.
        const auto part = [&](std::uint8_t c) {
            return c % 2 == 0 || merges.empty() ? 'a' + c / 2 % 4
                                                : merges[c / 2 % merges.size()].result;
        };
        const i32 left = part(data[2 * i]);
        const i32 right = part(data[2 * i + 1]);
        const std::string token =
            tokens[static_cast<std::size_t>(left)] + tokens[static_cast<std::size_t>(right)];
        bool known = token.size() > 64;
        for (const Merge& m : merges) known |= m.left == left && m.right == right;
        if (known) continue;
        merges.push_back({left, right, static_cast<i32>(tokens.size())});
        tokens.push_back(token);
    }
    return {std::move(tokens), byte_ids, std::move(merges)};
}

std::vector<i32> slow_encode(const BpeModel& model, std::string_view piece) {
    std::vector<i32> ids;
    for (const char c : piece) ids.push_back(model.byte_id(static_cast<lm::u8>(c)));
    for (;;) {
        u32 best = BpeModel::no_rank;
        std::size_t at = 0;
        for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
            const u32 rank = model.rank(ids[i], ids[i + 1]);
            if (rank < best) best = rank, at = i;
        }
        if (best == BpeModel::no_rank) return ids;
        ids[at] = model.result(best);
        ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const std::size_t n_merges = std::min<std::size_t>(data[0] % 48, (size - 1) / 2);
    const BpeModel model = make_model(data + 1, n_merges);
    std::string piece;
    for (std::size_t i = 1 + 2 * n_merges; i < size && piece.size() < 600; ++i)
        piece += data[i] < 0xF0 ? static_cast<char>('a' + data[i] % 4) : static_cast<char>(data[i]);
    lm::text::PieceEncoder encoder(model);
    const auto fast = encoder.encode(piece);
    if (std::vector<i32>(fast.begin(), fast.end()) != slow_encode(model, piece)) std::abort();
    std::vector<lm::text::PieceKey> parts;
    for (std::size_t at = 0; at < piece.size(); at += 1 + at % lm::text::PieceKey::longest)
        parts.push_back(lm::text::PieceKey::of(
            std::string_view(piece).substr(at, 1 + at % lm::text::PieceKey::longest)));
    lm::text::ShortMerger merger(model);
    merger.merge(parts, [&](std::size_t i, std::span<const i32> ids) {
        if (std::vector<i32>(ids.begin(), ids.end()) != slow_encode(model, parts[i].text()))
            std::abort();
    });
    if (!lm::text::VectorMerger::is_for(model)) return 0;
    std::vector<lm::text::ShortIds> merged(parts.size());
    lm::text::VectorMerger(model).merge(parts, merged.data());
    for (std::size_t i = 0; i < parts.size(); ++i) {
        const auto* ids = merged[i].ids;
        if (std::vector<i32>(ids, ids + merged[i].count) != slow_encode(model, parts[i].text()))
            std::abort();
    }
    return 0;
}
