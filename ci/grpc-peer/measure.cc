// The measured patterns: a closed loop of echoes, one or several under way, and a push.

#include "peer.h"

#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/impl/client_unary_call.h>
#include <grpcpp/support/sync_stream.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <memory>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
using grpc::ByteBuffer;
using grpc::internal::RpcMethod;

double since(Clock::time_point began) { return std::chrono::duration<double>(Clock::now() - began).count(); }

// Times in seconds of calls after the warm-up, and how long all of them took.
struct Calls {
    std::vector<double> times;
    double elapsed = 0;
};

Calls blocking(const Options &options, const std::shared_ptr<grpc::Channel> &channel, double seconds) {
    auto echo = method(echo_path, RpcMethod::NORMAL_RPC, channel);
    auto message = message_of(options.size);
    Calls calls;
    auto began = Clock::now();
    while (since(began) < seconds) {
        grpc::ClientContext context;
        ByteBuffer reply;
        auto start = Clock::now();
        expect_ok(grpc::internal::BlockingUnaryCall<ByteBuffer, ByteBuffer>(channel.get(), echo, &context,
                                                                            message, &reply),
                  echo_path);
        calls.times.push_back(since(start));
        if (reply.Length() != options.size) throw std::runtime_error("an echo of another size");
    }
    calls.elapsed = since(began);
    return calls;
}

struct Call {
    grpc::ClientContext context;
    ByteBuffer reply;
    grpc::Status status;
    Clock::time_point start = Clock::now();
    std::unique_ptr<grpc::ClientAsyncResponseReader<ByteBuffer>> reader;
};

Calls queued(const Options &options, const std::shared_ptr<grpc::Channel> &channel, double seconds) {
    auto echo = method(echo_path, RpcMethod::NORMAL_RPC, channel);
    auto message = message_of(options.size);
    grpc::CompletionQueue queue;
    Calls calls;
    auto begin = [&] {
        auto *call = new Call;
        call->reader.reset(grpc::internal::ClientAsyncResponseReaderHelper::Create<ByteBuffer>(
            channel.get(), &queue, echo, &call->context, message));
        call->reader->StartCall();
        call->reader->Finish(&call->reply, &call->status, call);
    };
    auto began = Clock::now();
    unsigned under_way = 0;
    for (; under_way < options.depth; under_way++) begin();
    while (under_way) {
        void *tag;
        bool ok;
        if (!queue.Next(&tag, &ok)) throw std::runtime_error("the completion queue ended");
        std::unique_ptr<Call> call(static_cast<Call *>(tag));
        under_way--;
        expect_ok(call->status, echo_path);
        calls.times.push_back(since(call->start));
        if (call->reply.Length() != options.size) throw std::runtime_error("an echo of another size");
        if (since(began) < seconds) {
            begin();
            under_way++;
        }
    }
    calls.elapsed = since(began);
    queue.Shutdown();
    return calls;
}

void print_calls(Calls calls) {
    std::sort(calls.times.begin(), calls.times.end());
    if (calls.times.empty()) throw std::runtime_error("no call ended in time");
    std::cout << "{\"calls\": " << calls.times.size()
              << ", \"p50_us\": " << calls.times[calls.times.size() / 2] * 1e6
              << ", \"calls_per_s\": " << static_cast<double>(calls.times.size()) / calls.elapsed << "}"
              << std::endl;
}

// Sends for so long, and waits until the server has confirmed all. Bytes per second.
double push_blocking(const Options &options, const std::shared_ptr<grpc::Channel> &channel, double seconds) {
    auto push = method(push_path, RpcMethod::CLIENT_STREAMING, channel);
    auto message = message_of(options.size);
    grpc::ClientContext context;
    ByteBuffer reply;
    auto began = Clock::now();
    std::unique_ptr<grpc::ClientWriter<ByteBuffer>> writer(
        grpc::internal::ClientWriterFactory<ByteBuffer>::Create(channel.get(), push, &context, &reply));
    uint64_t sent = 0;
    for (; since(began) < seconds; sent++)
        if (!writer->Write(message)) break;
    writer->WritesDone();
    expect_ok(writer->Finish(), push_path);
    auto summary = summary_of(reply);
    if (summary.messages != sent) throw std::runtime_error("not all that was sent was received");
    return static_cast<double>(summary.bytes) / since(began);
}

double push_queued(const Options &options, const std::shared_ptr<grpc::Channel> &channel, double seconds) {
    auto push = method(push_path, RpcMethod::CLIENT_STREAMING, channel);
    auto message = message_of(options.size);
    grpc::ClientContext context;
    grpc::CompletionQueue queue;
    ByteBuffer reply;
    auto wait = [&queue] {
        void *tag;
        bool ok;
        return queue.Next(&tag, &ok) && ok;
    };
    auto began = Clock::now();
    std::unique_ptr<grpc::ClientAsyncWriter<ByteBuffer>> writer(
        grpc::internal::ClientAsyncWriterFactory<ByteBuffer>::Create(channel.get(), &queue, push, &context,
                                                                     &reply, true, nullptr));
    bool open = wait();
    uint64_t sent = 0;
    while (open && since(began) < seconds) {
        writer->Write(message, nullptr);
        open = wait();
        sent += open;
    }
    writer->WritesDone(nullptr);
    wait();
    grpc::Status status;
    writer->Finish(&status, nullptr);
    wait();
    queue.Shutdown();
    expect_ok(status, push_path);
    auto summary = summary_of(reply);
    if (summary.messages != sent) throw std::runtime_error("not all that was sent was received");
    return static_cast<double>(summary.bytes) / since(began);
}

} // namespace

void measure(const Options &options) {
    auto channel = channel_to(options);
    // Connecting and growing are no part of the figure.
    double warm_up = std::min(0.2, options.seconds / 5);
    if (options.pattern == "latency" || options.pattern == "calls") {
        bool one = !options.async && options.depth == 1;
        auto run = one ? blocking : queued;
        run(options, channel, warm_up);
        print_calls(run(options, channel, options.seconds));
    } else if (options.pattern == "push") {
        auto run = options.async ? push_queued : push_blocking;
        run(options, channel, warm_up);
        std::cout << "{\"bytes_per_s\": " << run(options, channel, options.seconds) << "}" << std::endl;
    } else {
        throw std::runtime_error("no pattern " + options.pattern + ": there are latency, calls and push");
    }
}
