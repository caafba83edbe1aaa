// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl_channel.hpp"

#include <algorithm>

#include "base/clock.hpp"
#include "base/error.hpp"
#include "cuda/max_keys.hpp"

namespace lm::cuda {

using comm::Kind;
using comm::Operation;
using comm::Reduction;

namespace {

// Keys of 16-bit floats do not fit in their place: maxima of them go through a buffer, in turns.
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

// NCCL has no 16-bit integers; they are only moved, as bytes.
size_t nccl_count(DType dtype, i64 n) {
    return static_cast<size_t>(dtype == DType::uint16 ? 2 * n : n);
}

ncclConfig_t config_of(const std::string& name) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    config.splitShare = 0;  // sharing, the parts would wait for each other
    config.commName = name.c_str();
    return config;
}

bool is_float(DType dtype) {
    return dtype == DType::fp32 || dtype == DType::fp64 || is_half(dtype);
}

std::byte* at(const void* base, i64 elements, DType dtype) {
    return static_cast<std::byte*>(const_cast<void*>(base)) + elements * size_of(dtype);
}

}  // namespace

Channel::Channel(CudaDevice& device, std::string name, std::shared_ptr<comm::Group> host, int rank,
                 int size)
    : device_(device), name_(std::move(name)), host_(std::move(host)), rank_(rank), size_(size) {
    // Collectives go first where both want the GPU: other ranks wait for them.
    int least = 0;
    int greatest = 0;
    device_.check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    device_.check(cudaStreamCreateWithPriority(&stream_, cudaStreamNonBlocking, greatest));
}

Channel::~Channel() {
    if (comm_ != nullptr) abort_together({take()});
    for (const std::unique_ptr<Flight>& flight : flights_) {
        cudaEventDestroy(flight->ready);
        cudaEventDestroy(flight->end);
    }
    cudaStreamDestroy(stream_);
}

void Channel::call(ncclResult_t result, const char* what) {
    in_progress_ = result == ncclInProgress;
    if (result == ncclSuccess || in_progress_) return;
    run_error(fmt::format("group '{}'", name_), "{}: {}: {}", what, ncclGetErrorString(result),
              ncclGetLastError(comm_));
}

// ---- Forming -----------------------------------------------------------------------------------

void Channel::join(const ncclUniqueId& id) {
    ncclConfig_t config = config_of(name_);
    call(ncclCommInitRankConfig(&comm_, size_, id, rank_, &config), "ncclCommInitRankConfig");
    in_progress_ = true;
}

void Channel::join_after(comm::Work exchange, std::unique_ptr<ncclUniqueId> id) {
    id_ = std::move(id);
    id_exchange_ = exchange;
}

// NCCL sets comm_ when the parent is no longer in progress.
void Channel::join_part(Channel& parent, int color, int key) {
    parent_ = &parent;
    ncclConfig_t config = config_of(name_);
    parent.call(ncclCommSplit(parent.comm_, color, key, &comm_, &config), "ncclCommSplit");
    parent.in_progress_ = true;
    in_progress_ = true;
}

bool Channel::formed() {
    if (parent_ != nullptr) {
        if (!parent_->settled()) return false;
        parent_ = nullptr;
    }
    return settled();
}

bool Channel::settled() {
    if (comm_ == nullptr) return true;
    if (!in_progress_) return true;
    ncclResult_t state = ncclSuccess;
    call(ncclCommGetAsyncError(comm_, &state), "ncclCommGetAsyncError");
    call(state, "NCCL");
    return !in_progress_;
}

// ---- Operations --------------------------------------------------------------------------------

Flight* Channel::unused() {
    if (unused_.empty()) reap();
    if (unused_.empty()) {
        Flight& flight = *flights_.emplace_back(std::make_unique<Flight>());
        device_.check(cudaEventCreateWithFlags(&flight.ready, cudaEventDisableTiming));
        device_.check(cudaEventCreateWithFlags(&flight.end, cudaEventDisableTiming));
        unused_.push_back(&flight);
    }
    Flight* const flight = unused_.back();
    unused_.pop_back();
    *flight = {.ready = flight->ready, .end = flight->end};
    return flight;
}

