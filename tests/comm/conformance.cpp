// SPDX-License-Identifier: Apache-2.0
#include "conformance.hpp"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <stdexcept>

#include "base/error.hpp"
#include "base/rng.hpp"
#include "comm/on_device.hpp"

namespace lm::test {
namespace {

using comm::Group;
using comm::Reduction;
using comm::Work;
using device::View;

template <typename T>
View view_of(std::vector<T>& values, DType dtype = device::DTypeOf<T>::value) {
    return {values.data(), dtype, {static_cast<i64>(values.size())}};
}

// get() and set() convert elements of any type to double and back, so that one body tests all
// types.
double get(const View& x, i64 i) {
    const auto* bytes = static_cast<const std::byte*>(x.data) + i * size_of(x.dtype);
    const auto load = [&]<typename T>(T value) {
        std::memcpy(&value, bytes, sizeof value);
        return value;
    };
    switch (x.dtype) {
        case DType::fp32:
            return load(float{});
        case DType::fp64:
            return load(double{});
        case DType::int32:
            return load(i32{});
        case DType::int64:
            return static_cast<double>(load(i64{}));
        case DType::bf16:
            return fp32_from_bf16(load(u16{}));
        case DType::fp16:
            return fp32_from_fp16(load(u16{}));
        case DType::uint8:
            return load(u8{});
        case DType::uint16:
            return load(u16{});
    }
    return 0;
}

void set(const View& x, i64 i, double value) {
    auto* bytes = static_cast<std::byte*>(x.data) + i * size_of(x.dtype);
    const auto store = [&](auto typed) { std::memcpy(bytes, &typed, sizeof typed); };
    switch (x.dtype) {
        case DType::fp32:
            return store(static_cast<float>(value));
        case DType::fp64:
            return store(value);
        case DType::int32:
            return store(static_cast<i32>(value));
        case DType::int64:
            return store(static_cast<i64>(value));
        case DType::bf16:
            return store(bf16_from_fp32(static_cast<float>(value)));
        case DType::fp16:
            return store(fp16_from_fp32(static_cast<float>(value)));
        case DType::uint8:
            return store(static_cast<u8>(value));
        case DType::uint16:
            return store(static_cast<u16>(value));
    }
}

// Memory followed by a guard that no operation may change.
class Array {
  public:
    Array(DType dtype, i64 n) : bytes_(static_cast<size_t>(n * size_of(dtype)) + guard, 0xA5) {
        view_ = {bytes_.data(), dtype, {n}};
    }
    const View& view() const { return view_; }
    View part(i64 index, i64 n) const { return view_.rows(index * n, (index + 1) * n); }
    void check_guard() const {
        for (size_t i = bytes_.size() - guard; i < bytes_.size(); ++i) {
            if (bytes_[i] != 0xA5) throw std::runtime_error("wrote past the end of a view");
        }
    }

