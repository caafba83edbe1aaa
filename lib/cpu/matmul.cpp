// SPDX-License-Identifier: Apache-2.0
#include "cpu/matmul.hpp"

#include <string_view>

#include "cpu/library_product.hpp"
#include "cpu/product_tiles.hpp"
#include "cpu/vector/vector_kernels.hpp"

namespace lm::cpu {
namespace {

static_assert(max_tile_cols == cost::product_tile_cols);

// The number of words along k of a packed block. For one block, the inner kernel keeps its sums in
// registers, and then adds them to c. A strip of a and a strip of b fit into the L2 cache.
// single_depth determines the order of fp32 sums, so another value would change the bits of
// results.
constexpr i64 single_depth = 256;
constexpr i64 pair_depth = 384;
static_assert(cost::product_chunk_words % single_depth == 0);
static_assert(cost::product_chunk_words % pair_depth == 0);

// A range of the tiles in one dimension, or of k in words.
struct Range {
    i64 begin = 0, end = 0;
    i64 length() const { return end - begin; }
    friend bool operator==(const Range&, const Range&) = default;
};

// Calls body(range) for consecutive ranges of [0, n) of at most `step`.
template <typename Body>
void for_ranges(i64 n, i64 step, const Body& body) {
    for (i64 begin = 0; begin < n; begin += step) body(Range{begin, std::min(begin + step, n)});
}

// One operand of a product. Its part of a chunk is packed as [tile][block of k][strip]. A tile here
// is a range of rows of a or of columns of b.
class PackedOperand {
  public:
    using Pack = void (*)(const Unpacked&, float*);
    PackedOperand(const void* x, i64 k_step, i64 i_step, const TileCut& cut, i64 strip,
                  Pack pack_block)
        : x_(x), k_step_(k_step), i_step_(i_step), cut_(cut), strip_(strip), pack_(pack_block) {}
    i64 floats(i64 tiles, i64 words) const { return tiles * words * round_up(cut_.size, strip_); }
    void set_memory(float* memory) { memory_ = memory; }
    // Stores the ranges of tiles and words to pack. Returns whether they differ from the packed
    // ranges.
    bool begin(Range tiles, Range words) {
        const bool differs = tiles != tiles_ || words != words_;
        tiles_ = tiles;
        words_ = words;
        return differs;
    }
    // Returns the block of a tile that begins at `word`.
    float* block(i64 tile, i64 word) const {
        const i64 padded = round_up(cut_.length(tile), strip_);
        return memory_ + floats(tile - tiles_.begin, words_.length()) +
               (word - words_.begin) * padded;
    }
    // Packs the block of a tile with elements [k, k + depth), whose first word is `word`.
    void pack(i64 tile, i64 word, i64 k, i64 depth, DType type) const {
        const i64 offset = tile * cut_.size * i_step_ + k * k_step_;
        pack_({.x = element_at(x_, offset, type),
               .k_step = k_step_,
               .i_step = i_step_,
               .n = cut_.length(tile),
               .depth = depth,
               .type = type},
              block(tile, word));
    }
    i64 tiles() const { return tiles_.length(); }
    Range tile_range() const { return tiles_; }

  private:
    const void* x_;
    i64 k_step_, i_step_;
    TileCut cut_;
    i64 strip_;
    Pack pack_;
    float* memory_ = nullptr;
    Range tiles_, words_;
};

// A product by the packed kernels of this processor.
class PackedRun {
  public:
    PackedRun(device::Context& context, const Product& product);
    void run(TileRef finish);

  private:
    void pack(Range words);
    void multiply(Range words, TileRef finish);
    Tile tile_of(i64 task, int worker) const;
    // Calls body(first word, words) for the blocks of k in `words`.
    template <typename Body>
    void for_blocks(Range words, const Body& body) const {
        for (i64 w = words.begin; w < words.end; w += depth_) {
            body(w, std::min(depth_, words.end - w));
        }
    }

