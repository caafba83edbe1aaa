// SPDX-License-Identifier: Apache-2.0
#include "cpu/library_product.hpp"

#include <dlfcn.h>

#include <array>
#include <compare>
#include <dnnl.hpp>
#include <map>
#include <vector>

namespace lm::cpu {
namespace {

// The key of a oneDNN primitive: the properties that determine the primitive.
struct TileShape {
    GemmForm form;
    i64 m, n, k, lda, ldb, ldc;
    bool accumulate;
    DType type;
    friend auto operator<=>(const TileShape&, const TileShape&) = default;
};

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

struct LibraryProduct::Primitives {
    explicit Primitives(int n_workers) : engine(dnnl::engine::kind::cpu, 0) {
        for (int i = 0; i < n_workers; ++i) streams.emplace_back(engine);
    }
    Primitive make(const TileShape& shape) const;
    const Primitive& find(const TileShape& shape);

    dnnl::engine engine;
    std::vector<dnnl::stream> streams;
    std::map<TileShape, Primitive> made;
};

// Creates the primitive of a tile shape. The scratch memory of the primitive is in the workspace if
// it needs at most cost::library_scratch_bytes.
Primitive LibraryProduct::Primitives::make(const TileShape& t) const {
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
        static_cast<i64>(description.scratchpad_desc().get_size()) <= cost::library_scratch_bytes;
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

const Primitive& LibraryProduct::Primitives::find(const TileShape& shape) {
    const auto found = made.find(shape);
    if (found != made.end()) return found->second;
    return made.emplace(shape, make(shape)).first->second;
}

namespace {

TileShape shape_of(const Product& p, i64 m, i64 n) {
    const i64 lda = p.form == GemmForm::tn ? p.m : p.k;
    const i64 ldb = p.form == GemmForm::nt ? p.k : p.n;
    return {p.form, m, n, p.k, lda, ldb, p.c ? p.n : n, p.accumulate, p.type};
}

// Uses the C API, because dnnl::matmul::execute() would allocate a vector of arguments for every
// tile.
void execute(const Primitive& primitive, dnnl::stream& stream, int worker, const void* a,
             const void* b, float* c, float* scratch) {
    const WorkerMemory& memory = primitive.memory[static_cast<size_t>(worker)];
    memory.a.set_data_handle(const_cast<void*>(a));
    memory.b.set_data_handle(const_cast<void*>(b));
    memory.c.set_data_handle(c);
    if (primitive.own_scratch) memory.scratch.set_data_handle(scratch);
    const int n_arguments = primitive.own_scratch ? 4 : 3;
    const dnnl_status_t status = dnnl_primitive_execute(primitive.primitive.get(), stream.get(),
                                                        n_arguments, memory.arguments.data());
    if (status != dnnl_success) {
        run_error("oneDNN", "matrix product failed (status {})", static_cast<int>(status));
    }
}

}  // namespace

LibraryProduct::LibraryProduct(int n_workers) {
    use_one_library_thread();
    primitives_ = std::make_unique<Primitives>(n_workers);
}

LibraryProduct::~LibraryProduct() = default;

void LibraryProduct::run(device::Context& context, const Product& p, TileRef finish) {
    const Tiling tiling(p);
    const Strides strides(p);
    use_one_library_thread();
    const Primitive* made[2][2] = {};  // [is last row of tiles][is last column of tiles]
    for (const int r : {0, 1}) {
        for (const int c : {0, 1}) {
            made[r][c] = &primitives_->find(shape_of(p, r ? tiling.rows.last : tiling.rows.size,
                                                     c ? tiling.cols.last : tiling.cols.size));
        }
    }
    ThreadPool& pool = pool_of(context);
    constexpr i64 floats = cost::library_product_floats;
    constexpr i64 own_floats = cost::library_scratch_bytes / i64{sizeof(float)};
    float* const scratch = arena_of(context.workspace).reserve<float>(pool.size() * floats);
    pool.run(tiling.rows.count * tiling.cols.count, [&](i64 task, int worker) {
        // Consecutive tasks use the same columns of b.
        Tile tile = tiling.tile(task % tiling.rows.count, task / tiling.rows.count);
        float* const own = scratch + worker * floats;
        tile.values = p.c ? p.c + tile.row_begin * p.n + tile.col_begin : own + own_floats;
        tile.stride = p.c ? p.n : tile.width();
        execute(*made[tile.row_end == p.m][tile.col_end == p.n],
                primitives_->streams[static_cast<size_t>(worker)], worker,
                element_at(p.a, tile.row_begin * strides.a_row, p.type),
                element_at(p.b, tile.col_begin * strides.b_col, p.type), tile.values, own);
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
