// Every method of somebody else's server, with messages of many sizes.

#include "peer.h"

#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/support/sync_stream.h>

#include <iostream>
#include <memory>
#include <thread>

namespace {

using grpc::ByteBuffer;
using grpc::internal::RpcMethod;

void expect(bool holds, const std::string &what) {
    if (!holds) throw std::runtime_error(what);
}

grpc::Status unary(const std::shared_ptr<grpc::Channel> &channel, const char *path, const ByteBuffer &request,
                   ByteBuffer *reply) {
    grpc::ClientContext context;
    context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(30));
    return grpc::internal::BlockingUnaryCall<ByteBuffer, ByteBuffer>(
        channel.get(), method(path, RpcMethod::NORMAL_RPC, channel), &context, request, reply);
}

void check_calls(const std::shared_ptr<grpc::Channel> &channel, uint64_t size) {
    auto message = message_of(size);
    ByteBuffer reply;
    expect_ok(unary(channel, echo_path, message, &reply), echo_path);
    expect(bytes_of(reply) == bytes_of(message), "an echo is not what was sent");
    expect_ok(unary(channel, call_path, message, &reply), call_path);
    expect_ok(unary(channel, ready_path, message_of(0), &reply), ready_path);
    expect(reply.Length() == 0, "Ready is answered with something");
}

void check_push(const std::shared_ptr<grpc::Channel> &channel, uint64_t size, uint64_t count) {
    grpc::ClientContext context;
    ByteBuffer reply;
    std::unique_ptr<grpc::ClientWriter<ByteBuffer>> writer(grpc::internal::ClientWriterFactory<ByteBuffer>::Create(
        channel.get(), method(push_path, RpcMethod::CLIENT_STREAMING, channel), &context, &reply));
    auto message = message_of(size);
    for (uint64_t sent = 0; sent < count; sent++) expect(writer->Write(message), "a push was cut off");
    writer->WritesDone();
    expect_ok(writer->Finish(), push_path);
    auto summary = summary_of(reply);
    expect(summary.messages == count && summary.bytes == count * size, "a push was received in part");
}

void check_fetch(const std::shared_ptr<grpc::Channel> &channel, uint64_t size, uint64_t count) {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientReader<ByteBuffer>> reader(grpc::internal::ClientReaderFactory<ByteBuffer>::Create(
        channel.get(), method(fetch_path, RpcMethod::SERVER_STREAMING, channel), &context,
        fetch_request(count, size)));
    uint64_t received = 0;
    for (ByteBuffer message; reader->Read(&message); received++)
        expect(message.Length() == size, "a fetched message has another size");
    expect_ok(reader->Finish(), fetch_path);
    expect(received == count, "a fetch brought another number of messages");
}

void check_exchange(const std::shared_ptr<grpc::Channel> &channel, uint64_t size, uint64_t count) {
    grpc::ClientContext context;
    using Stream = grpc::ClientReaderWriter<ByteBuffer, ByteBuffer>;
    std::unique_ptr<Stream> stream(grpc::internal::ClientReaderWriterFactory<ByteBuffer, ByteBuffer>::Create(
        channel.get(), method(exchange_path, RpcMethod::BIDI_STREAMING, channel), &context));
    std::thread sending([&] {
        auto message = message_of(size);
        for (uint64_t sent = 0; sent < count && stream->Write(message); sent++) continue;
        stream->WritesDone();
    });
    ByteBuffer message, last;
    bool sized = true;
    for (bool first = true; stream->Read(&message); first = false) {
        if (!first) sized = sized && last.Length() == size;
        last = message;
    }
    sending.join();
    expect_ok(stream->Finish(), exchange_path);
    expect(sized, "the server pushed messages of another size");
    auto summary = summary_of(last);
    expect(summary.messages == count && summary.bytes == count * size, "an exchange was received in part");
}

} // namespace

void check(const Options &options) {
    auto channel = channel_to(options);
    for (uint64_t size : {0, 1, 255, 16384, 70000, 1 << 20, 5 << 20}) {
        uint64_t count = size < 1000 ? 1000 : size < 100000 ? 50 : 3;
        check_calls(channel, size);
        check_push(channel, size, count);
        check_fetch(channel, size, count);
        check_exchange(channel, size, count);
    }
    check_exchange(channel, 0, 0);
    // The server's limit is given here as well, to be gone over.
    ByteBuffer reply;
    auto refused = unary(channel, echo_path, message_of(options.limit + 1), &reply).error_code();
    if (options.limit)
        expect(refused == grpc::StatusCode::OUT_OF_RANGE || refused == grpc::StatusCode::RESOURCE_EXHAUSTED,
               "a message over the limit has status " + std::to_string(refused));
    refused = unary(channel, "/fabricbench.Raw/Nothing", message_of(1), &reply).error_code();
    expect(refused == grpc::StatusCode::UNIMPLEMENTED,
           "an unknown method has status " + std::to_string(refused));
    std::cout << "all checks passed" << std::endl;
}
