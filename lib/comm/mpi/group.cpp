// SPDX-License-Identifier: Apache-2.0
// A group over its own MPI communicator, with MPI's nonblocking operations. An operation with more
// elements than an MPI call can count (int) is divided into several calls.
//
// Every MPI call holds world_.mutex(), because the library is initialized with
// MPI_THREAD_SERIALIZED. A blocking MPI call would keep the mutex from the thread that answers
// other ranks, so waits are loops of MPI_Testall.
#include <fmt/format.h>
#include <mpi.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/hash.hpp"
#include "base/log.hpp"
#include "comm/mpi/world.hpp"
#include "comm/pending_operations.hpp"

namespace lm::comm {
namespace {

constexpr int message_tag = 0;  // MPI keeps the order of messages of one tag (MPI 4.0, 3.5)

// A waiting rank first tests without pause, then yields its core between tests, then sleeps,
// because a delay of 0.1 ms does not matter for an operation that takes a second.
constexpr i64 eager_tests = 50;
constexpr double sleep_after_s = 1;
constexpr auto sleep_time = std::chrono::microseconds(100);

std::byte* at(void* base, i64 elements, DType dtype) {
    return static_cast<std::byte*>(base) + elements * size_of(dtype);
}
const std::byte* at(const void* base, i64 elements, DType dtype) {
    return static_cast<const std::byte*>(base) + elements * size_of(dtype);
}

class MpiGroup final : public Group {
  public:
    // Takes ownership of `comm`. `id` is equal on all members, and differs between groups.
    MpiGroup(MpiWorld& world, MPI_Comm comm, std::string name, u64 id)
        : Group(
              std::move(name),
              [&] {
                  int rank = 0;
                  MPI_Comm_rank(comm, &rank);
                  return rank;
              }(),
              [&] {
                  int size = 1;
                  MPI_Comm_size(comm, &size);
                  return size;
              }()),
          world_(world),
          comm_(comm),
          id_(id) {
        MPI_Comm_set_errhandler(comm_, MPI_ERRORS_RETURN);  // check() throws the errors
        if (world_.options().check_operations) MPI_Comm_dup(comm_, &check_comm_);
        world_.add_group(id_, n_started_);
    }

    ~MpiGroup() override {
        const std::lock_guard lock(world_.mutex());
        world_.remove_group(id_);
        // When the job fails, other members may never call MPI_Comm_free, which is collective.
        if (std::uncaught_exceptions() > 0 || world_.failed()) return;
        if (check_comm_ != MPI_COMM_NULL) MPI_Comm_free(&check_comm_);
        MPI_Comm_free(&comm_);
    }

    void abort(const std::string& reason) noexcept override {
        try {
            warn("group '{}': ending the job: {}", name(), reason);
        } catch (...) {  // an error here must not keep the job from ending
        }
        world_.end(Exit::failure);
    }

    i64 next_collective_number() override { return n_started_.fetch_add(1); }
    std::string timeout_message(const Operation& operation, i64 number, double waited_s) override {
        std::vector<int> others;
        for (int member = 0; member < size(); ++member) {
            if (number >= 0 ? member != rank() : member == operation.peer) others.push_back(member);
        }
        const auto ask = number >= 0 ? &MpiWorld::ask : &MpiWorld::ask_for_silent;
        return timeout_text(describe(operation), number, (world_.*ask)(world_ranks(others), id_),
                            world_.size(), waited_s);
    }

  protected:
    i64 start(const Operation& operation) override {
        const i64 number = is_message(operation.kind) ? -1 : next_collective_number();
        if (number >= 0 && check_comm_ != MPI_COMM_NULL) compare_with_members(operation, number);
        // Makes no MPI call for 0 elements. All members pass the same n, so all of them skip the
        // call.
        const bool carries_data =
            operation.kind != OperationKind::barrier && operation.kind != OperationKind::split;
        if (carries_data && operation.n == 0) return 0;
        const std::lock_guard lock(world_.mutex());
        const i64 handle = pending_.open();
        Started& started = *pending_.find(handle);
        started.operation = operation;
        started.number = number;
        started.requests.clear();     // the slot keeps the memory of its previous operation
        started.copy_from = nullptr;  // finish() reads it
        switch (operation.kind) {
            case OperationKind::reduce_scatter:
                start_reduce_scatter(started);
                break;
            case OperationKind::all_gather:
                start_all_gather(started);
                break;
            case OperationKind::all_reduce:
            case OperationKind::broadcast:
            case OperationKind::send:
            case OperationKind::receive:
                start_pieces(started);
                break;
            case OperationKind::barrier:
            case OperationKind::split:  // make_part() splits after this barrier
                check(MPI_Ibarrier(comm_, add_request(started)), operation);
                break;
        }
        return handle;
    }

