// SPDX-License-Identifier: Apache-2.0
// A client of the key-value store (TCPStore of PyTorch) that the agent of torchrun serves at
// MASTER_ADDR:MASTER_PORT. The agent owns that port, so rank 0 listens at a port that the system
// picks, and gives it to the other ranks through the store.
//
// Protocol (torch/csrc/distributed/c10d, TCPStoreBackend): a request is one byte for the operation,
// then its arguments; texts are their length in 8 bytes and their bytes; all little-endian. Since
// PyTorch 2.1 a connection begins with operation 0 and a magic number, and the other operations
// have moved up by one.
#pragma once

#include <optional>
#include <string>

#include "comm/tcp/socket.hpp"

namespace lm::comm {

class TorchStore {
  public:
    // Connects to the store. On failure returns nullopt and stores the reason.
    static std::optional<TorchStore> connect(const std::string& host, int port,
                                             const Deadline& deadline, std::string* problem);

    // Stores a value. Returns false when the connection has failed.
    bool set(const std::string& key, const std::string& value, const Deadline& deadline);
    // Blocks until the key exists, and returns its value. Returns nullopt at the deadline, or when
    // the connection has failed; errno states how.
    std::optional<std::string> get(const std::string& key, const Deadline& deadline);

  private:
    enum class Operation : u8 { validate, set, compare_set, get, add, check, wait, n_keys };

    TorchStore(Socket socket, bool is_old) : socket_(std::move(socket)), is_old_(is_old) {}
    std::string request(Operation operation) const;
    bool send(const std::string& bytes, const Deadline& deadline);

    Socket socket_;
    bool is_old_;  // the server is older than PyTorch 2.1
};

}  // namespace lm::comm
