// SPDX-License-Identifier: Apache-2.0
#include "cpu/matmul.hpp"

#include <dlfcn.h>

#include <array>
#include <compare>
#include <dnnl.hpp>
#include <map>
#include <vector>

#include "spec/cpu_scratch.hpp"

namespace lm::cpu {
namespace {

// Measured on two Zen 3 cores (bench/RESULTS.md, CPU ops): from 256 x 384 on tiles are as fast as
// the whole product; the rest is a matter of having enough of them.
constexpr i64 tile_rows = 256;
constexpr i64 tile_cols = 384;
constexpr i64 granule = 16;

// Pieces of one size, a multiple of the granule, and a last one that may be smaller.
struct Cut {
    Cut(i64 total, i64 target)
        : size(std::min(round_up(ceil_div(total, ceil_div(total, target)), granule), total)),
          count(ceil_div(total, size)),
          last(total - (count - 1) * size) {}
    i64 size, count, last;
    i64 length(i64 piece) const { return piece == count - 1 ? last : size; }
};

struct TileShape {
    Form form;
    i64 rows, cols, depth, lda, ldb, ldc;
    bool accumulate;
    friend auto operator<=>(const TileShape&, const TileShape&) = default;
};

struct Strides {
    i64 lda, ldb;
};

Strides strides_of(const Product& p) {
    return {p.form == Form::xt_w ? p.rows : p.depth, p.form == Form::x_wt ? p.depth : p.cols};
}

using Arguments = std::array<dnnl_exec_arg_t, 4>;

struct WorkerMemory {
    dnnl::memory a, b, c, scratch;
    Arguments arguments;
};

struct Primitive {
    dnnl::matmul primitive;
    std::vector<WorkerMemory> memory;  // by worker
    bool own_scratch = false;          // ours from the workspace; else the library's
};

dnnl::memory::desc desc_of(i64 rows, i64 cols, i64 row_stride, i64 col_stride) {
    return {{rows, cols}, dnnl::memory::data_type::f32, dnnl::memory::dims{row_stride, col_stride}};
}

}  // namespace

struct MatmulCache::Impl {
    explicit Impl(int n_workers) : engine(dnnl::engine::kind::cpu, 0) {
        for (int i = 0; i < n_workers; ++i) streams.emplace_back(engine);
    }
    Primitive make(const TileShape& shape) const;
    const Primitive& find(const TileShape& shape);
    template <typename Visit>
    void for_shapes(const Product& product, const Visit& visit);

    dnnl::engine engine;
    std::vector<dnnl::stream> streams;
    std::map<TileShape, Primitive> primitives;
};

Primitive MatmulCache::Impl::make(const TileShape& t) const {
    const auto a = t.form == Form::xt_w ? desc_of(t.rows, t.depth, 1, t.lda)
                                        : desc_of(t.rows, t.depth, t.lda, 1);
    const auto b = t.form == Form::x_wt ? desc_of(t.depth, t.cols, 1, t.ldb)
                                        : desc_of(t.depth, t.cols, t.ldb, 1);
    const auto c = desc_of(t.rows, t.cols, t.ldc, 1);
    dnnl::post_ops post;
    if (t.accumulate) post.append_sum(1.0F);
    dnnl::primitive_attr attributes;
    attributes.set_post_ops(post);
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    using Description = dnnl::matmul::primitive_desc;
    Description description({a, b, c}, attributes, engine);
    Primitive result;
    result.own_scratch =
        static_cast<i64>(description.scratchpad_desc().get_size()) <= spec::matmul_scratch_bytes;
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

const Primitive& MatmulCache::Impl::find(const TileShape& shape) {
    const auto found = primitives.find(shape);
    if (found != primitives.end()) return found->second;
    return primitives.emplace(shape, make(shape)).first->second;
}

MatmulCache::MatmulCache(int n_workers) {
    use_one_library_thread();
    impl_ = std::make_unique<Impl>(n_workers);
}

MatmulCache::~MatmulCache() = default;

namespace {

// The tiles of a product: at most two lengths in each direction, so four primitives.
struct Tiling {
    explicit Tiling(const Product& p) : rows(p.rows, tile_rows), cols(p.cols, tile_cols) {}
    Cut rows, cols;
};

TileShape shape_of(const Product& p, i64 rows, i64 cols) {
    const Strides s = strides_of(p);
    return {p.form, rows, cols, p.depth, s.lda, s.ldb, p.cols, p.accumulate};
}

void execute(const Primitive& primitive, dnnl::stream& stream, int worker, const float* a,
             const float* b, float* c, float* scratch) {
    const WorkerMemory& memory = primitive.memory[static_cast<size_t>(worker)];
    memory.a.set_data_handle(const_cast<float*>(a));
    memory.b.set_data_handle(const_cast<float*>(b));
    memory.c.set_data_handle(c);
    if (primitive.own_scratch) memory.scratch.set_data_handle(scratch);
    const int n_arguments = primitive.own_scratch ? 4 : 3;
    const dnnl_status_t status = dnnl_primitive_execute(primitive.primitive.get(), stream.get(),
                                                        n_arguments, memory.arguments.data());
    if (status != dnnl_success) run_error("oneDNN", "matrix product failed (status {})", status);
}

}  // namespace

void MatmulCache::prepare(const Product& p) {
    use_one_library_thread();
    const Tiling tiling(p);
    for (const i64 rows : {tiling.rows.size, tiling.rows.last}) {
        for (const i64 cols : {tiling.cols.size, tiling.cols.last}) {
            impl_->find(shape_of(p, rows, cols));
        }
    }
}

void MatmulCache::run(device::Context& context, const Product& p, TileRef finish) {
    use_one_library_thread();
    const Tiling tiling(p);
    const Primitive* primitives[2][2];
    for (const int r : {0, 1}) {
        for (const int c : {0, 1}) {
            primitives[r][c] = &impl_->find(shape_of(p, r ? tiling.rows.last : tiling.rows.size,
                                                     c ? tiling.cols.last : tiling.cols.size));
        }
    }
    ThreadPool& pool = pool_of(context);
    Scratch scratch(context.workspace);
    constexpr i64 floats = spec::matmul_scratch_bytes / i64{sizeof(float)};
    float* const scratchpads = scratch.take<float>(pool.size() * floats);
    const Strides stride = strides_of(p);
    pool.run(tiling.rows.count * tiling.cols.count, [&](i64 task, int worker) {
        const i64 r = task % tiling.rows.count;  // neighbours share a piece of b
        const i64 c = task / tiling.rows.count;
        const i64 row = r * tiling.rows.size;
        const i64 col = c * tiling.cols.size;
        const float* const a = p.a + (p.form == Form::xt_w ? row : row * stride.lda);
        const float* const b = p.b + (p.form == Form::x_wt ? col * stride.ldb : col);
        execute(*primitives[r == tiling.rows.count - 1][c == tiling.cols.count - 1],
                impl_->streams[static_cast<size_t>(worker)], worker, a, b, p.c + row * p.cols + col,
                scratchpads + worker * floats);
        finish({row, row + tiling.rows.length(r), col, col + tiling.cols.length(c)});
    });
}

// Looked up at run time: which OpenMP runtime oneDNN was built with, if any, is its own business.
void use_one_library_thread() {
    static const auto set_threads =
        reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "omp_set_num_threads"));
    if (set_threads) set_threads(1);
}

}  // namespace lm::cpu
