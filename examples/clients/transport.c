/* A client whose datagrams travel by your own transport; here by one UDP socket of this program.
 * Sends numbered messages and checks that they come back once and in order.
 *
 *     cc -o transport transport.c -I capi/include libtidegate_c.a -lpthread -ldl -lm
 *     ./transport token.bin
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tidegate.h"

enum { MESSAGES = 300, MESSAGE_BYTES = 400 };

static const uint64_t SECOND = 1000000000u;

static void transmit(tidegate_client *client, int udp)
{
    tidegate_datagram datagram;
    while (tidegate_client_poll_transmit(client, tidegate_now(), &datagram) == 1) {
        struct sockaddr_in to = { 0 };
        to.sin_family = AF_INET;
        to.sin_port = htons(datagram.to.port);
        memcpy(&to.sin_addr, datagram.to.ip, 4);
        /* What cannot be sent is lost, and loss is what the protocol is for. */
        (void)sendto(udp, datagram.bytes, datagram.length, 0, (struct sockaddr *)&to, sizeof to);
    }
}

static void receive(tidegate_client *client, int udp)
{
    uint8_t bytes[2048];
    struct sockaddr_in from;
    socklen_t size = sizeof from;
    ssize_t length;
    while ((length = recvfrom(udp, bytes, sizeof bytes, 0, (struct sockaddr *)&from, &size)) >= 0) {
        tidegate_address address = { { 0 }, ntohs(from.sin_port), 0 };
        memcpy(address.ip, &from.sin_addr, 4);
        /* Refused is normal: a copy, or not for us. */
        tidegate_client_handle_datagram(client, tidegate_now(), &address, bytes, (size_t)length);
    }
}

int main(int argc, char **argv)
{
    uint8_t token[4096];
    uint8_t said_bytes[MESSAGE_BYTES] = { 0 };
    uint32_t said = 0, heard = 0, number;
    tidegate_client *client;
    tidegate_message message;
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;

    if (!file) {
        fprintf(stderr, "usage: transport TOKENFILE\n");
        return 64;
    }
    if (tidegate_abi() != TIDEGATE_ABI) {
        fprintf(stderr, "tidegate %s is not the library of this header\n", tidegate_version());
        return 1;
    }
    size_t length = fread(token, 1, sizeof token, file);
    fclose(file);
    int udp = socket(AF_INET, SOCK_DGRAM, 0);
    fcntl(udp, F_SETFL, O_NONBLOCK);

    int32_t error = tidegate_client_yojimbo(token, length, TIDEGATE_NO_SOCKET, tidegate_now(), &client);
    if (error) {
        fprintf(stderr, "%s\n", tidegate_error_text(error));
        return 1;
    }
    uint64_t patience = tidegate_now() + 60 * SECOND;
    for (;;) {
        receive(client, udp);
        if (tidegate_client_next_update(client, tidegate_now()) == 0)
            tidegate_client_handle_timeout(client, tidegate_now());
        while (tidegate_client_poll_message(client, &message) == 1) {
            if (message.length == MESSAGE_BYTES)
                memcpy(&number, message.payload, sizeof number);
            if (message.length != MESSAGE_BYTES || number != heard) {
                fprintf(stderr, "message %u is not what was sent\n", heard);
                return 1;
            }
            heard++;
        }
        while (said < MESSAGES && tidegate_client_has_room(client) == 1) {
            memcpy(said_bytes, &said, sizeof said);
            if (tidegate_client_send(client, tidegate_now(), said_bytes, MESSAGE_BYTES))
                break;
            said++;
        }
        if (heard == MESSAGES)
            tidegate_client_finish(client, tidegate_now(), 5 * SECOND);
        transmit(client, udp);
        if (tidegate_client_state(client) == TIDEGATE_CLOSED || tidegate_now() > patience)
            break;
        struct pollfd wait = { udp, POLLIN, 0 };
        int64_t nanos = tidegate_client_next_update(client, tidegate_now());
        poll(&wait, 1, nanos < 5000000 ? (int)(nanos / 1000000) + 1 : 5);
    }
    int32_t ended = tidegate_client_ended(client);
    printf("%u of %u came back; %s\n", heard, (unsigned)MESSAGES, tidegate_ended_text(ended));
    tidegate_client_free(client);
    close(udp);
    return heard == MESSAGES && ended == TIDEGATE_ENDED_HERE ? 0 : 1;
}
