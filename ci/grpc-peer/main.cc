// grpc-peer: the service fabricbench.Raw, and its clients, over the C++ gRPC library. It shows that
// fabricbench's gRPC is what others understand, and what C++ makes of the same bytes.

#include "peer.h"

#include <exception>
#include <iostream>

int main(int count, char **words) {
    try {
        Options options = options_of(count, words);
        if (options.command == "serve") serve(options);
        else if (options.command == "measure") measure(options);
        else if (options.command == "check") check(options);
        else throw std::runtime_error("no command " + options.command);
        return 0;
    } catch (const std::exception &error) {
        std::cerr << "grpc-peer: " << error.what() << std::endl;
        return 1;
    }
}