    const Product& p_;
    const PackedKernels& kernels_;
    ThreadPool& pool_;
    Tiling tiling_;
    i64 per_word_;  // elements along k in a word
    i64 depth_;     // words of a block
    i64 words_;     // all words along k
    cost::ProductChunk chunk_;
    PackedOperand a_, b_;
    float* tiles_ = nullptr;  // [tiles of a chunk] fp32; nullptr with p.c
    bool packs_a_ = false, packs_b_ = false;
};

PackedRun::PackedRun(device::Context& context, const Product& p)
    : p_(p),
      kernels_(packed_kernels(p.type)),
      pool_(pool_of(context)),
      tiling_(p, kernels_.rows),
      per_word_(kernels_.pairs(p.type) ? 2 : 1),
      depth_(per_word_ == 2 ? pair_depth : single_depth),
      words_(kernels_.words(p.k, p.type)),
      chunk_(pool_.size(), tiling_.rows.count, tiling_.cols.count),
      a_(p.a, Strides(p).a_col, Strides(p).a_row, tiling_.rows, kernels_.rows, kernels_.pack_a),
      b_(p.b, Strides(p).b_row, Strides(p).b_col, tiling_.cols, kernels_.cols, kernels_.pack_b) {
    device::WorkspaceArena arena = arena_of(context.workspace);
    const i64 words = std::min(words_, cost::product_chunk_words);
    a_.set_memory(arena.reserve<float>(a_.floats(chunk_.rows, words)));
    b_.set_memory(arena.reserve<float>(b_.floats(chunk_.cols, words)));
    if (p.c) return;
    tiles_ = arena.reserve<float>(chunk_.rows * chunk_.cols * cost::product_tile_floats);
}

void PackedRun::run(TileRef finish) {
    for_ranges(tiling_.cols.count, chunk_.cols, [&](Range cols) {
        for_ranges(tiling_.rows.count, chunk_.rows, [&](Range rows) {
            for_ranges(words_, cost::product_chunk_words, [&](Range words) {
                packs_a_ = a_.begin(rows, words);
                packs_b_ = b_.begin(cols, words);
                pack(words);
                multiply(words, finish);
            });
        });
    });
}

// Packs the chunk, except an operand that is packed already. A task packs one block of one tile.
void PackedRun::pack(Range words) {
    const i64 blocks = ceil_div(words.length(), depth_);
    const i64 tasks_a = packs_a_ ? a_.tiles() * blocks : 0;
    const i64 tasks_b = packs_b_ ? b_.tiles() * blocks : 0;
    pool_.run(tasks_a + tasks_b, [&](i64 task, int) {
        const PackedOperand& operand = task < tasks_a ? a_ : b_;
        const i64 part = task < tasks_a ? task : task - tasks_a;
        const i64 word = words.begin + part % blocks * depth_;
        const i64 k = word * per_word_;
        const i64 depth = std::min(depth_ * per_word_, p_.k - k);
        operand.pack(operand.tile_range().begin + part / blocks, word, k, depth, p_.type);
    });
}

// Returns the tile of a task of the current chunk. Consecutive tasks use the same columns of b.
Tile PackedRun::tile_of(i64 task, int worker) const {
    const Range rows = a_.tile_range();
    Tile tile = tiling_.tile(rows.begin + task % rows.length(),
                             b_.tile_range().begin + task / rows.length());
    // If one chunk covers all of k, each worker has memory for one tile and reuses it. Otherwise
    // each tile has its own memory, because the next chunk along k adds to it.
    const i64 place = words_ <= cost::product_chunk_words ? worker : task;
    tile.values = p_.c ? p_.c + tile.row_begin * p_.n + tile.col_begin
                       : tiles_ + place * cost::product_tile_floats;
    tile.stride = p_.c ? p_.n : tile.width();
    return tile;
}

void PackedRun::multiply(Range words, TileRef finish) {
    pool_.run(a_.tiles() * b_.tiles(), [&](i64 task, int worker) {
        const Tile tile = tile_of(task, worker);
        const i64 row = tile.row_begin / tiling_.rows.size;
        const i64 col = tile.col_begin / tiling_.cols.size;
        for_blocks(words, [&](i64 word, i64 length) {
            kernels_.product({.m = tile.row_end - tile.row_begin,
                              .n = tile.width(),
                              .words = length,
                              .a = a_.block(row, word),
                              .b = b_.block(col, word),
                              .c = tile.values,
                              .ldc = tile.stride,
                              .accumulate = p_.accumulate || word > 0,
                              .type = p_.type});
        });
        if (words.end == words_) finish(tile);
    });
}

// Returns whether oneDNN is at least as fast as the packed kernels, which is true only for fp32
// with AVX-512.
bool is_fast_in_library(DType operands) {
    return operands == DType::fp32 &&
           std::string_view(vector_kernels().name).substr(0, 7) == "AVX-512";
}

}  // namespace

Matmul::Matmul(int n_workers, ProductCode code) {
#if defined(__SANITIZE_THREAD__)
    code = ProductCode::packed;  // the sanitizer does not recognize oneDNN's locks
#endif
    for (const DType type : {DType::fp32, DType::bf16}) {
        const bool fast = code == ProductCode::best && is_fast_in_library(type);
        (type == DType::fp32 ? library_fp32_ : library_bf16_) =
            code == ProductCode::library || fast;
    }
    if (library_fp32_ || library_bf16_) library_ = std::make_unique<LibraryProduct>(n_workers);
}

Matmul::~Matmul() = default;

void Matmul::run(device::Context& context, const Product& p, TileRef finish) {
    const bool library =
        (library_fp32_ && p.type == DType::fp32) || (library_bf16_ && p.type == DType::bf16);
    if (library) return library_->run(context, p, finish);
    PackedRun(context, p).run(finish);
}

}  // namespace lm::cpu
