// The server: unary calls and pushes block a thread each, or go through one completion queue; the
// other methods always block.

#include "peer.h"

#include <grpcpp/impl/rpc_service_method.h>
#include <grpcpp/support/async_stream.h>
#include <grpcpp/support/async_unary_call.h>
#include <grpcpp/support/method_handler.h>

#include <atomic>
#include <iostream>
#include <memory>
#include <thread>

namespace {

using grpc::ByteBuffer;
using grpc::Status;
using grpc::internal::RpcMethod;
using grpc::internal::RpcServiceMethod;

enum Method { ready, echo, call, push, fetch, exchange };

class Raw : public grpc::Service {
  public:
    explicit Raw(const Options &options) : reply_(message_of(options.reply)), limit_(options.limit) {
        auto unary = [this](auto handle) {
            return new grpc::internal::RpcMethodHandler<Raw, ByteBuffer, ByteBuffer, ByteBuffer, ByteBuffer>(
                handle, this);
        };
        add(ready_path, RpcMethod::NORMAL_RPC,
            unary([](Raw *, grpc::ServerContext *, const ByteBuffer *, ByteBuffer *reply) {
                *reply = message_of(0);
                return Status::OK;
            }));
        add(echo_path, RpcMethod::NORMAL_RPC,
            unary([](Raw *, grpc::ServerContext *, const ByteBuffer *request, ByteBuffer *reply) {
                *reply = *request;
                return Status::OK;
            }));
        add(call_path, RpcMethod::NORMAL_RPC,
            unary([](Raw *raw, grpc::ServerContext *, const ByteBuffer *, ByteBuffer *reply) {
                *reply = raw->reply_;
                return Status::OK;
            }));
        add(push_path, RpcMethod::CLIENT_STREAMING,
            new grpc::internal::ClientStreamingHandler<Raw, ByteBuffer, ByteBuffer>(
                [](Raw *, grpc::ServerContext *, grpc::ServerReader<ByteBuffer> *messages,
                   ByteBuffer *reply) {
                    Summary summary;
                    ByteBuffer message;
                    while (messages->Read(&message)) {
                        summary.messages++;
                        summary.bytes += message.Length();
                    }
                    *reply = encoded(summary);
                    return Status::OK;
                },
                this));
        add(fetch_path, RpcMethod::SERVER_STREAMING,
            new grpc::internal::ServerStreamingHandler<Raw, ByteBuffer, ByteBuffer>(
                [](Raw *raw, grpc::ServerContext *, const ByteBuffer *request,
                   grpc::ServerWriter<ByteBuffer> *messages) { return raw->serve_fetch(*request, messages); },
                this));
        add(exchange_path, RpcMethod::BIDI_STREAMING,
            new grpc::internal::BidiStreamingHandler<Raw, ByteBuffer, ByteBuffer>(
                [](Raw *, grpc::ServerContext *,
                   grpc::ServerReaderWriter<ByteBuffer, ByteBuffer> *messages) {
                    return serve_exchange(messages);
                },
                this));
    }

    const ByteBuffer &reply() const { return reply_; }

    void make_async() {
        for (int method : {ready, echo, call, push}) MarkMethodAsync(method);
    }

    void request_unary(Method method, grpc::ServerContext *context, ByteBuffer *request,
                       grpc::ServerAsyncResponseWriter<ByteBuffer> *answer,
                       grpc::ServerCompletionQueue *queue, void *tag) {
        RequestAsyncUnary(method, context, request, answer, queue, queue, tag);
    }

    void request_push(grpc::ServerContext *context, grpc::ServerAsyncReader<ByteBuffer, ByteBuffer> *messages,
                      grpc::ServerCompletionQueue *queue, void *tag) {
        RequestAsyncClientStreaming(push, context, messages, queue, queue, tag);
    }

  private:
    void add(const char *path, RpcMethod::RpcType type, grpc::internal::MethodHandler *handler) {
        AddMethod(new RpcServiceMethod(path, type, handler));
    }

    Status serve_fetch(const ByteBuffer &request, grpc::ServerWriter<ByteBuffer> *messages) const {
        auto bytes = bytes_of(request);
        if (bytes.size() != 16) return Status(grpc::StatusCode::INVALID_ARGUMENT, "no fetch request");
        uint64_t size = get_u64(bytes, 8);
        if (limit_ && size > limit_) return Status(grpc::StatusCode::OUT_OF_RANGE, "over the limit");
        auto message = message_of(size);
        for (uint64_t left = get_u64(bytes, 0); left; left--)
            if (!messages->Write(message)) break;
        return Status::OK;
    }

