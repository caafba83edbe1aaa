// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp/torch_store.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace lm::comm {
namespace {

constexpr u32 magic = 0x3C85F7CE;
constexpr u64 longest_value = 4096;  // this program's values are shorter

template <typename T>
std::string bytes_of_number(T number) {
    std::string bytes(sizeof number, '\0');
    std::memcpy(bytes.data(), &number, sizeof number);
    return bytes;
}

std::string sized(const std::string& text) {
    return bytes_of_number(u64{text.size()}) + text;
}

template <typename T>
bool receive(const Socket& socket, T& value, const Deadline& deadline) {
    return socket.receive_all(std::as_writable_bytes(std::span(&value, 1)), deadline);
}

}  // namespace

std::optional<TorchStore> TorchStore::connect(const std::string& host, int port,
                                              const Deadline& deadline, std::string* problem) {
    for (const bool is_old : {false, true}) {
        Socket socket = connect_to(host, port, deadline, problem);
        if (!socket) return std::nullopt;
        socket.tune();
        TorchStore store(std::move(socket), is_old);
        if (is_old) return store;
        // The magic number, and four requests for the number of keys. A server that is older than
        // PyTorch 2.1 takes these bytes for a SET of a key of 2^58 bytes, and closes the
        // connection.
        constexpr size_t n_requests = 4;
        std::string hello = store.request(Operation::validate) + bytes_of_number(magic);
        for (size_t i = 0; i < n_requests; ++i) hello += store.request(Operation::n_keys);
        std::array<i64, n_requests> replies{};
        if (store.send(hello, deadline) && receive(store.socket_, replies, deadline)) return store;
        const int error = errno;
        *problem = std::strerror(error);
        if (error != ECONNRESET) return std::nullopt;
    }
    return std::nullopt;
}

std::string TorchStore::request(Operation operation) const {
    return std::string(1, static_cast<char>(static_cast<u8>(operation) - (is_old_ ? 1 : 0)));
}

bool TorchStore::send(const std::string& bytes, const Deadline& deadline) {
    return socket_.send_all(std::as_bytes(std::span(bytes)), deadline);
}

bool TorchStore::set(const std::string& key, const std::string& value, const Deadline& deadline) {
    // The store does not reply to a SET. It replies to the question whether the key exists.
    u8 missing = 0;
    if (!send(request(Operation::set) + sized(key) + sized(value), deadline) ||
        !send(request(Operation::check) + bytes_of_number(u64{1}) + sized(key), deadline) ||
        !receive(socket_, missing, deadline)) {
        return false;
    }
    errno = EPROTO;
    return missing == 0;
}

std::optional<std::string> TorchStore::get(const std::string& key, const Deadline& deadline) {
    u8 stopped = 0;
    u64 n_bytes = 0;
    if (!send(request(Operation::wait) + bytes_of_number(u64{1}) + sized(key), deadline) ||
        !receive(socket_, stopped, deadline) ||
        !send(request(Operation::get) + sized(key), deadline) ||
        !receive(socket_, n_bytes, deadline)) {
        return std::nullopt;
    }
    errno = EPROTO;
    if (stopped != 0 || n_bytes > longest_value) return std::nullopt;
    std::string value(n_bytes, '\0');
    if (!socket_.receive_all(std::as_writable_bytes(std::span(value)), deadline)) {
        return std::nullopt;
    }
    return value;
}

}  // namespace lm::comm