  private:
    static constexpr size_t guard = 64;
    std::vector<u8> bytes_;
    View view_;
};

void expect(bool condition, const std::string& what) {
    if (!condition) throw std::runtime_error(what);
}

void expect_element(const View& x, i64 i, double wanted, const std::string& what) {
    const double got = get(x, i);
    if (got != wanted) {
        throw std::runtime_error(fmt::format("{}: element {} of {} ({}) is {}, not {}", what, i,
                                             x.numel(), name_of(x.dtype), got, wanted));
    }
}

constexpr DType all_types[] = {DType::fp32,  DType::fp64, DType::int32,
                               DType::int64, DType::bf16, DType::fp16};
constexpr DType copied_types[] = {DType::fp32, DType::bf16, DType::int64, DType::uint8,
                                  DType::uint16};
constexpr i64 counts[] = {0, 1, 2, 3, 7, 8, 1000, 2047, 2049, 40003};

// Small integers. Every type holds them, and sums of 8 of them, exactly.
double value_at(int rank, i64 i) {
    return static_cast<double>((i * 5 + rank * 3) % 13);
}

double reduced_at(const Group& group, i64 i, Reduction reduction, int first_rank = 0) {
    double result = value_at(first_rank, i);
    for (int rank = 1; rank < group.size(); ++rank) {
        const double x = value_at(first_rank + rank, i);
        result = reduction == Reduction::sum ? result + x : std::max(result, x);
    }
    return result;
}

// ---- Collectives -------------------------------------------------------------------------------

void all_reduce(Group& world) {
    for (const DType dtype : all_types) {
        for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
            for (const i64 n : counts) {
                const Array x(dtype, n);
                for (i64 i = 0; i < n; ++i) set(x.view(), i, value_at(world.rank(), i));
                world.all_reduce(x.view(), reduction);
                for (i64 i = 0; i < n; ++i) {
                    expect_element(x.view(), i, reduced_at(world, i, reduction), "all_reduce");
                }
                x.check_guard();
            }
        }
    }
}

void reduce_scatter_of(Group& world, DType dtype, i64 n, Reduction reduction, bool in_place) {
    const Array in(dtype, n * world.size());
    const Array apart(dtype, n);
    const View out = in_place ? in.part(world.rank(), n) : apart.view();
    for (i64 i = 0; i < in.view().numel(); ++i) set(in.view(), i, value_at(world.rank(), i));
    world.reduce_scatter(in.view(), out, reduction);
    for (i64 i = 0; i < n; ++i) {
        expect_element(out, i, reduced_at(world, world.rank() * n + i, reduction),
                       in_place ? "reduce_scatter in place" : "reduce_scatter");
    }
    in.check_guard();
    apart.check_guard();
}

void reduce_scatter(Group& world) {
    for (const DType dtype : all_types) {
        for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
            for (const i64 n : {0, 1, 7, 1025, 6001}) {
                reduce_scatter_of(world, dtype, n, reduction, false);
                reduce_scatter_of(world, dtype, n, reduction, true);
            }
        }
    }
}

void all_gather_of(Group& world, DType dtype, i64 n, bool in_place) {
    const Array out(dtype, n * world.size());
    const Array apart(dtype, n);
    const View in = in_place ? out.part(world.rank(), n) : apart.view();
    for (i64 i = 0; i < n; ++i) set(in, i, value_at(world.rank(), i));
    world.all_gather(in, out.view());
    for (i64 i = 0; i < out.view().numel(); ++i) {
        expect_element(out.view(), i, value_at(static_cast<int>(i / n), i % n),
                       in_place ? "all_gather in place" : "all_gather");
    }
    out.check_guard();
}

void all_gather(Group& world) {
    for (const DType dtype : copied_types) {
        for (const i64 n : counts) {
            all_gather_of(world, dtype, n, false);
            all_gather_of(world, dtype, n, true);
        }
    }
}

void broadcast(Group& world) {
    for (const DType dtype : copied_types) {
        for (int root = 0; root < world.size(); ++root) {
            for (const i64 n : counts) {
                const Array x(dtype, n);
                for (i64 i = 0; i < n; ++i) set(x.view(), i, value_at(world.rank(), i));
                world.broadcast(x.view(), root);
                for (i64 i = 0; i < n; ++i) {
                    expect_element(x.view(), i, value_at(root, i), "broadcast");
                }
                x.check_guard();
            }
        }
    }
}

// A NaN of one rank is in the result of all ranks, at any position, except in maxima over NCCL.
void nan_is_kept(Group& world) {
    for (const DType dtype : {DType::fp32, DType::fp64, DType::bf16, DType::fp16}) {
        for (const Reduction reduction : {Reduction::sum, Reduction::max}) {
            const bool on_device = dynamic_cast<OnDevice*>(&world) != nullptr;
            if (on_device && reduction == Reduction::max) continue;  // ncclMax drops NaN
            for (int bad = 0; bad < world.size(); ++bad) {
                const Array x(dtype, 3);
                for (i64 i = 0; i < 3; ++i) set(x.view(), i, 1);
                const double nan = std::numeric_limits<double>::quiet_NaN();
                if (world.rank() == bad) set(x.view(), 1, nan);
                world.all_reduce(x.view(), reduction);
                expect(std::isnan(get(x.view(), 1)), "a NaN was lost in a reduction");
                expect(!std::isnan(get(x.view(), 0)), "a NaN spread to its neighbour");
            }
        }
    }
}

