// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl/nccl_channel.hpp"

#include <algorithm>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "cuda/nccl/max_keys.hpp"
#include "cuda/nccl/nccl_library.hpp"

namespace lm::cuda {

using comm::Operation;
using comm::OperationKind;
using comm::Reduction;

namespace {

// Size in elements of the buffer for the int32 keys of 16-bit floats (max_keys.hpp). Maxima of more
// elements are computed in several chunks.
constexpr i64 n_keys = i64{1} << 18;

ncclDataType_t nccl_type(DType dtype) {
    switch (dtype) {
        case DType::fp32:
            return ncclFloat32;
        case DType::fp64:
            return ncclFloat64;
        case DType::bf16:
            return ncclBfloat16;
        case DType::fp16:
            return ncclFloat16;
        case DType::int32:
            return ncclInt32;
        case DType::int64:
            return ncclInt64;
        case DType::uint8:
        case DType::uint16:
            break;
    }
    return ncclUint8;
}

// Returns the count for an NCCL call. NCCL has no 16-bit integers, so they are moved as bytes. They
// are never reduced.
size_t nccl_count(DType dtype, i64 n) {
    return static_cast<size_t>(dtype == DType::uint16 ? 2 * n : n);
}

ncclConfig_t config_of(const std::string& name, bool blocking, int max_blocks) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = blocking ? 1 : 0;
    config.splitShare = 0;  // communicators that share resources wait for each other
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    config.commName = name.c_str();
#else
    (void)name;
#endif
    if (max_blocks > 0) config.maxCTAs = max_blocks;
    return config;
}

bool is_float(DType dtype) {
    return dtype == DType::fp32 || dtype == DType::fp64 || is_half(dtype);
}

std::byte* at(const void* base, i64 elements, DType dtype) {
    return static_cast<std::byte*>(const_cast<void*>(base)) + elements * size_of(dtype);
}

bool needs_keys(const Operation& o) {
    const bool reduces =
        o.kind == OperationKind::all_reduce || o.kind == OperationKind::reduce_scatter;
    return reduces && o.reduction == Reduction::max && is_float(o.dtype);
}

}  // namespace

std::shared_ptr<NcclChannel> NcclChannel::open(CudaDevice& device, std::string name,
                                               std::shared_ptr<comm::Group> host, int rank,
                                               int size, int peer, int max_blocks) {
    // enqueue_maximum() divides keys_ among the ranks: each needs at least one element.
    LM_CHECK(size <= n_keys, "expected at most {} ranks, got {}", n_keys, size);
    std::shared_ptr<NcclChannel> channel(
        new NcclChannel(device, std::move(name), std::move(host), rank, size, peer, max_blocks));
    channel->keys_ = device.allocate(n_keys * size_of(DType::int32), "NCCL");
    // The highest priority: other ranks wait for communication, and not for computation.
    int least = 0;
    int greatest = 0;
    device.check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    device.check(cudaStreamCreateWithPriority(&channel->stream_, cudaStreamNonBlocking, greatest));
    return channel;
}

NcclChannel::~NcclChannel() {
    Communicators comms;
    move_communicators(comms);
    abort_together(comms);
    for (const std::unique_ptr<ChannelOperation>& operation : operations_) {
        cudaEventDestroy(operation->ready);
        cudaEventDestroy(operation->end);
    }
    if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

// A duplicate that is still being created belongs to NCCL: destroying joined_ frees it, too.
void NcclChannel::move_communicators(Communicators& comms) {
    if (joined_ != nullptr) comms.joining.push_back(std::exchange(joined_, nullptr));
    if (state_ < State::leaving || comm_ == nullptr) return;
    comms.formed.push_back(std::exchange(comm_, nullptr));
}

void NcclChannel::check(ncclResult_t result, ncclComm_t comm, const char* what) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    run_error(fmt::format("group '{}'", name_), "{}: {}: {}", what, nccl().GetErrorString(result),
              nccl().GetLastError(comm));
}

// ---- Forming -----------------------------------------------------------------------------------

