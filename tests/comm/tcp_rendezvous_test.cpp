// SPDX-License-Identifier: Apache-2.0
// What the ranks of a job share before they connect: the token, in a file or in the store of
// torchrun's agent, and the proofs that they know it.
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <map>
#include <thread>

#include "base/error.hpp"
#include "comm/tcp/proof.hpp"
#include "comm/tcp/rendezvous.hpp"
#include "comm/tcp/token_file.hpp"
#include "comm/tcp/torch_store.hpp"
#include "comm/tcp/world.hpp"
#include "io/atomic.hpp"
#include "io/file.hpp"
#include "support/catch.hpp"
#include "support/free_port.hpp"
#include "support/temp_dir.hpp"

using namespace lm;
using namespace lm::comm;

namespace {

// A server of the protocol of PyTorch 2.1 or later, or of an earlier version, for one key.
class Store {
  public:
    explicit Store(bool is_old) : is_old_(is_old) {
        bool everywhere = false;
        listeners_ = listen_on("127.0.0.1", 0, Deadline(0), &everywhere);
        thread_ = std::thread([this] { serve(); });
    }
    ~Store() {
        std::string problem;
        over_ = true;
        (void)connect_to("127.0.0.1", port(), Deadline(5), &problem);
        thread_.join();
    }
    int port() const { return port_of(listeners_[0]); }

  private:
    void serve() {
        while (!over_) {
            const int fd = accept4(listeners_[0].fd(), nullptr, nullptr, SOCK_CLOEXEC);
            if (fd < 0) {
                usleep(1000);
                continue;
            }
            const Socket socket(fd);
            while (answer(socket)) {
            }
        }
    }
    template <typename T>
    bool receive(const Socket& socket, T& value) {
        return socket.receive_all(std::as_writable_bytes(std::span(&value, 1)), Deadline(5));
    }
    template <typename T>
    bool send(const Socket& socket, const T& value) {
        return socket.send_all(std::as_bytes(std::span(&value, 1)), Deadline(5));
    }
    bool receive_text(const Socket& socket, std::string& text) {
        u64 n_bytes = 0;
        if (!receive(socket, n_bytes) || n_bytes > 1000) return false;
        text.resize(n_bytes);
        return socket.receive_all(std::as_writable_bytes(std::span(text)), Deadline(5));
    }
    bool answer(const Socket& socket) {
        u8 operation = 0;
        if (!receive(socket, operation)) return false;
        std::string key, value;
        u64 n_keys = 0;
        u32 magic = 0;
        switch (operation + (is_old_ ? 1 : 0)) {
            case 0:
                return receive(socket, magic) && magic == 0x3C85F7CE;
            case 1:
                if (!receive_text(socket, key) || !receive_text(socket, value)) return false;
                if (key != "lost") values_[key] = value;
                return true;
            case 3:
                return receive_text(socket, key) && send(socket, u64{values_[key].size()}) &&
                       socket.send_all(std::as_bytes(std::span(values_[key])), Deadline(5));
            case 5:
                return receive(socket, n_keys) && n_keys == 1 && receive_text(socket, key) &&
                       send(socket, u8{values_.contains(key) ? u8{0} : u8{1}});
            case 6:
                return receive(socket, n_keys) && n_keys == 1 && receive_text(socket, key) &&
                       values_.contains(key) && send(socket, u8{0});
            case 7:
                return send(socket, i64{1});
            default:
                return false;
        }
    }

    bool is_old_;
    std::map<std::string, std::string> values_;
    std::vector<Socket> listeners_;
    std::atomic<bool> over_{false};
    std::thread thread_;
};

// Runs a job of 3 ranks, as threads, with the values of `meeting`. Returns the errors by rank.
std::vector<std::string> run_job(const Meeting& meeting, const std::vector<int>& ranks,
                                 double timeout_s) {
    std::vector<std::string> errors(ranks.size());
    std::vector<std::thread> threads;
    for (size_t i = 0; i < ranks.size(); ++i) {
        threads.emplace_back([&, i] {
            Meeting own = meeting;
            own.rank = ranks[i];
            errors[i] = test::caught([&] {
                            TcpWorld world(own, {.timeout_s = timeout_s});
                            world.join();
                            world.world().barrier();
                        }).message;
        });
    }
    for (std::thread& thread : threads) thread.join();
    return errors;
}

}  // namespace

