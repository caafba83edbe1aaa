// SPDX-License-Identifier: Apache-2.0
#include "cpu/matmul.hpp"

#include <dlfcn.h>

#include <array>
#include <compare>
#include <dnnl.hpp>
#include <map>
#include <string_view>
#include <vector>

#include "base/machine.hpp"
#include "cost/cpu_scratch.hpp"
#include "cpu/vector/vector_kernels.hpp"

namespace lm::cpu {
namespace {

// The sizes were measured on two Zen 3 cores (bench/RESULTS.md, CPU ops). Larger tiles gain little,
// and there would be too few of them for the threads to share.
constexpr i64 tile_rows = 288;
constexpr i64 tile_cols = max_tile_cols;
constexpr i64 row_granule = 6;
constexpr i64 col_granule = 16;
static_assert(product_scratch_floats(tile_cols) * 4 <= cost::matmul_scratch_bytes);
static_assert(tile_rows * tile_cols * 4 <= cost::matmul_tile_bytes);

// A dimension divided into `count` parts of `size`, a multiple of the granule; the last part may be
// smaller.
struct Cut {
    Cut(i64 total, i64 target, i64 granule)
        : size(std::min(round_up(ceil_div(total, ceil_div(total, target)), granule), total)),
          count(ceil_div(total, size)),
          last(total - (count - 1) * size) {}
    i64 size, count, last;
    i64 length(i64 part) const { return part == count - 1 ? last : size; }
};

// The key of a oneDNN primitive: the properties that determine it.
struct TileShape {
    GemmForm form;
    i64 m, n, k, lda, ldb, ldc;
    bool accumulate;
    DType type;
    friend auto operator<=>(const TileShape&, const TileShape&) = default;
};

struct Strides {
    i64 lda, ldb;
};

Strides strides_of(const Product& p) {
    return {p.form == GemmForm::tn ? p.m : p.k, p.form == GemmForm::nt ? p.k : p.n};
}

using Arguments = std::array<dnnl_exec_arg_t, 4>;

// A primitive's arguments for one worker. Their data handles are set before each execution.
struct WorkerMemory {
    dnnl::memory a, b, c, scratch;
    Arguments arguments;
};

struct Primitive {
    dnnl::matmul primitive;
    std::vector<WorkerMemory> memory;  // indexed by worker
    bool own_scratch = false;          // scratch memory is in the workspace; false: in the library
};

dnnl::memory::desc desc_of(DType type, i64 rows, i64 cols, i64 row_stride, i64 col_stride) {
    using Type = dnnl::memory::data_type;
    return {{rows, cols},
            type == DType::bf16 ? Type::bf16 : Type::f32,
            dnnl::memory::dims{row_stride, col_stride}};
}

}  // namespace

struct Matmul::Library {
    explicit Library(int n_workers) : engine(dnnl::engine::kind::cpu, 0) {
        for (int i = 0; i < n_workers; ++i) streams.emplace_back(engine);
    }
    Primitive make(const TileShape& shape) const;
    const Primitive& find(const TileShape& shape);