// The first ones end first.
void Channel::reap() {
    while (!under_way_.empty() && done(*under_way_.front())) {
        Flight* const flight = under_way_.front();
        under_way_.pop_front();
        --n_told_;
        flight->complete = true;
        if (!flight->held) unused_.push_back(flight);
    }
}

bool Channel::done(Flight& flight) {
    if (flight.complete) return true;
    if (!flight.recorded) return false;
    const cudaError_t status = cudaEventQuery(flight.end);
    if (status == cudaErrorNotReady) {
        cudaGetLastError();  // no error that a launch should find
        return false;
    }
    device_.check(status);
    return true;
}

void Channel::release(Flight& flight) {
    flight.held = false;
    if (flight.complete) unused_.push_back(&flight);
}

Flight* Channel::start(const Operation& operation, i64 number) {
    // Here and not in tell(), which the watch may come to: memory is for the rank's own thread.
    if (takes_keys(operation) && !keys_in_place(operation.dtype) && keys_.bytes() == 0) {
        LM_CHECK(size_ <= n_keys, "too many ranks for maxima");
        keys_ = device_.allocate(n_keys * size_of(DType::int32), "maxima");
    }
    Flight* const flight = unused();
    flight->operation = operation;
    flight->number = number;
    flight->held = true;
    device_.check(cudaEventRecord(flight->ready, device_.stream()));
    under_way_.push_back(flight);
    advance();
    return flight;
}

void Channel::advance() {
    if (id_ != nullptr && id_exchange_.done()) join(*std::exchange(id_, nullptr));
    if (!usable() || !settled()) return;
    while (true) {
        if (busy_ == nullptr) {
            if (n_told_ == under_way_.size()) return;
            busy_ = under_way_[n_told_++];
            device_.check(cudaStreamWaitEvent(stream_, busy_->ready));
            tell(*busy_);
        }
        if (!settled()) return;
        conclude(*busy_);
    }
}

bool Channel::takes_keys(const Operation& o) const {
    const bool reduces = o.kind == Kind::all_reduce || o.kind == Kind::reduce_scatter;
    return reduces && o.reduction == Reduction::max && is_float(o.dtype);
}

void Channel::tell(Flight& flight) {
    const Operation& o = flight.operation;
    if (takes_keys(o)) return tell_maximum(flight);
    const ncclRedOp_t op = o.reduction == Reduction::sum ? ncclSum : ncclMax;
    const ncclDataType_t type = nccl_type(o.dtype);
    const size_t n = nccl_count(o.dtype, o.n);
    switch (o.kind) {
        case Kind::all_reduce:
            return call(ncclAllReduce(o.in, o.out, n, type, op, comm_, stream_), "ncclAllReduce");
        case Kind::reduce_scatter:
            return call(ncclReduceScatter(o.in, o.out, n, type, op, comm_, stream_),
                        "ncclReduceScatter");
        case Kind::all_gather:
            return call(ncclAllGather(o.in, o.out, n, type, comm_, stream_), "ncclAllGather");
        case Kind::broadcast:
            return call(ncclBroadcast(o.in, o.out, n, type, o.peer, comm_, stream_),
                        "ncclBroadcast");
        case Kind::send:  // a channel of messages has two ranks
            return call(ncclSend(o.in, n, type, 1 - rank_, comm_, stream_), "ncclSend");
        case Kind::receive:
            return call(ncclRecv(o.out, n, type, 1 - rank_, comm_, stream_), "ncclRecv");
        case Kind::barrier:
        case Kind::split:
            break;
    }
    LM_CHECK(false, "an operation without data on a device");
}

// NCCL knows the operation; more of it, or its end, goes into the stream.
void Channel::conclude(Flight& flight) {
    if (takes_keys(flight.operation) && !conclude_maximum(flight)) return tell_maximum(flight);
    device_.check(cudaEventRecord(flight.end, stream_));
    flight.recorded = true;
    busy_ = nullptr;
}

// ---- Maxima ------------------------------------------------------------------------------------

// Elements of each part that go into one call.
i64 Channel::keys_of_turn(const Flight& flight) const {
    const Operation& o = flight.operation;
    if (keys_in_place(o.dtype)) return o.n;
    const i64 n_parts = o.kind == Kind::all_reduce ? 1 : size_;
    return std::min(n_keys / n_parts, o.n - flight.n_reduced);
}