    void wait(i64 handle) override {
        Started* started = pending_.find(handle);
        if (started == nullptr) return;
        wait_for(*started);
        pending_.close(handle);
    }

    bool done(i64 handle) override {
        Started* started = pending_.find(handle);
        if (started == nullptr) return true;
        if (!test(*started)) return false;
        pending_.close(handle);
        return true;
    }

    std::unique_ptr<Group> make_part(int color, int key, std::string part_name) override {
        // MPI_Comm_split has no timeout, so a barrier with a timeout comes first.
        const i64 handle = start({OperationKind::split});
        const i64 number = pending_.find(handle)->number;
        wait(handle);
        const std::lock_guard lock(world_.mutex());
        MPI_Comm comm = MPI_COMM_NULL;
        check(MPI_Comm_split(comm_, color < 0 ? MPI_UNDEFINED : color, key, &comm),
              {OperationKind::split});
        if (comm == MPI_COMM_NULL)
            check(MPI_Comm_dup(MPI_COMM_SELF, &comm), {OperationKind::split});
        // All members of a new group compute the same id.
        const u64 numbers[] = {id_, static_cast<u64>(number),
                               static_cast<u64>(static_cast<i64>(color))};
        return std::make_unique<MpiGroup>(
            world_, comm, std::move(part_name),
            hash64({reinterpret_cast<const char*>(numbers), sizeof numbers}));
    }

  private:
    struct Started {
        Operation operation;
        i64 number = 0;
        std::vector<MPI_Request> requests;
        // For an in-place reduce-scatter, MPI writes the result to the front of `in`, and finish()
        // copies the result from this address to operation.out. For other operations nullptr.
        const void* copy_from = nullptr;
    };

    // MPI counts elements by an int, so a larger operation is divided into several MPI calls.
    void start_pieces(Started& started) {
        const Operation& o = started.operation;
        const MPI_Datatype type = mpi_type(o.dtype);
        for (i64 begin = 0; begin < o.n; begin += world_.options().max_count) {
            const int n = static_cast<int>(std::min(world_.options().max_count, o.n - begin));
            MPI_Request* const request = add_request(started);
            if (o.kind == OperationKind::all_reduce) {
                const MPI_Op op = world_.ops().of(o.dtype, o.reduction);
                check(MPI_Iallreduce(MPI_IN_PLACE, at(o.out, begin, o.dtype), n, type, op, comm_,
                                     request),
                      o);
            } else if (o.kind == OperationKind::broadcast) {
                check(MPI_Ibcast(at(o.out, begin, o.dtype), n, type, o.peer, comm_, request), o);
            } else if (o.kind == OperationKind::send) {
                check(MPI_Isend(at(o.in, begin, o.dtype), n, type, o.peer, message_tag, comm_,
                                request),
                      o);
            } else {
                check(MPI_Irecv(at(o.out, begin, o.dtype), n, type, o.peer, message_tag, comm_,
                                request),
                      o);
            }
        }
    }

    void start_all_gather(Started& started) {
        const Operation& o = started.operation;
        const bool in_place = o.in == at(o.out, rank() * o.n, o.dtype);
        if (o.n <= world_.options().max_count) {
            const int n = static_cast<int>(o.n);
            check(MPI_Iallgather(in_place ? MPI_IN_PLACE : o.in, n, mpi_type(o.dtype), o.out, n,
                                 mpi_type(o.dtype), comm_, add_request(started)),
                  o);
            return;
        }
        // One call gathers elements [begin, begin + n) of every part. In `out` the parts are o.n
        // elements apart, so the type is resized to that extent.
        for (i64 begin = 0; begin < o.n; begin += world_.options().max_count) {
            const int n = static_cast<int>(std::min(world_.options().max_count, o.n - begin));
            MPI_Datatype piece = MPI_DATATYPE_NULL;
            MPI_Datatype strided = MPI_DATATYPE_NULL;
            check(MPI_Type_contiguous(n, mpi_type(o.dtype), &piece), o);
            check(MPI_Type_create_resized(piece, 0, o.bytes(), &strided), o);
            check(MPI_Type_commit(&strided), o);
            check(MPI_Iallgather(in_place ? MPI_IN_PLACE : at(o.in, begin, o.dtype), n,
                                 mpi_type(o.dtype), at(o.out, begin, o.dtype), 1, strided, comm_,
                                 add_request(started)),
                  o);
            MPI_Type_free(&piece);  // MPI frees a type when no pending operation uses it
            MPI_Type_free(&strided);
        }
    }

