// The same from C++17: the handle frees itself, messages are strings. Also sends unreliable ones.
//
//     c++ -std=c++17 -o echo echo.cpp -I capi/include libtidegate_c.a -lpthread -ldl -lm
//     ./echo token.bin

#include <chrono>
#include <fstream>
#include <iostream>
#include <iterator>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>

#include "tidegate.h"

class Client {
public:
    explicit Client(const std::string &token)
    {
        if (tidegate_abi() != TIDEGATE_ABI)
            throw std::runtime_error("the library is of another tidegate than the header");
        tidegate_client *made = nullptr;
        const auto *bytes = reinterpret_cast<const uint8_t *>(token.data());
        check(tidegate_client_yojimbo(bytes, token.size(), TIDEGATE_SOCKET, tidegate_now(), &made));
        client.reset(made);
    }

    // A loop that waits for TIDEGATE_CLOSED would otherwise wait for ever.
    int update() { return answer(tidegate_client_update(client.get(), tidegate_now())); }

    // False when the queue is full, or before the handshake is over: try again in a later frame.
    bool send(std::string_view text)
    {
        return queued(tidegate_client_send(client.get(), tidegate_now(), bytes(text), text.size()));
    }

    bool send_unreliable(std::string_view text)
    {
        return queued(tidegate_client_send_unreliable(client.get(), tidegate_now(), bytes(text), text.size()));
    }

    std::optional<std::string> receive()
    {
        tidegate_message message;
        if (answer(tidegate_client_poll_message(client.get(), &message)) == 0)
            return std::nullopt;
        return std::string(reinterpret_cast<const char *>(message.payload), message.length);
    }

    void finish() { check(tidegate_client_finish(client.get(), tidegate_now(), 5'000'000'000u)); }
    void flush() { check(tidegate_client_flush(client.get(), tidegate_now())); }
    int ended() const { return answer(tidegate_client_ended(client.get())); }

private:
    struct Free {
        void operator()(tidegate_client *client) const { tidegate_client_free(client); }
    };

    static const uint8_t *bytes(std::string_view text)
    {
        return reinterpret_cast<const uint8_t *>(text.data());
    }

    static void check(int32_t error)
    {
        if (error != TIDEGATE_OK)
            throw std::runtime_error(tidegate_error_text(error));
    }

    static int32_t answer(int32_t value)
    {
        check(value < 0 ? value : TIDEGATE_OK);
        return value;
    }

    static bool queued(int32_t error)
    {
        if (error == TIDEGATE_ERROR_FULL)
            return false;
        check(error);
        return true;
    }

    std::unique_ptr<tidegate_client, Free> client;
};

int main(int argc, char **argv)
try {
    if (argc != 2) {
        std::cerr << "usage: echo TOKENFILE\n";
        return 64;
    }
    constexpr int messages = 200;
    std::ifstream file(argv[1], std::ios::binary);
    Client client(std::string(std::istreambuf_iterator<char>(file), {}));
    const auto patience = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    int said = 0, heard = 0, unreliable = 0;
    while (client.update() != TIDEGATE_CLOSED && std::chrono::steady_clock::now() < patience) {
        if (said < messages && client.send("message " + std::to_string(said))) {
            client.send_unreliable("now or never");
            said++;
        }
        while (auto message = client.receive()) {
            if (*message == "now or never")
                unreliable++;
            else if (*message != "message " + std::to_string(heard++))
                throw std::runtime_error("not what was sent: " + *message);
        }
        if (heard == messages)
            client.finish();
        client.flush();
        std::this_thread::sleep_for(std::chrono::milliseconds(5)); // a frame
    }
    std::cout << heard << " of " << messages << " came back, and " << unreliable << " unreliable ones; "
              << tidegate_ended_text(client.ended()) << '\n';
    return heard == messages && client.ended() == TIDEGATE_ENDED_HERE ? 0 : 1;
} catch (const std::exception &error) {
    std::cerr << error.what() << '\n';
    return 1;
}
