// The service fabricbench.Raw over the C++ gRPC library: messages are plain bytes (ByteBuffer).

#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/rpc_method.h>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

constexpr const char *ready_path = "/fabricbench.Raw/Ready";
constexpr const char *echo_path = "/fabricbench.Raw/Echo";
constexpr const char *call_path = "/fabricbench.Raw/Call";
constexpr const char *push_path = "/fabricbench.Raw/Push";
constexpr const char *fetch_path = "/fabricbench.Raw/Fetch";
constexpr const char *exchange_path = "/fabricbench.Raw/Exchange";

// What the command line says.
struct Options {
    std::string command;
    std::string address = "127.0.0.1";
    int port = 0;
    // Whether calls go through completion queues; otherwise each blocks its thread.
    bool async = false;
    // Windows, frames and buffers for large messages, instead of the library's own.
    bool tuned = false;
    std::string pattern = "latency";
    uint64_t size = 64;
    // Bytes in a message of the server's own.
    uint64_t reply = 0;
    // Largest message that the server takes; 0: any.
    uint64_t limit = 0;
    unsigned depth = 1;
    double seconds = 1;
};

// Reads the command line, or says what is wrong with it in a runtime_error.
Options options_of(int count, char **words);

// Serves until it is killed. Prints the port first.
void serve(const Options &options);

// Measures a pattern and prints what was found, in JSON.
void measure(const Options &options);

// Calls every method with messages of many sizes; throws a runtime_error where an answer is wrong.
void check(const Options &options);

// A channel to the server of `options`.
std::shared_ptr<grpc::Channel> channel_to(const Options &options);

// A message of so many bytes, all different from those of other sizes.
grpc::ByteBuffer message_of(uint64_t size);

// All bytes of a message in one piece.
std::string bytes_of(const grpc::ByteBuffer &message);

grpc::ByteBuffer buffer_of(const std::string &bytes);

// Appends and takes off 64 bits, big-endian.
void put_u64(std::string &bytes, uint64_t number);
uint64_t get_u64(const std::string &bytes, size_t at);

// The server's confirmation of a push. The server of this program checks no content.
struct Summary {
    uint64_t messages = 0;
    uint64_t bytes = 0;
    std::optional<uint64_t> corrupt;
};
constexpr size_t summary_length = 25;
grpc::ByteBuffer encoded(const Summary &summary);
Summary summary_of(const grpc::ByteBuffer &message);

// What a fetch asks for.
grpc::ByteBuffer fetch_request(uint64_t messages, uint64_t size);

// Throws unless the call went well.
void expect_ok(const grpc::Status &status, const char *path);

// A method as the channel knows it.
inline grpc::internal::RpcMethod method(const char *path, grpc::internal::RpcMethod::RpcType type,
                                        const std::shared_ptr<grpc::Channel> &channel) {
    return grpc::internal::RpcMethod(path, nullptr, type, channel);
}