TEST_CASE("a proof depends on the token, the prover, the rank, the hello and the nonce") {
    const Hello hello{};
    const Nonce nonce{};
    const Proof proof = prove("a token", Prover::rank, 3, hello, nonce);
    CHECK(is_equal(proof, prove("a token", Prover::rank, 3, hello, nonce)));
    CHECK_FALSE(is_equal(proof, prove("a tokem", Prover::rank, 3, hello, nonce)));
    CHECK_FALSE(is_equal(proof, prove("", Prover::rank, 3, hello, nonce)));
    CHECK_FALSE(is_equal(proof, prove("a token", Prover::hub, 3, hello, nonce)));
    CHECK_FALSE(is_equal(proof, prove("a token", Prover::rank, 4, hello, nonce)));
    Hello other = hello;
    other.host[63] = 'x';
    CHECK_FALSE(is_equal(proof, prove("a token", Prover::rank, 3, other, nonce)));
    CHECK_FALSE(is_equal(proof, prove("a token", Prover::rank, 3, hello, random_nonce())));
    CHECK(random_token().size() == 64);
    CHECK(random_token() != random_token());
}

TEST_CASE("the file of a token can be read by its user only, and disappears") {
    const test::TempDir dir;
    const std::string path = dir.path() + "/save/token";
    {
        TokenFile file(path);
        file.write("abc");
        struct stat status {};
        REQUIRE(stat(path.c_str(), &status) == 0);
        CHECK((status.st_mode & 0777) == 0600);
        CHECK(TokenFile::read(path) == "abc");
        TokenFile again(path);  // what a killed start has left is replaced
        again.write("def");
        CHECK(TokenFile::read(path) == "def");
    }
    CHECK_FALSE(io::exists(dir.path() + "/save"));
    CHECK(TokenFile::read(path).empty());
    // A link is not followed, neither by the reader nor by the writer.
    const std::string target = dir.path() + "/target";
    io::write_file(target, "foreign", io::Overwrite::yes);
    const std::string link = dir.path() + "/link";
    REQUIRE(symlink(target.c_str(), link.c_str()) == 0);
    CHECK(TokenFile::read(link).empty());
    TokenFile file(link);
    file.write("ghi");
    CHECK(io::read_file(target) == "foreign");
    CHECK(TokenFile::read(link) == "ghi");
}

TEST_CASE("the file of a token that others own or can read is none") {
    const test::TempDir dir;
    const std::string path = dir.path() + "/token";
    TokenFile file(path);
    file.write("abc");
    REQUIRE(chmod(path.c_str(), 0640) == 0);
    CHECK(TokenFile::read(path).empty());
    REQUIRE(chmod(path.c_str(), 0600) == 0);
    CHECK(TokenFile::read(path) == "abc");
    constexpr uid_t other_user = 65534;
    if (chown(path.c_str(), other_user, 0) != 0) return;  // only root can
    CHECK(TokenFile::read(path).empty());
}