std::vector<float> noise(u64 key, i64 n) {
    std::vector<float> values(static_cast<size_t>(n));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(normal(key, i));
    return values;
}

// Sums whose rounding depends on the order of additions have the same bits in two runs, and on all
// members.
void determinism(Group& world) {
    for (const i64 n : {1, 17, 5003, 100001}) {
        const auto mine = noise(static_cast<u64>(world.rank()) + 1, n * world.size());
        std::vector<float> first(mine.begin(), mine.begin() + n);
        std::vector<float> second = first;
        world.all_reduce(view_of(first));
        world.all_reduce(view_of(second));
        expect(std::memcmp(first.data(), second.data(), first.size() * 4) == 0,
               "all_reduce gave other bits the second time");
        std::vector<float> theirs = first;
        world.broadcast(view_of(theirs), 0);
        expect(std::memcmp(first.data(), theirs.data(), first.size() * 4) == 0,
               "all_reduce gave other bits on another rank");
        std::vector<float> once(static_cast<size_t>(n));
        std::vector<float> again(once);
        std::vector<float> in = mine;
        world.reduce_scatter(view_of(in), view_of(once));
        in = mine;
        world.reduce_scatter(view_of(in), view_of(again));
        expect(std::memcmp(once.data(), again.data(), once.size() * 4) == 0,
               "reduce_scatter gave other bits the second time");
    }
}

void many_small(Group& world) {
    for (int round = 0; round < 300; ++round) {
        std::vector<i64> x{world.rank() + round, 1};
        world.all_reduce(view_of(x));
        const i64 n = world.size();
        expect(x[0] == n * (n - 1) / 2 + n * round && x[1] == n, "a small all_reduce is wrong");
    }
    for (int round = 0; round < 50; ++round) world.barrier();
}

// ---- Pending operations ------------------------------------------------------------------------

void overlapping(Group& world) {
    constexpr int n_pending = 40;
    for (int round = 0; round < 3; ++round) {
        std::vector<std::vector<float>> sums;
        std::vector<std::vector<i32>> gathered;
        std::vector<i32> own{world.rank() + round};
        std::vector<Work> works;
        for (int k = 0; k < n_pending; ++k) {
            sums.emplace_back(static_cast<size_t>(k * 111), static_cast<float>(k + world.rank()));
            gathered.emplace_back(static_cast<size_t>(world.size()));
        }
        for (size_t k = 0; k < n_pending; ++k) {
            works.push_back(world.start_all_reduce(view_of(sums[k]), Reduction::sum));
            works.push_back(world.start_all_gather(view_of(own), view_of(gathered[k])));
        }
        // Each rank waits for the operations in a different order, and twice for each of them.
        for (size_t k = 0; k < works.size(); ++k) {
            Work& work = works[(k * 7 + static_cast<size_t>(world.rank())) % works.size()];
            Work copy = work;
            if (k % 3 == 0) {
                while (!work.done()) {
                }
            }
            work.wait();
            work.wait();
            copy.wait();
            expect(copy.done() && work.done(), "a finished operation is not done");
        }
        const int n = world.size();
        for (int k = 0; k < n_pending; ++k) {
            for (const float x : sums[static_cast<size_t>(k)]) {
                expect(x == static_cast<float>(k * n + n * (n - 1) / 2), "overlapping all_reduce");
            }
            for (int rank = 0; rank < n; ++rank) {
                expect(gathered[static_cast<size_t>(k)][static_cast<size_t>(rank)] == rank + round,
                       "overlapping all_gather");
            }
        }
    }
}

void messages(Group& world) {
    const int n = world.size();
    if (n == 1) return;
    const int next = (world.rank() + 1) % n;
    const int previous = (world.rank() + n - 1) % n;
    for (const i64 count : counts) {
        std::vector<std::vector<i32>> out;
        std::vector<std::vector<i32>> in;
        for (i32 k = 0; k < 12; ++k) {
            out.emplace_back(static_cast<size_t>(count), world.rank() * 100 + k);
            in.emplace_back(static_cast<size_t>(count), -1);
        }
        std::vector<Work> works;
        for (size_t k = 0; k < out.size(); ++k) {
            works.push_back(world.start_send(view_of(out[k]), next));
        }
        for (std::vector<i32>& x : in) works.push_back(world.start_receive(view_of(x), previous));
        for (Work& work : works) work.wait();
        for (i32 k = 0; k < 12; ++k) {
            for (const i32 x : in[static_cast<size_t>(k)]) {
                expect(x == previous * 100 + k, "a message is wrong or out of order");
            }
        }
    }
}