    dnnl::engine engine;
    std::vector<dnnl::stream> streams;
    std::map<TileShape, Primitive> primitives;
};

// Creates the primitive of a tile shape. Its scratch memory is in the workspace if that is large
// enough.
Primitive Matmul::Library::make(const TileShape& t) const {
    const auto a = t.form == GemmForm::tn ? desc_of(t.type, t.m, t.k, 1, t.lda)
                                          : desc_of(t.type, t.m, t.k, t.lda, 1);
    const auto b = t.form == GemmForm::nt ? desc_of(t.type, t.k, t.n, 1, t.ldb)
                                          : desc_of(t.type, t.k, t.n, t.ldb, 1);
    const auto c = desc_of(DType::fp32, t.m, t.n, t.ldc, 1);
    dnnl::post_ops post;
    if (t.accumulate) post.append_sum(1.0F);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(post);
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    using Description = dnnl::matmul::primitive_desc;
    Description description({a, b, c}, attributes, engine);
    Primitive result;
    result.own_scratch =
        static_cast<i64>(description.scratchpad_desc().get_size()) <= cost::matmul_scratch_bytes;
    if (!result.own_scratch) {
        attributes.set_scratchpad_mode(dnnl::scratchpad_mode::library);
        description = Description({a, b, c}, attributes, engine);
    }
    result.primitive = dnnl::matmul(description);
    for (size_t worker = 0; worker < streams.size(); ++worker) {
        WorkerMemory m{dnnl::memory(a, engine, nullptr),
                       dnnl::memory(b, engine, nullptr),
                       dnnl::memory(c, engine, nullptr),
                       dnnl::memory(description.scratchpad_desc(), engine, nullptr),
                       {}};
        m.arguments = {{{DNNL_ARG_SRC, m.a.get()},
                        {DNNL_ARG_WEIGHTS, m.b.get()},
                        {DNNL_ARG_DST, m.c.get()},
                        {DNNL_ARG_SCRATCHPAD, m.scratch.get()}}};
        result.memory.push_back(std::move(m));
    }
    return result;
}

const Primitive& Matmul::Library::find(const TileShape& shape) {
    const auto found = primitives.find(shape);
    if (found != primitives.end()) return found->second;
    return primitives.emplace(shape, make(shape)).first->second;
}

namespace {

// The tiles of a product. Tiles have at most two different lengths in each dimension, so at most
// four shapes.
struct Tiling {
    explicit Tiling(const Product& p)
        : rows(p.m, tile_rows, row_granule), cols(p.n, tile_cols, col_granule) {}
    i64 count() const { return rows.count * cols.count; }
    Tile tile(i64 task) const {
        const i64 r = task % rows.count;  // consecutive tasks use the same columns of b
        const i64 c = task / rows.count;
        return {.row_begin = r * rows.size,
                .row_end = r * rows.size + rows.length(r),
                .col_begin = c * cols.size,
                .col_end = c * cols.size + cols.length(c)};
    }
    Cut rows, cols;
};

TileShape shape_of(const Product& p, i64 m, i64 n) {
    const Strides s = strides_of(p);
    const i64 ldc = p.c ? p.n : n;
    return {p.form, m, n, p.k, s.lda, s.ldb, ldc, p.accumulate, p.type};
}

// Returns the product that computes one tile: the row block of a, the column block of b and the
// tile's memory. A transposed operand has its strides exchanged.
Operands operands_of(const Product& p, const Tile& t) {
    const Strides s = strides_of(p);
    const bool a_turned = p.form == GemmForm::tn;
    const bool b_turned = p.form == GemmForm::nt;
    const auto element = [&p](const void* base, i64 offset) {
        return static_cast<const std::byte*>(base) + offset * size_of(p.type);
    };
    return {.m = t.row_end - t.row_begin,
            .n = t.col_end - t.col_begin,
            .k = p.k,
            .a = element(p.a, a_turned ? t.row_begin : t.row_begin * s.lda),
            .a_row = a_turned ? 1 : s.lda,
            .a_col = a_turned ? s.lda : 1,
            .b = element(p.b, b_turned ? t.col_begin * s.ldb : t.col_begin),
            .b_row = b_turned ? 1 : s.ldb,
            .b_col = b_turned ? s.ldb : 1,
            .c = t.values,
            .ldc = t.stride,
            .accumulate = p.accumulate,
            .type = p.type};
}

// Uses the C API, because dnnl::matmul::execute() would allocate a vector of arguments for every
// tile.
void execute(const Primitive& primitive, dnnl::stream& stream, int worker, const Operands& p,
             float* scratch) {
    const WorkerMemory& memory = primitive.memory[static_cast<size_t>(worker)];
    memory.a.set_data_handle(const_cast<void*>(p.a));
    memory.b.set_data_handle(const_cast<void*>(p.b));
    memory.c.set_data_handle(p.c);
    if (primitive.own_scratch) memory.scratch.set_data_handle(scratch);
    const int n_arguments = primitive.own_scratch ? 4 : 3;
    const dnnl_status_t status = dnnl_primitive_execute(primitive.primitive.get(), stream.get(),
                                                        n_arguments, memory.arguments.data());
    if (status != dnnl_success) {
        run_error("oneDNN", "matrix product failed (status {})", static_cast<int>(status));
    }
}

}  // namespace

ProductCode best_product_code() {
#if defined(__SANITIZE_THREAD__)
    return ProductCode::packed;  // the sanitizer does not recognize oneDNN's locks
#endif
    const bool wide = std::string_view(vector_kernels().name) == "AVX-512";
    return wide ? ProductCode::one_dnn : ProductCode::packed;
}

bool is_fast_in_library(DType operands) {
#if defined(__x86_64__)
    static const bool fast_bf16 = may_use(Vectors::avx512) && __builtin_cpu_supports("avx512bf16");
    if (operands == DType::bf16) return fast_bf16;
#endif
    return operands == DType::fp32;
}

Matmul::Matmul(int n_workers, ProductCode code) {
    if (code == ProductCode::packed) return;
    use_one_library_thread();
    library_ = std::make_unique<Library>(n_workers);
}

Matmul::~Matmul() = default;

void Matmul::run(device::Context& context, const Product& p, TileRef finish) {
    const Tiling tiling(p);
    const bool library = library_ && is_fast_in_library(p.type);
    const Primitive* primitives[2][2] = {};
    if (library) {
        use_one_library_thread();
        for (const int r : {0, 1}) {
            for (const int c : {0, 1}) {
                primitives[r][c] =
                    &library_->find(shape_of(p, r ? tiling.rows.last : tiling.rows.size,
                                             c ? tiling.cols.last : tiling.cols.size));
            }
        }
    }
    ThreadPool& pool = pool_of(context);
    constexpr i64 packed = cost::matmul_scratch_bytes / i64{sizeof(float)};
    constexpr i64 floats = packed + cost::matmul_tile_bytes / i64{sizeof(float)};
    float* const scratch = arena_of(context.workspace).reserve<float>(pool.size() * floats);
    pool.run(tiling.count(), [&](i64 task, int worker) {
        Tile tile = tiling.tile(task);
        float* const own = scratch + worker * floats;
        tile.values = p.c ? p.c + tile.row_begin * p.n + tile.col_begin : own + packed;
        tile.stride = p.c ? p.n : tile.width();
        const Operands operands = operands_of(p, tile);
        if (library) {
            const bool last_rows = tile.row_end == p.m;
            const bool last_cols = tile.col_end == p.n;
            execute(*primitives[last_rows][last_cols],
                    library_->streams[static_cast<size_t>(worker)], worker, operands, own);
        } else {
            vector_kernels().product(operands, own);
        }
        finish(tile);
    });
}

// Finds omp_set_num_threads() by dlsym(), because the OpenMP runtime depends on how oneDNN was
// built.
void use_one_library_thread() {
    static const auto set_threads =
        reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    if (set_threads) set_threads(1);
}

}  // namespace lm::cpu