    void start_reduce_scatter(Started& started) {
        const Operation& o = started.operation;
        if (o.n > world_.options().max_count / size()) return start_reduces(started);
        // In place, MPI writes the result to the front of `in`; finish() copies it to this rank's
        // part.
        const bool in_place = o.out == at(o.in, rank() * o.n, o.dtype);
        if (in_place && rank() != 0) started.copy_from = o.in;
        check(MPI_Ireduce_scatter_block(
                  in_place ? MPI_IN_PLACE : o.in, in_place ? const_cast<void*>(o.in) : o.out,
                  static_cast<int>(o.n), mpi_type(o.dtype), world_.ops().of(o.dtype, o.reduction),
                  comm_, add_request(started)),
              o);
    }

    // Starts one reduction for each member. Used for more elements than one MPI call can count.
    void start_reduces(Started& started) {
        const Operation& o = started.operation;
        for (int part = 0; part < size(); ++part) {
            for (i64 begin = 0; begin < o.n; begin += world_.options().max_count) {
                const i64 n = std::min(world_.options().max_count, o.n - begin);
                const void* in = at(o.in, part * o.n + begin, o.dtype);
                void* out = at(o.out, begin, o.dtype);
                const bool in_place = part == rank() && in == out;
                check(MPI_Ireduce(in_place ? MPI_IN_PLACE : in, out, static_cast<int>(n),
                                  mpi_type(o.dtype), world_.ops().of(o.dtype, o.reduction), part,
                                  comm_, add_request(started)),
                      o);
            }
        }
    }

    // Returns a new request, which the next MPI call of the operation sets. The address is valid
    // until the next add_request(). MPI does not keep the address, so the requests may move.
    MPI_Request* add_request(Started& started) {
        started.requests.push_back(MPI_REQUEST_NULL);
        return &started.requests.back();
    }

    void wait_for(Started& started) {
        const double timeout_s = time_until_asking(world_.options().timeout_s, rank());
        const Stopwatch watch;
        for (i64 n_tests = 0; !test(started); ++n_tests) {
            if (n_tests < eager_tests) continue;  // a small operation needs no clock
            const double waited_s = watch.elapsed_s();
            if (waited_s < world_.spin_s())
                continue;  // tests again: MPI makes progress only inside of calls
            if (waited_s > timeout_s) {
                fail_with(Exit::failure,
                          timeout_message(started.operation, started.number, waited_s));
            }
            if (waited_s < sleep_after_s) {
                sched_yield();  // ranks may share this core
            } else {
                std::this_thread::sleep_for(sleep_time);
            }
        }
    }

    // Lets MPI make progress. Returns whether all requests of the operation are done.
    bool test(Started& started) {
        const std::lock_guard lock(world_.mutex());
        statuses_.resize(std::max(statuses_.size(), started.requests.size()));
        int flag = 0;
        check(MPI_Testall(static_cast<int>(started.requests.size()), started.requests.data(), &flag,
                          statuses_.data()),
              started.operation);
        if (flag) finish(started);
        return flag != 0;
    }

    void finish(Started& started) {
        const Operation& o = started.operation;
        if (o.kind == OperationKind::receive) check_received(started);
        if (started.copy_from != nullptr) {
            std::memcpy(o.out, started.copy_from, static_cast<size_t>(o.bytes()));
        }
    }

    void check_received(const Started& started) {
        const Operation& o = started.operation;
        i64 n_received = 0;
        for (size_t i = 0; i < started.requests.size(); ++i) {
            int n = 0;
            MPI_Get_count(&statuses_[i], mpi_type(o.dtype), &n);
            n_received += n;
        }
        if (n_received == o.n) return;
        fail_with(Exit::bug,
                  fmt::format("{}: expected {} elements, got {}", describe(o), o.n, n_received));
    }

