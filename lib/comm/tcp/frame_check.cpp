// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/frame_check.hpp"

#include <fmt/format.h>

#include "base/error.hpp"

namespace lm::comm {
namespace {

bool is_below(i64 value, i64 end) {
    return value >= 0 && value < end;
}

bool is_error_code(u8 code) {
    switch (static_cast<Exit>(code)) {
        case Exit::answer_is_no:
        case Exit::usage:
        case Exit::failure:
        case Exit::self_stopped:
        case Exit::bug:
        case Exit::run_again:
        case Exit::do_not_run_again:
        case Exit::superseded:
            return true;
        case Exit::done:
            break;
    }
    return false;
}

bool can_be_reduced(DType dtype) {
    return dtype != DType::uint8 && dtype != DType::uint16;
}

std::string size_problem(const Frame& frame, i64 wanted) {
    if (frame.n_bytes == wanted) return {};
    return fmt::format("{} bytes instead of {}", frame.n_bytes, wanted);
}

std::string text_problem(const Frame& frame) {
    if (frame.n_bytes <= max_text_bytes) return {};
    return fmt::format("{} bytes of text, at most {}", frame.n_bytes, max_text_bytes);
}

std::string problem_of_operation(const Frame& frame, int n_members) {
    if (frame.operation > static_cast<u8>(OperationKind::receive) ||
        frame.reduction > static_cast<u8>(Reduction::max) ||
        frame.dtype > static_cast<u8>(DType::fp16)) {
        return fmt::format("operation {}, reduction {}, type {}", frame.operation, frame.reduction,
                           frame.dtype);
    }
    const Operation o = operation_of(frame);
    const bool is_send = o.kind == OperationKind::send;
    if (is_send != (frame.kind == FrameKind::message) || o.kind == OperationKind::receive) {
        return fmt::format("operation {} in a frame of kind {}", name_of(o.kind),
                           static_cast<u32>(frame.kind));
    }
    const bool reduces =
        o.kind == OperationKind::all_reduce || o.kind == OperationKind::reduce_scatter;
    if (reduces && !can_be_reduced(o.dtype)) {
        return fmt::format("{} of {}", name_of(o.kind), lm::name_of(o.dtype));
    }
    if ((is_send || o.kind == OperationKind::broadcast) && !is_below(o.peer, n_members)) {
        return fmt::format("member {} of {}", o.peer, n_members);
    }
    if (!is_below(o.n, max_elements(o, n_members) + 1)) {
        return fmt::format("{} elements, at most {}", o.n, max_elements(o, n_members));
    }
    if (o.kind == OperationKind::split) return size_problem(frame, sizeof(SplitChoice));
    return size_problem(frame, o.input_bytes(frame.member, n_members));
}

}  // namespace

i64 max_elements(const Operation& operation, int n_members) {
    const bool has_parts = operation.kind == OperationKind::all_gather ||
                           operation.kind == OperationKind::reduce_scatter;
    return i64{max_frame_bytes} / size_of(operation.dtype) / (has_parts ? n_members : 1);
}

std::string problem_of(const Frame& frame, int sender, int n_ranks,
                       const std::vector<int>* members) {
    if (frame.from != sender) return fmt::format("a frame of rank {}", frame.from);
    const auto n_members = members == nullptr ? 0 : static_cast<int>(members->size());
    const bool is_member = is_below(frame.member, n_members) &&
                           (*members)[static_cast<size_t>(frame.member)] == sender;
    switch (frame.kind) {
        case FrameKind::post:
        case FrameKind::message:
            if (!is_member || frame.number < 0) {
                return fmt::format("operation {} of member {} of group {}", frame.number,
                                   frame.member, frame.group);
            }
            return problem_of_operation(frame, n_members);
        case FrameKind::question:
            if (members == nullptr || (frame.peer != -1 && !is_below(frame.peer, n_members))) {
                return fmt::format("a question to member {} of group {}", frame.peer, frame.group);
            }
            return size_problem(frame, 0);
        case FrameKind::answer:
            if (!is_below(frame.peer, n_ranks)) {
                return fmt::format("an answer to rank {}", frame.peer);
            }
            return text_problem(frame);
        case FrameKind::failure:
            if (!is_error_code(frame.code)) return fmt::format("exit code {}", frame.code);
            return text_problem(frame);
        case FrameKind::bye:
            return size_problem(frame, 0);
        case FrameKind::hello:
        case FrameKind::challenge:
        case FrameKind::proof:
        case FrameKind::welcome:
        case FrameKind::result:
        case FrameKind::host:
            break;
    }
    return fmt::format("a frame of kind {}", static_cast<u32>(frame.kind));
}

}  // namespace lm::comm