    static Status serve_exchange(grpc::ServerReaderWriter<ByteBuffer, ByteBuffer> *messages) {
        Summary summary;
        ByteBuffer message;
        std::atomic<bool> ended{false};
        std::thread sending;
        while (messages->Read(&message)) {
            if (summary.messages++ == 0)
                sending = std::thread([&ended, messages, size = message.Length()] {
                    auto copy = message_of(size);
                    while (!ended && messages->Write(copy)) continue;
                });
            summary.bytes += message.Length();
        }
        ended = true;
        if (sending.joinable()) sending.join();
        messages->Write(encoded(summary));
        return Status::OK;
    }

    ByteBuffer reply_;
    uint64_t limit_;
};

// Something that waits for a completion queue.
class Waiting {
  public:
    virtual ~Waiting() = default;
    virtual void go_on(bool ok) = 0;
};

class Unary : public Waiting {
  public:
    Unary(Raw *raw, Method method, grpc::ServerCompletionQueue *queue)
        : raw_(raw), method_(method), queue_(queue), answer_(&context_) {
        raw->request_unary(method, &context_, &request_, &answer_, queue, this);
    }

    void go_on(bool ok) override {
        if (ended_ || !ok) {
            delete this;
            return;
        }
        new Unary(raw_, method_, queue_);
        ended_ = true;
        if (method_ == call) answer_.Finish(raw_->reply(), Status::OK, this);
        else answer_.Finish(request_, Status::OK, this);
    }

  private:
    Raw *raw_;
    Method method_;
    grpc::ServerCompletionQueue *queue_;
    grpc::ServerContext context_;
    ByteBuffer request_;
    grpc::ServerAsyncResponseWriter<ByteBuffer> answer_;
    bool ended_ = false;
};

class Push : public Waiting {
  public:
    Push(Raw *raw, grpc::ServerCompletionQueue *queue) : raw_(raw), queue_(queue), messages_(&context_) {
        raw->request_push(&context_, &messages_, queue, this);
    }

    void go_on(bool ok) override {
        if (stage_ == Stage::ended || (stage_ == Stage::waiting && !ok)) {
            delete this;
            return;
        }
        if (stage_ == Stage::waiting) {
            new Push(raw_, queue_);
            stage_ = Stage::reading;
        } else if (ok) {
            summary_.messages++;
            summary_.bytes += message_.Length();
        }
        if (ok) {
            messages_.Read(&message_, this);
        } else {
            stage_ = Stage::ended;
            messages_.Finish(encoded(summary_), Status::OK, this);
        }
    }

  private:
    enum class Stage { waiting, reading, ended };
    Raw *raw_;
    grpc::ServerCompletionQueue *queue_;
    grpc::ServerContext context_;
    grpc::ServerAsyncReader<ByteBuffer, ByteBuffer> messages_;
    ByteBuffer message_;
    Summary summary_;
    Stage stage_ = Stage::waiting;
};

} // namespace

void serve(const Options &options) {
    Raw raw(options);
    if (options.async) raw.make_async();
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(options.address + ":" + std::to_string(options.port),
                             grpc::InsecureServerCredentials(), &port);
    builder.SetMaxReceiveMessageSize(options.limit ? static_cast<int>(options.limit) : -1);
    if (options.tuned) {
        builder.AddChannelArgument(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 16 << 20);
        builder.AddChannelArgument(GRPC_ARG_HTTP2_MAX_FRAME_SIZE, 1 << 20);
        builder.AddChannelArgument(GRPC_ARG_HTTP2_BDP_PROBE, 0);
        builder.AddChannelArgument(GRPC_ARG_HTTP2_WRITE_BUFFER_SIZE, 1 << 20);
        builder.AddChannelArgument(GRPC_ARG_TCP_READ_CHUNK_SIZE, 1 << 20);
        builder.AddChannelArgument(GRPC_ARG_TCP_MAX_READ_CHUNK_SIZE, 4 << 20);
        builder.AddChannelArgument(GRPC_ARG_MINIMAL_STACK, 1);
    }
    builder.RegisterService(&raw);
    std::unique_ptr<grpc::ServerCompletionQueue> queue;
    if (options.async) queue = builder.AddCompletionQueue();
    auto server = builder.BuildAndStart();
    if (!server || !port) throw std::runtime_error("cannot listen on " + options.address);
    std::cout << "listening on port " << port << std::endl;
    if (!queue) {
        server->Wait();
        return;
    }
    // One of each waits for the next call.
    for (Method method : {ready, echo, call}) new Unary(&raw, method, queue.get());
    new Push(&raw, queue.get());
    void *tag;
    bool ok;
    while (queue->Next(&tag, &ok)) static_cast<Waiting *>(tag)->go_on(ok);
}