void NcclChannel::join(std::vector<ncclUniqueId> ids) {
    ncclConfig_t config = config_of(name_, false, max_blocks_);
    if (ids.size() == 1) {
        return check(nccl().CommInitRankConfig(&joined_, size_, ids[0], rank_, &config), joined_,
                     "ncclCommInitRankConfig");
    }
    check(nccl().CommInitRankScalable(&joined_, size_, rank_, static_cast<int>(ids.size()),
                                      ids.data(), &config),
          joined_, "ncclCommInitRankScalable");
}

bool NcclChannel::settled(ncclComm_t comm) {
    ncclResult_t state = ncclSuccess;
    check(nccl().CommGetAsyncError(comm, &state), comm, "ncclCommGetAsyncError");
    check(state, comm, "NCCL");
    return state == ncclSuccess;
}

// Makes one step of joining -> duplicating -> leaving -> formed when NCCL has finished the previous
// one, and never blocks. Destroys the nonblocking communicator in `leaving`, when its blocking
// duplicate exists.
bool NcclChannel::formed() {
    if (state_ == State::formed) return true;
    if (joined_ == nullptr || !settled(joined_)) return false;
    if (state_ == State::joining) {
        // Asynchronous: NCCL sets comm_ before CommGetAsyncError(joined_) returns success again.
        ncclConfig_t config = config_of(name_, true, max_blocks_);
        state_ = State::duplicating;
        check(nccl().CommSplit(joined_, 0, rank_, &comm_, &config), joined_, "ncclCommSplit");
    } else if (state_ == State::duplicating) {
        state_ = State::leaving;
        check(nccl().CommFinalize(joined_), joined_, "ncclCommFinalize");
    } else {
        check(nccl().CommDestroy(std::exchange(joined_, nullptr)), nullptr, "ncclCommDestroy");
        state_ = State::formed;
    }
    return state_ == State::formed;
}

std::vector<Operation> NcclChannel::first_operations() const {
    std::vector<Operation> operations;
    void* const all = keys_.data();
    for (const i64 bytes : {i64{64}, keys_.bytes()}) {
        const auto add = [&](OperationKind kind, i64 n, const void* in, void* out) {
            if (n == 0) return;
            operations.push_back(
                {.kind = kind, .dtype = DType::uint8, .n = n, .peer = peer_, .in = in, .out = out});
        };
        if (peer_ >= 0) {
            add(rank_ == 0 ? OperationKind::send : OperationKind::receive, bytes, all, all);
            continue;
        }
        const i64 n = bytes / size_;
        void* const part = at(all, rank_ * n, DType::uint8);
        add(OperationKind::all_reduce, bytes, all, all);
        add(OperationKind::reduce_scatter, n, all, part);
        add(OperationKind::all_gather, n, part, all);
    }
    return operations;
}

// ---- Operations --------------------------------------------------------------------------------

// Checks the result of an NCCL call. With NCCL_COMM_BLOCKING=0 in the environment, even blocking
// communicators return before the kernel is in the stream; this function then waits until it is.
void NcclChannel::finish_call(ncclResult_t result, const char* what) {
    check(result, comm_, what);
    if (result != ncclInProgress) return;
    while (!settled(comm_)) std::this_thread::yield();
}

// Returns an unused record with its two events. An operation's record may be reused when the
// operation has ended (complete) and its Work handle does not exist any more (not held). Creates a
// record only when more are in use than ever before, so later steps create none.
ChannelOperation* NcclChannel::acquire() {
    if (unused_.empty()) reap();
    if (unused_.empty()) {
        ChannelOperation& record = *operations_.emplace_back(std::make_unique<ChannelOperation>());
        device_.check(cudaEventCreateWithFlags(&record.ready, cudaEventDisableTiming));
        device_.check(cudaEventCreateWithFlags(&record.end, cudaEventDisableTiming));
        unused_.push_back(&record);
    }
    ChannelOperation* const record = unused_.back();
    unused_.pop_back();
    *record = {.operation = {}, .ready = record->ready, .end = record->end};
    return record;
}

// Removes ended operations from pending_. They end in the order of the stream.
void NcclChannel::reap() {
    while (!pending_.empty() && done(*pending_.front())) {
        ChannelOperation* const record = pending_.front();
        pending_.pop_front();
        record->complete = true;
        if (!record->held) unused_.push_back(record);
    }
}