void Channel::tell_maximum(Flight& flight) {
    const Operation& o = flight.operation;
    const i64 n_parts = o.kind == Kind::all_reduce ? 1 : size_;
    const i64 n = keys_of_turn(flight);
    const bool in_place = keys_in_place(o.dtype);
    void* const keys = in_place ? const_cast<void*>(o.in) : keys_.data();
    for (i64 part = 0; part < n_parts; ++part) {
        to_keys(stream_, o.dtype, at(o.in, part * o.n + flight.n_reduced, o.dtype),
                at(keys, part * n, key_type(o.dtype)), n);
    }
    void* const result = in_place ? o.out : at(keys, n_parts == 1 ? 0 : rank_ * n, DType::int32);
    const auto count = static_cast<size_t>(n);
    const ncclDataType_t type = nccl_type(key_type(o.dtype));
    if (o.kind == Kind::all_reduce) {
        return call(ncclAllReduce(keys, result, count, type, ncclMax, comm_, stream_),
                    "ncclAllReduce");
    }
    call(ncclReduceScatter(keys, result, count, type, ncclMax, comm_, stream_),
         "ncclReduceScatter");
}

// True: that was all.
bool Channel::conclude_maximum(Flight& flight) {
    const Operation& o = flight.operation;
    const i64 n = keys_of_turn(flight);
    if (!keys_in_place(o.dtype)) {
        const i64 part = o.kind == Kind::all_reduce ? 0 : rank_;
        from_keys(stream_, o.dtype, at(keys_.data(), part * n, DType::int32),
                  at(o.out, flight.n_reduced, o.dtype), n);
        flight.n_reduced += n;
        return flight.n_reduced == o.n;
    }
    from_keys(stream_, o.dtype, o.out, o.out, n);
    // What was read is given back as it was, unless the result lies in it.
    const bool apart = o.kind == Kind::reduce_scatter && o.out != at(o.in, rank_ * n, o.dtype);
    if (apart) from_keys(stream_, o.dtype, o.in, const_cast<void*>(o.in), size_ * n);
    return true;
}

// ---- Watching ----------------------------------------------------------------------------------

std::optional<Trouble> Channel::look(double timeout_s) {
    advance();
    if (!usable()) return std::nullopt;
    ncclResult_t state = ncclSuccess;
    ncclCommGetAsyncError(comm_, &state);
    const auto trouble = [this](const std::string& text, double waited_s) {
        return Trouble{under_way_.empty() ? Flight{} : *under_way_.front(), text, waited_s};
    };
    if (state != ncclSuccess && state != ncclInProgress) {
        return trouble(fmt::format("{}: {}", ncclGetErrorString(state), ncclGetLastError(comm_)),
                       0);
    }
    if (state == ncclSuccess) in_progress_ = false;
    reap();
    if (under_way_.empty()) return std::nullopt;
    Flight& first = *under_way_.front();
    const double now_s = monotonic_s();
    if (first.since_s < 0) {
        const cudaError_t status = cudaEventQuery(first.ready);
        if (status == cudaSuccess) first.since_s = now_s;
        cudaGetLastError();
    } else if (now_s - first.since_s > timeout_s) {
        return trouble("", now_s - first.since_s);
    }
    return std::nullopt;
}

// ---- The end -----------------------------------------------------------------------------------

bool Channel::idle() {
    advance();
    reap();
    return under_way_.empty() || comm_ == nullptr;
}

void Channel::begin_end() {
    ending_ = true;
    if (comm_ != nullptr) call(ncclCommFinalize(comm_), "ncclCommFinalize");
}

bool Channel::ended() {
    if (!settled()) return false;
    if (comm_ != nullptr) call(ncclCommDestroy(std::exchange(comm_, nullptr)), "ncclCommDestroy");
    return true;
}

void abort_together(const std::vector<ncclComm_t>& comms) noexcept {
    ncclGroupStart();
    for (ncclComm_t comm : comms) ncclCommAbort(comm);
    ncclGroupEnd();
}

}  // namespace lm::cuda
