/* A client with a socket of its own, in a loop as a game has one: sends numbered messages and checks
 * that they come back once and in order.
 *
 *     cc -o echo echo.c -I capi/include libtidegate_c.a -lpthread -ldl -lm
 *     ./echo token.bin
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <poll.h>

#include "tidegate.h"

enum { MESSAGES = 300, MESSAGE_BYTES = 400 };

static const uint64_t SECOND = 1000000000u;

static void fill(uint8_t *message, uint32_t number)
{
    memset(message, (int)(number & 0xff), MESSAGE_BYTES);
    memcpy(message, &number, sizeof number);
}

/* Waits for the socket or for the next thing to do; a game would draw a frame instead. */
static void rest(tidegate_client *client)
{
    struct pollfd wait = { (int)tidegate_client_socket(client), POLLIN, 0 };
    int64_t nanos = tidegate_client_next_update(client, tidegate_now());
    poll(&wait, 1, nanos < 16000000 ? (int)(nanos / 1000000) + 1 : 16);
}

int main(int argc, char **argv)
{
    uint8_t token[4096];
    uint8_t expected[MESSAGE_BYTES];
    uint32_t said = 0, heard = 0;
    tidegate_client *client;
    tidegate_message message;
    tidegate_stats stats;
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;

    if (!file) {
        fprintf(stderr, "usage: echo TOKENFILE\n");
        return 64;
    }
    if (tidegate_abi() != TIDEGATE_ABI) {
        fprintf(stderr, "tidegate %s is not the library of this header\n", tidegate_version());
        return 1;
    }
    size_t length = fread(token, 1, sizeof token, file);
    fclose(file);

    int32_t error = tidegate_client_yojimbo(token, length, TIDEGATE_SOCKET, tidegate_now(), &client);
    if (error) {
        fprintf(stderr, "%s\n", tidegate_error_text(error));
        return 1;
    }
    uint64_t patience = tidegate_now() + 60 * SECOND;
    int32_t state;
    while ((state = tidegate_client_update(client, tidegate_now())) != TIDEGATE_CLOSED) {
        if (state < 0) {
            fprintf(stderr, "%s\n", tidegate_error_text(state));
            return 1;
        }
        while (said < MESSAGES && tidegate_client_has_room(client) == 1) {
            fill(expected, said);
            error = tidegate_client_send(client, tidegate_now(), expected, MESSAGE_BYTES);
            if (error)
                break;
            said++;
        }
        while (tidegate_client_poll_message(client, &message) == 1) {
            fill(expected, heard);
            if (message.length != MESSAGE_BYTES || memcmp(message.payload, expected, MESSAGE_BYTES)) {
                fprintf(stderr, "message %u is not what was sent\n", heard);
                return 1;
            }
            heard++;
        }
        if (heard == MESSAGES)
            tidegate_client_finish(client, tidegate_now(), 5 * SECOND);
        tidegate_client_flush(client, tidegate_now());
        if (tidegate_now() > patience)
            break;
        rest(client);
    }
    tidegate_client_stats(client, &stats, sizeof stats);
    int32_t ended = tidegate_client_ended(client);
    printf("%u of %u came back; %s; rtt %.1f ms, loss %.0f %%, %u resent\n", heard, (unsigned)MESSAGES,
           tidegate_ended_text(ended), (double)stats.rtt / 1e6, stats.loss * 100,
           (unsigned)stats.messages_resent);
    tidegate_client_free(client);
    return heard == MESSAGES && ended == TIDEGATE_ENDED_HERE ? 0 : 1;
}