bool NcclChannel::idle() {
    reap();
    return pending_.empty();
}

bool NcclChannel::done(ChannelOperation& record) {
    if (record.complete) return true;
    const cudaError_t status = cudaEventQuery(record.end);
    if (status == cudaErrorNotReady) {
        cudaGetLastError();  // clears it: the next launch must not report it
        return false;
    }
    device_.check(status);
    return true;
}

void NcclChannel::release(ChannelOperation& record) {
    record.held = false;  // reap() makes the record of a pending operation reusable later
    if (record.complete) unused_.push_back(&record);
}

// The host waits for neither stream: this channel's stream waits for the compute stream by `ready`,
// and the compute stream waits for `end` when the caller waits for the operation
// (NcclGroup::wait()).
ChannelOperation* NcclChannel::start(const Operation& operation, i64 number,
                                     const ChannelOperation* after) {
    LM_CHECK(state_ == State::formed && comm_ != nullptr,
             "group '{}': expected a formed communicator, got state {}", name_,
             static_cast<int>(state_));
    ChannelOperation* const record = acquire();
    record->operation = operation;
    record->number = number;
    record->held = true;
    device_.check(cudaEventRecord(record->ready, device_.stream()));
    device_.check(cudaStreamWaitEvent(stream_, record->ready));
    if (after != nullptr) device_.check(cudaStreamWaitEvent(stream_, after->end));
    enqueue(operation);
    device_.check(cudaEventRecord(record->end, stream_));
    pending_.push_back(record);
    return record;
}

void NcclChannel::enqueue(const Operation& o) {
    if (needs_keys(o)) {
        return keys_in_place(o.dtype) ? enqueue_maximum_in_place(o) : enqueue_maximum(o);
    }
    const ncclRedOp_t op = o.reduction == Reduction::sum ? ncclSum : ncclMax;
    const ncclDataType_t type = nccl_type(o.dtype);
    const size_t n = nccl_count(o.dtype, o.n);
    switch (o.kind) {
        case OperationKind::all_reduce:
            return finish_call(nccl().AllReduce(o.in, o.out, n, type, op, comm_, stream_),
                               "ncclAllReduce");
        case OperationKind::reduce_scatter:
            return finish_call(nccl().ReduceScatter(o.in, o.out, n, type, op, comm_, stream_),
                               "ncclReduceScatter");
        case OperationKind::all_gather:
            return finish_call(nccl().AllGather(o.in, o.out, n, type, comm_, stream_),
                               "ncclAllGather");
        case OperationKind::broadcast:
            return finish_call(nccl().Broadcast(o.in, o.out, n, type, o.peer, comm_, stream_),
                               "ncclBroadcast");
        case OperationKind::send:  // the communicator of a message channel has two ranks
            return finish_call(nccl().Send(o.in, n, type, 1 - rank_, comm_, stream_), "ncclSend");
        case OperationKind::receive:
            return finish_call(nccl().Recv(o.out, n, type, 1 - rank_, comm_, stream_), "ncclRecv");
        case OperationKind::barrier:
        case OperationKind::split:
            break;
    }
    LM_CHECK(false, "expected an operation with data, got {}", o.str());
}

// ---- Maxima ------------------------------------------------------------------------------------

// Enqueues a maximum of fp32 or fp64. The keys have the size of the elements, and replace them in
// the input buffer.
void NcclChannel::enqueue_maximum_in_place(const Operation& o) {
    const bool all = o.kind == OperationKind::all_reduce;
    const i64 n_in = all ? o.n : size_ * o.n;
    const auto n = static_cast<size_t>(o.n);
    const ncclDataType_t type = nccl_type(key_type(o.dtype));
    void* const keys = const_cast<void*>(o.in);
    to_keys(stream_, o.dtype, o.in, keys, n_in);
    finish_call(all ? nccl().AllReduce(keys, o.out, n, type, ncclMax, comm_, stream_)
                    : nccl().ReduceScatter(keys, o.out, n, type, ncclMax, comm_, stream_),
                "maximum");
    from_keys(stream_, o.dtype, o.out, o.out, o.n);
    // Restores the input, unless the result is part of it (its content is then undefined).
    const bool apart = !all && o.out != at(o.in, rank_ * o.n, o.dtype);
    if (apart) from_keys(stream_, o.dtype, o.in, keys, n_in);
}