// Messages between every pair in both directions, with blocking calls in an order that cannot
// deadlock.
void pairs(Group& world) {
    for (int a = 0; a < world.size(); ++a) {
        for (int b = a + 1; b < world.size(); ++b) {
            if (world.rank() != a && world.rank() != b) continue;
            const int other = world.rank() == a ? b : a;
            std::vector<double> out(5, world.rank() + 0.5);
            std::vector<double> in(5);
            if (world.rank() == a) {
                world.send(view_of(out), other);
                world.receive(view_of(in), other);
            } else {
                world.receive(view_of(in), other);
                world.send(view_of(out), other);
            }
            expect(in == std::vector<double>(5, other + 0.5), "an exchange of a pair is wrong");
        }
    }
}

// ---- Groups ------------------------------------------------------------------------------------

void split(Group& world) {
    const int n = world.size();
    const std::unique_ptr<Group> parity = world.split(world.rank() % 2, world.rank(), "parity");
    expect(parity->size() == (n + 1 - world.rank() % 2) / 2, "a part has the wrong size");
    expect(parity->rank() == world.rank() / 2, "a part has the wrong order");
    expect(parity->name() == "parity", "a part has the wrong name");
    const std::unique_ptr<Group> reversed = world.split(0, -world.rank(), "reversed");
    expect(reversed->rank() == n - 1 - world.rank(), "keys do not order the part");
    const std::unique_ptr<Group> alone = world.split(-1, 0, "alone");
    expect(alone->size() == 1 && alone->rank() == 0, "a negative color joins others");

    // Operations of the group and of its parts are pending at the same time.
    std::vector<i64> all{1};
    std::vector<i64> half{world.rank()};
    std::vector<i64> own{7};
    Work first = world.start_all_reduce(view_of(all), Reduction::sum);
    Work second = parity->start_all_reduce(view_of(half), Reduction::sum);
    alone->all_reduce(view_of(own));
    second.wait();
    first.wait();
    i64 wanted = 0;
    for (int rank = world.rank() % 2; rank < n; rank += 2) wanted += rank;
    expect(all[0] == n && half[0] == wanted && own[0] == 7, "operations of parts mix");

    // Parts of parts, and a group that outlives its parent.
    std::unique_ptr<Group> copy = world.split(0, 0, "copy");
    const std::unique_ptr<Group> pairs_of = copy->split(copy->rank() / 2, 0, "pairs");
    copy.reset();
    std::vector<i64> one{1};
    pairs_of->all_reduce(view_of(one));
    expect(one[0] == pairs_of->size(), "a part of a part is wrong");
    std::vector<i32> from_last{world.rank()};
    reversed->broadcast(view_of(from_last), 0);
    expect(from_last[0] == n - 1, "a broadcast in a reordered group has the wrong root");
    if (parity->size() > 1) {
        std::vector<i32> x{parity->rank()};
        if (parity->rank() == 0) parity->send(view_of(x), 1);
        if (parity->rank() == 1) parity->receive(view_of(x), 0);
        expect(x[0] == (parity->rank() == 1 ? 0 : parity->rank()), "a message in a part is wrong");
    }
}

}  // namespace

const std::vector<ConformanceCase>& conformance_cases() {
    static const std::vector<ConformanceCase> cases = {{"all_reduce", all_reduce},
                                                       {"reduce_scatter", reduce_scatter},
                                                       {"all_gather", all_gather},
                                                       {"broadcast", broadcast},
                                                       {"nan_is_kept", nan_is_kept},
                                                       {"determinism", determinism},
                                                       {"many_small", many_small},
                                                       {"overlapping", overlapping},
                                                       {"messages", messages},
                                                       {"pairs", pairs},
                                                       {"split", split}};
    return cases;
}

}  // namespace lm::test
