// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl/nccl_channel.hpp"

#include <chrono>
#include <thread>
#include <utility>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "base/log.hpp"
#include "base/threads.hpp"
#include "cuda/nccl/nccl_library.hpp"

namespace lm::cuda {

using comm::Operation;
using comm::OperationKind;
using comm::Reduction;

namespace {

// The bytes of the largest operation in first_operations(). cost/nccl.cpp plans the memory for it
// (first_operations_bytes).
constexpr i64 first_bytes = i64{1} << 20;

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

// Returns the count argument of an NCCL call for n elements. NCCL has no 16-bit integers, so it
// moves uint16 as bytes and cannot reduce uint16.
size_t nccl_count(DType dtype, i64 n) {
    return static_cast<size_t>(dtype == DType::uint16 ? 2 * n : n);
}

ncclConfig_t config_of(const std::string& name, int max_blocks) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    config.splitShare = 0;  // communicators that share resources wait for each other
#if NCCL_VERSION_CODE >= NCCL_VERSION(2, 27, 0)
    config.commName = name.c_str();
#else
    (void)name;
#endif
    if (max_blocks > 0) config.maxCTAs = max_blocks;
    return config;
}

std::byte* at(const void* base, i64 elements, DType dtype) {
    return static_cast<std::byte*>(const_cast<void*>(base)) + elements * size_of(dtype);
}

void check(ncclResult_t result, ncclComm_t comm, const std::string& name, const char* what) {
    if (result == ncclSuccess || result == ncclInProgress) return;
    run_error(fmt::format("group '{}'", name), "{}: {}: {}", what, nccl().GetErrorString(result),
              nccl().GetLastError(comm));
}

// Waits until the last call with `comm` is complete. With NCCL_COMM_BLOCKING=0 in the environment,
// a call returns before it is complete even when the communicator is blocking.
void settle(ncclComm_t comm, const std::string& name) {
    for (ncclResult_t state = ncclInProgress; state == ncclInProgress; std::this_thread::yield()) {
        check(nccl().CommGetAsyncError(comm, &state), comm, name, "ncclCommGetAsyncError");
        check(state, comm, name, "NCCL");
    }
}

}  // namespace

std::shared_ptr<NcclChannel> NcclChannel::open(CudaDevice& device, std::string name,
                                               std::shared_ptr<comm::Group> host, int rank,
                                               int size, int peer, int max_blocks) {
    std::shared_ptr<NcclChannel> channel(
        new NcclChannel(device, std::move(name), std::move(host), rank, size, peer, max_blocks));
    channel->first_data_ = device.allocate(first_bytes, "NCCL");
    // The stream has the highest priority, because other ranks wait for this rank's communication
    // and not for its computation.
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

void NcclChannel::move_communicators(Communicators& comms) {
    if (comm_ != nullptr) comms.push_back(std::exchange(comm_, nullptr));
}

// ---- Forming -----------------------------------------------------------------------------------

void NcclChannel::join(std::vector<ncclUniqueId> ids) {
    std::packaged_task<ncclComm_t()> task([ids = std::move(ids), name = name_, rank = rank_,
                                           size = size_, max_blocks = max_blocks_,
                                           device = device_.index()]() mutable {
        cudaSetDevice(device);
        ncclConfig_t config = config_of(name, max_blocks);
        ncclComm_t comm = nullptr;
        if (ids.size() == 1) {
            check(nccl().CommInitRankConfig(&comm, size, ids[0], rank, &config), comm, name,
                  "ncclCommInitRankConfig");
        } else {
            check(nccl().CommInitRankScalable(&comm, size, rank, static_cast<int>(ids.size()),
                                              ids.data(), &config),
                  comm, name, "ncclCommInitRankScalable");
        }
        settle(comm, name);
        return comm;
    });
    joining_ = task.get_future();
    start_thread(std::move(task)).detach();
}

bool NcclChannel::formed() {
    if (comm_ != nullptr) return true;
    if (joining_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return false;
    comm_ = joining_.get();  // throws if the helper thread has failed
    return true;
}

std::vector<Operation> NcclChannel::first_operations() const {
    std::vector<Operation> operations;
    void* const all = first_data_.data();
    for (const i64 bytes : {i64{64}, first_data_.bytes()}) {
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

// Checks the result of an NCCL call. On return the kernel of the call is in the stream.
void NcclChannel::finish_call(ncclResult_t result, const char* what) {
    check(result, comm_, name_, what);
    if (result == ncclInProgress) settle(comm_, name_);
}

// Returns an unused record with its two events. A record may be reused when its operation has ended
// (`complete`) and no Work handle refers to it any more (`held` is false). Creates a record only
// when more are in use than ever before, so later steps create none.
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

// Removes ended operations from pending_. Operations end in the order in which they are in the
// stream.
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
        cudaGetLastError();  // clears the error, so that the next launch does not report it
        return false;
    }
    device_.check(status);
    return true;
}

void NcclChannel::release(ChannelOperation& record) {
    record.held = false;  // if the operation is pending, reap() later makes its record reusable
    if (record.complete) unused_.push_back(&record);
}

// The CPU waits for no stream. This channel's stream waits for the event `ready` of the compute
// stream. When the caller waits for the operation (NcclGroup::wait()), the compute stream waits for
// the event `end`.
ChannelOperation* NcclChannel::start(const Operation& operation, i64 number,
                                     const ChannelOperation* after) {
    LM_CHECK(comm_ != nullptr, "group '{}': expected a formed communicator, got none", name_);
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

// ---- Errors and timeouts -----------------------------------------------------------------------

// Once the inputs of an operation are ready, it waits only for other ranks. The timeout counts from
// that moment.
std::optional<ChannelError> NcclChannel::poll(double timeout_s) {
    if (comm_ == nullptr) return std::nullopt;
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
    // Only the oldest operation can time out, because later operations wait for it in the stream.
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

// Calls `end` for all communicators in one NCCL group call. Logs an error as a warning and does not
// throw.
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
    together(comms, nccl().CommFinalize, "ncclCommFinalize");
    together(comms, nccl().CommDestroy, "ncclCommDestroy");
}

void abort_together(const Communicators& comms) noexcept {
    together(comms, nccl().CommAbort, "ncclCommAbort");
}

}  // namespace lm::cuda