    void check(int code, const Operation& operation) {
        if (code == MPI_SUCCESS) return;
        char text[MPI_MAX_ERROR_STRING] = "";
        int length = 0;
        if (code ==
            MPI_ERR_IN_STATUS) {  // from MPI_Testall, where each status has its own error code
            for (const MPI_Status& status : statuses_) {
                if (status.MPI_ERROR != MPI_SUCCESS && status.MPI_ERROR != MPI_ERR_PENDING) {
                    code = status.MPI_ERROR;
                    break;
                }
            }
        }
        MPI_Error_string(code, text, &length);
        fail_with(Exit::failure, fmt::format("{}: {}", describe(operation), text));
    }

    // Compares the members' operations by the minimum and maximum of a digest of their texts.
    // Gathers the texts only when the digests differ.
    void compare_with_members(const Operation& operation, i64 number) {
        char text[128] = "";  // MPI_Allgather below needs one size for all members
        const std::string mine = describe(operation);
        std::memcpy(text, mine.data(), std::min(mine.size(), sizeof text - 1));
        const i64 digest =
            static_cast<i64>(hash64({text, sizeof text}) >> 1);  // so that -digest fits
        i64 range[2] = {digest, -digest};  // the maxima are max(digest) and -min(digest)
        Started started;
        started.operation = operation;
        started.number = number;
        {
            const std::lock_guard lock(world_.mutex());
            check(MPI_Iallreduce(MPI_IN_PLACE, range, 2, MPI_INT64_T, MPI_MAX, check_comm_,
                                 add_request(started)),
                  operation);
        }
        wait_for(started);
        if (range[0] == -range[1]) return;  // all digests are equal
        std::vector<char> all(sizeof text * static_cast<size_t>(size()));
        const std::lock_guard lock(world_.mutex());
        check(MPI_Allgather(text, sizeof text, MPI_CHAR, all.data(), sizeof text, MPI_CHAR,
                            check_comm_),
              operation);
        for (int member = 1; member < size(); ++member) {
            const char* other = all.data() + sizeof text * static_cast<size_t>(member);
            if (std::strcmp(other, all.data()) == 0) continue;
            const std::vector<int> ranks = world_ranks({0, member});
            fail_with(Exit::bug, fmt::format("operation {}: rank {} calls {}, but rank {} calls {}",
                                             number, ranks[0], all.data(), ranks[1], other));
        }
    }

    [[noreturn]] void fail_with(Exit code, const std::string& text) {
        world_.fail();  // destructors then make no collective MPI call
        fail(code, fmt::format("group '{}'", name()), "{}", text);
    }

    std::vector<int> world_ranks(const std::vector<int>& members) const {
        std::vector<int> ranks(members.size());
        MPI_Group mine = MPI_GROUP_NULL;
        MPI_Group all = MPI_GROUP_NULL;
        const std::lock_guard lock(world_.mutex());
        MPI_Comm_group(comm_, &mine);  // these calls are local
        MPI_Comm_group(MPI_COMM_WORLD, &all);
        MPI_Group_translate_ranks(mine, static_cast<int>(members.size()), members.data(), all,
                                  ranks.data());
        MPI_Group_free(&mine);
        MPI_Group_free(&all);
        return ranks;
    }

    std::string describe(const Operation& operation) const {
        Operation named = operation;
        if (named.peer >= 0) named.peer = world_ranks({named.peer})[0];
        return named.str();
    }

    MpiWorld& world_;
    MPI_Comm comm_;
    // The communicator of compare_with_members(); MPI_COMM_NULL when operations are not checked.
    MPI_Comm check_comm_ = MPI_COMM_NULL;
    u64 id_;
    std::atomic<i64> n_started_{0};  // collectives; the answering thread reads it
    PendingOperations<Started> pending_;
    std::vector<MPI_Status> statuses_;  // results of the last MPI_Testall
};

}  // namespace

std::unique_ptr<Group> mpi_group(MpiWorld& world, MPI_Comm comm) {
    return std::make_unique<MpiGroup>(world, comm, "world", u64{1});
}

}  // namespace lm::comm
