// The command line, the channel's settings, and the service's messages.

#include "peer.h"

#include <climits>

Options options_of(int count, char **words) {
    Options options;
    auto fail = [](const std::string &what) -> std::runtime_error {
        return std::runtime_error(
            what + "; usage: grpc-peer serve|measure|check [--address A] [--port N] [--async] [--tuned] "
                   "[--pattern latency|calls|push] [--size N] [--reply N] [--limit N] [--depth N] "
                   "[--seconds N]");
    };
    if (count < 2) throw fail("no command");
    options.command = words[1];
    for (int at = 2; at < count; at++) {
        std::string word = words[at];
        if (word == "--async") {
            options.async = true;
            continue;
        }
        if (word == "--tuned") {
            options.tuned = true;
            continue;
        }
        if (++at == count) throw fail(word + " wants a value, or is unknown");
        std::string value = words[at];
        try {
            if (word == "--address") options.address = value;
            else if (word == "--port") options.port = std::stoi(value);
            else if (word == "--pattern") options.pattern = value;
            else if (word == "--size") options.size = std::stoull(value);
            else if (word == "--reply") options.reply = std::stoull(value);
            else if (word == "--limit") options.limit = std::stoull(value);
            else if (word == "--depth") options.depth = std::max(1, std::stoi(value));
            else if (word == "--seconds") options.seconds = std::stod(value);
            else throw fail("unknown option " + word);
        } catch (const std::logic_error &) {
            throw fail(word + " takes no " + value);
        }
    }
    return options;
}

std::shared_ptr<grpc::Channel> channel_to(const Options &options) {
    grpc::ChannelArguments arguments;
    arguments.SetMaxReceiveMessageSize(-1);
    // Connections of their own, whatever else this process has connected to.
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    if (options.tuned) {
        arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 20);
        arguments.SetInt(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
        arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
        arguments.SetInt(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 1 << 20);
        arguments.SetInt(GRPC_ARG_TCP_READ_CHUNK_SIZE, 1 << 20);
        arguments.SetInt(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 4 << 20);
        arguments.SetInt(GRPC_ARG_MINIMAL_STACK, 1);
    }
    auto target = "ipv4:" + options.address + ":" + std::to_string(options.port);
    return grpc::CreateCustomChannel(target, grpc::InsecureChannelCredentials(), arguments);
}

grpc::ByteBuffer message_of(uint64_t size) {
    std::string bytes(size, '\0');
    for (uint64_t at = 0; at < size; at++) bytes[at] = static_cast<char>(at * 31 + size);
    return buffer_of(bytes);
}

std::string bytes_of(const grpc::ByteBuffer &message) {
    std::vector<grpc::Slice> slices;
    std::string bytes;
    if (!message.Valid()) return bytes;
    if (!message.Dump(&slices).ok()) throw std::runtime_error("a message cannot be read");
    bytes.reserve(message.Length());
    for (const auto &slice : slices)
        bytes.append(reinterpret_cast<const char *>(slice.begin()), slice.size());
    return bytes;
}

grpc::ByteBuffer buffer_of(const std::string &bytes) {
    grpc::Slice slice(bytes);
    return grpc::ByteBuffer(&slice, 1);
}

void put_u64(std::string &bytes, uint64_t number) {
    for (int shift = 56; shift >= 0; shift -= 8) bytes.push_back(static_cast<char>(number >> shift));
}

uint64_t get_u64(const std::string &bytes, size_t at) {
    uint64_t number = 0;
    for (size_t end = at + 8; at < end; at++) number = number << 8 | static_cast<uint8_t>(bytes.at(at));
    return number;
}

grpc::ByteBuffer encoded(const Summary &summary) {
    std::string bytes;
    put_u64(bytes, summary.messages);
    put_u64(bytes, summary.bytes);
    bytes.push_back(summary.corrupt.has_value());
    put_u64(bytes, summary.corrupt.value_or(0));
    return buffer_of(bytes);
}

Summary summary_of(const grpc::ByteBuffer &message) {
    auto bytes = bytes_of(message);
    if (bytes.size() != summary_length) throw std::runtime_error("a push ends with no summary");
    Summary summary{get_u64(bytes, 0), get_u64(bytes, 8), {}};
    if (bytes[16]) summary.corrupt = get_u64(bytes, 17);
    return summary;
}

grpc::ByteBuffer fetch_request(uint64_t messages, uint64_t size) {
    std::string bytes;
    put_u64(bytes, messages);
    put_u64(bytes, size);
    return buffer_of(bytes);
}

void expect_ok(const grpc::Status &status, const char *path) {
    if (status.ok()) return;
    throw std::runtime_error(std::string(path) + " failed with status " +
                             std::to_string(status.error_code()) + ": " + status.error_message());
}
