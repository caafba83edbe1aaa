// SPDX-License-Identifier: Apache-2.0
// libFuzzer: any bytes on the connections of a hub (comm/tcp). The first byte decides what the
// connections have proved: nothing, rank 1 before the start, or ranks 1 and 2 of a job of 3 that
// has started. Then frames follow: a byte that chooses the sender, a frame, and its bytes. Without
// proof the bytes are sent as they are. The hub never crashes, and ends when all ranks have ended.
#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>

#include "base/error.hpp"
#include "base/log.hpp"
#include "comm/tcp/hub.hpp"

namespace {

using namespace lm;
using namespace lm::comm;

constexpr int n_ranks = 3;

Socket connected(const TcpHub& hub) {
    std::string problem;
    Socket socket = connect_to("127.0.0.1", hub.port(), Deadline(5), &problem);
    if (!socket) std::abort();
    return socket;
}

template <typename T>
void send(const Socket& socket, const T& value) {
    (void)socket.send_all(std::as_bytes(std::span(&value, 1)), Deadline(5));
}

Socket joined(const TcpHub& hub, const Meeting& meeting, int rank) {
    Socket socket = connected(hub);
    Hello hello{};
    std::memcpy(hello.magic, hello_magic, sizeof hello_magic);
    hello.size = n_ranks;
    send(socket, Frame{.kind = FrameKind::hello, .from = rank, .n_bytes = sizeof hello});
    send(socket, hello);
    Frame reply;
    Challenge challenge;
    if (!socket.receive_all(std::as_writable_bytes(std::span(&reply, 1)), Deadline(5)) ||
        !socket.receive_all(std::as_writable_bytes(std::span(&challenge, 1)), Deadline(5))) {
        std::abort();
    }
    send(socket, Frame{.kind = FrameKind::proof, .from = rank, .n_bytes = sizeof(Proof)});
    send(socket, prove(meeting.token, Prover::rank, rank, hello, challenge.nonce));
    return socket;
}

// Sends the frames of the input. Ranks that are not connected do not send.
void send_frames(const std::array<Socket, n_ranks>& ranks, std::span<const std::uint8_t> input) {
    constexpr std::uint8_t keep_sender = 0x80;
    while (input.size() > 1) {
        const std::uint8_t choice = input[0];
        const int sender = choice % n_ranks;
        input = input.subspan(1);
        Frame frame;
        const size_t n = std::min(sizeof frame, input.size());
        std::memcpy(static_cast<void*>(&frame), input.data(), n);
        input = input.subspan(n);
        if ((choice & keep_sender) == 0) frame.from = frame.member = sender;
        const size_t n_bytes = std::min<size_t>(frame.n_bytes % 256, input.size());
        const std::span<const std::uint8_t> bytes = input.first(n_bytes);
        input = input.subspan(n_bytes);
        const Socket& socket = ranks[static_cast<size_t>(sender)];
        if (!socket) continue;
        send(socket, frame);
        (void)socket.send_all(std::as_bytes(bytes), Deadline(5));
    }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    if (size < 1) return 0;
    const std::span<const std::uint8_t> input(data + 1, size - 1);
    const int n_joined = data[0] % 3;
    const Meeting meeting{.size = n_ranks, .host = "127.0.0.1", .token = "secret"};
    TcpHub hub(meeting, 60);
    hub.start();
    std::array<Socket, n_ranks> ranks;
    ranks[0] = hub.connection_of_rank0();
    for (int rank = 1; rank <= n_joined; ++rank) {
        ranks[static_cast<size_t>(rank)] = joined(hub, meeting, rank);
    }
    if (n_joined == 0) {
        ranks[1] = connected(hub);
        (void)ranks[1].send_all(std::as_bytes(input), Deadline(5));
    } else {
        send_frames(ranks, input);
    }
    // The hub closes a connection when it has read its end, and so all that was sent.
    for (const Socket& socket : ranks) {
        if (!socket) continue;
        shutdown(socket.fd(), SHUT_WR);
        std::byte byte{};
        while (socket.receive_all(std::span(&byte, 1), Deadline(5))) {
        }
    }
    hub.stop();
    return 0;
}