// Enqueues a maximum of bf16 or fp16. The keys are int32 in keys_, at most n_keys elements at a
// time.
void NcclChannel::enqueue_maximum(const Operation& o) {
    const bool all = o.kind == OperationKind::all_reduce;
    const i64 n_parts = all ? 1 : size_;
    const ncclDataType_t type = nccl_type(key_type(o.dtype));
    void* const keys = keys_.data();
    for (i64 begin = 0, n = 0; begin < o.n; begin += n) {
        n = std::min(n_keys / n_parts, o.n - begin);
        for (i64 part = 0; part < n_parts; ++part) {
            to_keys(stream_, o.dtype, at(o.in, part * o.n + begin, o.dtype),
                    at(keys, part * n, key_type(o.dtype)), n);
        }
        void* const result = all ? keys : at(keys, rank_ * n, DType::int32);
        const auto count = static_cast<size_t>(n);
        finish_call(all ? nccl().AllReduce(keys, result, count, type, ncclMax, comm_, stream_)
                        : nccl().ReduceScatter(keys, result, count, type, ncclMax, comm_, stream_),
                    "maximum");
        from_keys(stream_, o.dtype, result, at(o.out, begin, o.dtype), n);
    }
}

// ---- Errors and timeouts -----------------------------------------------------------------------

// Once its inputs are ready, an operation waits only for other ranks. From that moment its time
// counts towards the timeout.
std::optional<ChannelError> NcclChannel::poll(double timeout_s) {
    if (state_ != State::formed || comm_ == nullptr) return std::nullopt;
    ncclResult_t state = ncclSuccess;
    nccl().CommGetAsyncError(comm_, &state);
    const auto error_of = [this](const std::string& text, double waited_s) {
        const bool idle = pending_.empty();
        return ChannelError{idle ? ChannelOperation{} : *pending_.front(), text, waited_s};
    };
    if (state != ncclSuccess && state != ncclInProgress) {
        return error_of(
            fmt::format("{}: {}", nccl().GetErrorString(state), nccl().GetLastError(comm_)), 0);
    }
    reap();
    if (pending_.empty()) return std::nullopt;
    // Only the oldest operation can time out: the others wait for it in the stream.
    ChannelOperation& first = *pending_.front();
    const double now_s = monotonic_s();
    if (first.since_s < 0) {
        const cudaError_t status = cudaEventQuery(first.ready);
        if (status == cudaSuccess) first.since_s = now_s;
        cudaGetLastError();  // clears cudaErrorNotReady
    } else if (now_s - first.since_s > timeout_s) {
        return error_of("", now_s - first.since_s);
    }
    return std::nullopt;
}

// ---- The end -----------------------------------------------------------------------------------

namespace {

// Calls `end` for all communicators in one NCCL group call. Errors are printed as warnings, because
// the caller is ending anyway.
void together(const std::vector<ncclComm_t>& comms, ncclResult_t (*end)(ncclComm_t),
              const char* what) {
    if (comms.empty()) return;
    ncclResult_t first = nccl().GroupStart();
    const auto note = [&first](ncclResult_t result) {
        if (first == ncclSuccess && result != ncclInProgress) first = result;
    };
    for (ncclComm_t comm : comms) note(end(comm));
    note(nccl().GroupEnd());
    if (first == ncclSuccess || first == ncclInProgress) return;
    warn("NCCL: {}: {}: {}", what, nccl().GetErrorString(first), nccl().GetLastError(nullptr));
}

}  // namespace

void end_together(const Communicators& comms) noexcept {
    together(comms.formed, nccl().CommFinalize, "ncclCommFinalize");
    together(comms.formed, nccl().CommDestroy, "ncclCommDestroy");
}

void abort_together(const Communicators& comms) noexcept {
    if (comms.formed.empty() && comms.joining.empty()) return;
    together(comms.formed, nccl().CommAbort, "ncclCommAbort");
    together(comms.joining, nccl().CommAbort, "ncclCommAbort");
}

}  // namespace lm::cuda