// Before rank 0 has written its file, a program that listens at its port could prove that it knows
// the empty token.
TEST_CASE("a hub that proves an empty token is not joined") {
    const test::TempDir dir;
    bool everywhere = false;
    const std::vector<Socket> listeners = listen_on("127.0.0.1", 0, Deadline(0), &everywhere);
    std::atomic<bool> over{false}, was_joined{false};
    std::thread impostor([&] {
        while (!over) {
            const Socket socket(accept4(listeners[0].fd(), nullptr, nullptr, SOCK_CLOEXEC));
            if (!socket) {
                usleep(1000);
                continue;
            }
            Frame frame;
            Hello hello{};
            const auto bytes = [](auto& value) {
                return std::as_writable_bytes(std::span(&value, 1));
            };
            if (!socket.receive_all(bytes(frame), Deadline(5)) ||
                !socket.receive_all(bytes(hello), Deadline(5)))
                continue;
            Challenge challenge{.nonce = random_nonce(), .proof = {}};
            challenge.proof = prove("", Prover::hub, frame.from, hello, challenge.nonce);
            Frame reply{.kind = FrameKind::challenge, .n_bytes = sizeof challenge};
            Proof proof{};
            if (socket.send_all(bytes(reply), Deadline(5)) &&
                socket.send_all(bytes(challenge), Deadline(5)) &&
                socket.receive_all(bytes(frame), Deadline(5)) &&
                socket.receive_all(bytes(proof), Deadline(5)))
                was_joined = true;
        }
    });
    const Meeting meeting{.size = 2,
                          .host = "127.0.0.1",
                          .port = port_of(listeners[0]),
                          .token_file = dir.path() + "/save/token"};
    const std::string error = run_job(meeting, {1}, 2)[0];
    over = true;
    impostor.join();
    CHECK_FALSE(was_joined);
    CHECK_THAT(error, ContainsSubstring("save/token"));
}

TEST_CASE("ranks meet with a token in a file") {
    const test::TempDir dir;
    const Meeting meeting{.size = 3,
                          .host = "127.0.0.1",
                          .port = test::free_port(),
                          .token_file = dir.path() + "/save/token"};
    for (const std::string& error : run_job(meeting, {0, 1, 2}, 20)) CHECK(error.empty());
    CHECK_FALSE(io::exists(dir.path() + "/save"));
}

TEST_CASE("ranks meet through the store of torchrun's agent") {
    Store store(GENERATE(false, true));
    const Meeting meeting{
        .size = 3, .host = "127.0.0.1", .port = store.port(), .store_key = "lm-utils/test"};
    for (const std::string& error : run_job(meeting, {0, 1, 2}, 20)) CHECK(error.empty());
}

TEST_CASE("a store that loses a value is reported as such") {
    Store store(false);
    const Meeting meeting{
        .size = 2, .host = "127.0.0.1", .port = store.port(), .store_key = "lost"};
    const auto error = test::caught([&] { publish(meeting, 1, Deadline(5)); });
    CHECK(error.threw);
    CHECK(error.says(std::strerror(EPROTO)));
}

TEST_CASE("a rank without the token does not join, and the missing rank is named") {
    const int port = test::free_port();
    const Meeting meeting{.size = 2, .host = "127.0.0.1", .port = port, .token = "right"};
    Meeting other = meeting;
    other.token = "wrong";
    std::vector<std::string> wrong;
    std::thread intruder([&] { wrong = run_job(other, {1}, 2); });
    const std::vector<std::string> errors = run_job(meeting, {0}, 2);
    intruder.join();
    CHECK_THAT(errors[0], ContainsSubstring("rank 1 of 2"));
    CHECK_THAT(wrong[0], ContainsSubstring("LM_RENDEZVOUS_TOKEN"));
}

TEST_CASE("a hub without the token gets no rank") {
    const Meeting fake{.size = 2, .host = "127.0.0.1", .token = "guessed"};
    TcpHub hub(fake, 2);
    hub.start();
    const Meeting meeting{
        .rank = 1, .size = 2, .host = "127.0.0.1", .port = hub.port(), .token = "right"};
    const auto error = test::caught([&] { (void)join_hub(meeting, Deadline(1)); });
    CHECK(error.threw);
    CHECK(error.code == Exit::failure);
    CHECK_THAT(error.message, HasInOrder("rank 0 ", "token"));
}

TEST_CASE("a stop signal ends the wait for other ranks") {
    const StopSignal signal = [] { return "SIGTERM"; };
    Meeting meeting{.size = 2, .host = "127.0.0.1", .port = test::free_port(), .token = "t"};
    for (const int rank : {0, 1}) {
        meeting.rank = rank;
        const auto error = test::caught(
            [&] { TcpWorld(meeting, {.timeout_s = 100, .stop_signal = signal}).join(); });
        CHECK(error.threw);
        CHECK(error.code == Exit::run_again);
        CHECK(error.says("SIGTERM"));
    }
}
