/* Everything a caller can get wrong without breaking C's own rules: each is an error code, none a
 * crash. Run under AddressSanitizer by tests/capi.rs. */
#include <stdio.h>
#include <string.h>

#include "tidegate.h"

static int failures;

static void expect(const char *what, int64_t got, int64_t wanted)
{
    if (got != wanted) {
        fprintf(stderr, "%s: %lld, not %lld\n", what, (long long)got, (long long)wanted);
        failures++;
    }
}

int main(void)
{
    uint8_t bytes[3000] = { 0 };
    tidegate_client *client = (tidegate_client *)1;
    tidegate_message message;
    tidegate_datagram datagram;
    tidegate_address from = { { 10, 0, 0, 7 }, 40001, 0 };
    tidegate_stats stats;
    int32_t invalid = TIDEGATE_ERROR_INVALID;

    expect("the header's number", tidegate_abi(), TIDEGATE_ABI);
    expect("no token", tidegate_client_yojimbo(NULL, 2048, TIDEGATE_SOCKET, 0, &client), invalid);
    expect("null after failure", client == NULL, 1);
    expect("an absurd length", tidegate_client_yojimbo(bytes, SIZE_MAX, TIDEGATE_SOCKET, 0, &client),
           invalid);
    expect("zeros", tidegate_client_yojimbo(bytes, 2048, TIDEGATE_SOCKET, 0, &client),
           TIDEGATE_ERROR_TOKEN);
    expect("nothing", tidegate_client_yojimbo(bytes, 0, TIDEGATE_SOCKET, 0, &client),
           TIDEGATE_ERROR_TOKEN);
    expect("nowhere to put it", tidegate_client_rudp("10.0.0.7:1", TIDEGATE_SOCKET, 0, NULL), invalid);
    expect("no server", tidegate_client_gaffer(NULL, 0, TIDEGATE_SOCKET, 0, &client), invalid);
    expect("not an address", tidegate_client_gaffer("here", 0, TIDEGATE_SOCKET, 0, &client), invalid);
    expect("no flavour", tidegate_client_gaffer("10.0.0.7:1", 0, 7, 0, &client), invalid);

    expect("no client", tidegate_client_update(NULL, 0), invalid);
    expect("no client", tidegate_client_send(NULL, 0, bytes, 1), invalid);
    expect("no client", tidegate_client_poll_message(NULL, &message), invalid);
    expect("no client", tidegate_client_stats(NULL, &stats, sizeof stats), invalid);
    expect("no client", tidegate_client_next_update(NULL, 0), invalid);
    tidegate_client_free(NULL);

    expect("made", tidegate_client_gaffer("10.0.0.7:40001", 0, TIDEGATE_NO_SOCKET, 5, &client), 0);
    expect("the other flavour", tidegate_client_update(client, 5), invalid);
    expect("the other flavour", tidegate_client_flush(client, 5), invalid);
    expect("the other flavour", tidegate_client_socket(client), invalid);
    expect("too early", tidegate_client_send(client, 5, bytes, 1), TIDEGATE_ERROR_FULL);
    expect("no bytes", tidegate_client_send(client, 5, NULL, 1), invalid);
    expect("nowhere to put it", tidegate_client_poll_message(client, NULL), invalid);
    expect("nowhere to put it", tidegate_client_poll_transmit(client, 5, NULL), invalid);
    expect("nowhere to put it", tidegate_client_stats(client, NULL, sizeof stats), invalid);
    expect("no size that there is", tidegate_client_stats(client, &stats, SIZE_MAX), invalid);
    memset(&stats, 0x77, sizeof stats);
    expect("an older header's", tidegate_client_stats(client, &stats, sizeof stats - 8), 0);
    expect("and no more of it", stats.messages_received == 0x7777777777777777u, 1);
    expect("nowhere to put it", tidegate_client_server(client, NULL), invalid);
    expect("no address", tidegate_client_handle_datagram(client, 5, NULL, bytes, 1), invalid);
    expect("no datagram", tidegate_client_handle_datagram(client, 5, &from, NULL, 1), invalid);
    expect("garbage", tidegate_client_handle_datagram(client, 5, &from, bytes, sizeof bytes),
           TIDEGATE_ERROR_REFUSED);
    expect("a knock", tidegate_client_poll_transmit(client, 6, &datagram), 1);
    expect("where to", datagram.to.port == 40001 && !memcmp(datagram.to.ip, from.ip, 4), 1);
    expect("a clock that steps back", tidegate_client_handle_timeout(client, 0), 0);
    expect("a clock that leaps", tidegate_client_handle_timeout(client, UINT64_MAX), 0);
    expect("over", tidegate_client_state(client), TIDEGATE_CLOSED);
    expect("how", tidegate_client_ended(client), TIDEGATE_ENDED_UNANSWERED);
    expect("nothing left", tidegate_client_next_update(client, UINT64_MAX), INT64_MAX);
    tidegate_client_free(client);

    expect("made", tidegate_client_rudp("127.0.0.1:9", TIDEGATE_SOCKET, 0, &client), 0);
    expect("the other flavour", tidegate_client_handle_timeout(client, 1), invalid);
    expect("the other flavour", tidegate_client_poll_transmit(client, 1, &datagram), invalid);
    expect("the other flavour", tidegate_client_handle_datagram(client, 1, &from, bytes, 1), invalid);
    expect("a socket", tidegate_client_socket(client) >= 0, 1);
    tidegate_client_free(client);

    for (int32_t number = -20; number < 120; number++)
        if (!tidegate_error_text(number) || !tidegate_ended_text(number))
            failures++;
    printf("%d failures\n", failures);
    return failures != 0;
}
