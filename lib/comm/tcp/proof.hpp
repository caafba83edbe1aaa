// SPDX-License-Identifier: Apache-2.0
// How the ranks of a job without MPI authenticate each other when they connect.
//
// Threat. Programs of other users can reach the hub's port, connect as a rank, or listen at that
// port on the host of rank 0 before rank 0 does. The port of a job can be guessed: it is a flag of
// the launcher, or follows from the job's number. A program that is taken for a rank can end the
// job with any text, and send values that become weights; a program that is taken for the hub can
// do the same to every rank. So both sides prove that they know the job's token.
//
//     rank -> hub    hello: the rank's number, its host, the number of ranks, a nonce N
//     hub  -> rank   challenge: a nonce M, HMAC(token, "hub" + rank + hello + M)
//     rank -> hub    proof:     HMAC(token, "rank" + rank + hello + M)
//
// The token itself is never sent. A recorded proof is useless, because both nonces are new in every
// connection, and the two words keep one side's proof from being returned as the other's. A proof
// covers all that a hello states, so it cannot be changed on the way. HMAC-SHA-256, random numbers
// and the comparison in constant time are libsodium's: a library for this purpose with 0.4 MB and
// no configuration (libcrypto has 5 MB). XXH3, which the toolkit uses for checksums, does
// not serve: a token can be computed from its digest.
//
// Where the token comes from, in this order (comm/join/join.cpp):
// 1. LM_RENDEZVOUS_TOKEN, which the launcher passes to all ranks.
// 2. A random number that rank 0 writes to a file in the directory of --save, which all ranks
//    share. Only the user can read this file, and rank 0 removes it when all ranks have joined.
// 3. A random number in the store of torchrun's agent. Other users who can reach that store can
//    read it; but whoever can reach the store can also end the job through the store.
// 4. None of these: the number of the job. Anyone can compute it. It only keeps jobs apart that use
//    the same port by mistake, and rank 0 prints a warning that states how to set a token.
// A token that a person chose could be found by trying words on a recorded challenge, so the
// documentation states how to make a random one.
//
// What this does not prevent: an attacker who can read or change packets between the hosts of the
// job reads or changes the frames that follow, as with MPI and NCCL, which send the tensors on the
// same network without encryption. Encrypting only the small values would protect nothing.
#pragma once

#include <string>

#include "comm/tcp/frame.hpp"

namespace lm::comm {

// Returns 256 random bits as hexadecimal digits.
std::string random_token();
Nonce random_nonce();

enum class Prover : u8 { hub = 1, rank };

// Returns the proof that the prover knows `token`. `hello` is the hello that `rank` has sent, and
// `nonce` the nonce of the challenge.
Proof prove(const std::string& token, Prover prover, int rank, const Hello& hello,
            const Nonce& nonce);
// Compares in a time that does not depend on the bytes.
bool is_equal(const Proof& a, const Proof& b);

}  // namespace lm::comm
