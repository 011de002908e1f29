// tidegate: reliable and unreliable messages over UDP, for game clients. See docs/CLIENTS.md.
//
// One handle, two flavours, chosen when it is made:
//
//   TIDEGATE_SOCKET     it has a non-blocking UDP socket; call tidegate_client_update once a frame.
//   TIDEGATE_NO_SOCKET  you carry the datagrams: tidegate_client_handle_datagram,
//                       tidegate_client_handle_timeout, tidegate_client_poll_transmit.
//
// Time is yours: each call takes `now`, nanoseconds on any clock that does not step back
// (tidegate_now() is one). Nothing here waits, calls you back, starts a thread or panics.
//
// A library may be another one than this header is of: see tidegate_abi().
//
// Functions return TIDEGATE_OK (0), a positive answer where the function says so, or a negative
// TIDEGATE_ERROR_*; tidegate_error_text() has a sentence for each.
//
// Threads: a handle may move between threads, but only one call at a time may use it; a second one
// at the same moment changes nothing and returns TIDEGATE_ERROR_BUSY. Different handles are
// independent. tidegate_client_free must be the last call and run alone. After fork(), one of the two
// processes may use or free a handle, and the other not even that: both would speak for one session.

#ifndef TIDEGATE_H
#define TIDEGATE_H

// Made by cbindgen from capi/src; see capi/tests/header.rs before you change it.

#include <stddef.h>
#include <stdint.h>

// What this header says, as a number. It changes with every change that a program built with the header before does not
// survive; new functions, constants and statistics are none.
#define TIDEGATE_ABI 1

// Done.
#define TIDEGATE_OK 0

// A null pointer, an impossible value, or a function of the other flavour.
#define TIDEGATE_ERROR_INVALID -1

// The queue for the server is full, or nothing can leave yet while it connects: try again in a later frame.
#define TIDEGATE_ERROR_FULL -2

// The message is longer than the channel takes.
#define TIDEGATE_ERROR_TOO_LARGE -3

// The protocol has no such channel: rudp has no unreliable one.
#define TIDEGATE_ERROR_NO_CHANNEL -4

// Closing, or over.
#define TIDEGATE_ERROR_CLOSED -5

// These bytes are no connect token.
#define TIDEGATE_ERROR_TOKEN -6

// No socket could be had.
#define TIDEGATE_ERROR_SOCKET -7

// The datagram was not for this session, came twice, or is damaged: nothing to do.
#define TIDEGATE_ERROR_REFUSED -8

// Another call is using this handle at this moment.
#define TIDEGATE_ERROR_BUSY -9

// A bug in tidegate. The handle is of no more use; free it and report the text on stderr.
#define TIDEGATE_ERROR_PANIC -10

// With a socket of its own.
#define TIDEGATE_SOCKET 1

// You carry the datagrams.
#define TIDEGATE_NO_SOCKET 2

// The handshake is under way. Sending says TIDEGATE_ERROR_FULL until a message may leave with it; what is sent
// then arrives a round trip earlier than what waits for TIDEGATE_CONNECTED.
#define TIDEGATE_CONNECTING 1

// Messages go both ways.
#define TIDEGATE_CONNECTED 2

// What was sent is being delivered; then it closes.
#define TIDEGATE_CLOSING 3

// Over; tidegate_client_ended() says how. Messages that came before can still be polled.
#define TIDEGATE_CLOSED 4

// It is not over.
#define TIDEGATE_ENDED_NOT 0

// We closed it; tidegate_client_unconfirmed() has what the server did not confirm.
#define TIDEGATE_ENDED_HERE 1

// The socket failed.
#define TIDEGATE_ENDED_SOCKET 2

// The server said goodbye.
#define TIDEGATE_ENDED_SERVER 3

// The server fell silent.
#define TIDEGATE_ENDED_SILENCE 4

// The server stopped acknowledging, or left a gap in its messages.
#define TIDEGATE_ENDED_STALLED 5

// The server sends what this client cannot read: compare both layouts.
#define TIDEGATE_ENDED_VIOLATION 6

// The server denied: it is full, or not ready.
#define TIDEGATE_ENDED_DENIED 7

// No server answered: wrong address, or it does not take this token.
#define TIDEGATE_ENDED_UNANSWERED 8

// The connect token expired before a server answered.
#define TIDEGATE_ENDED_TOKEN_EXPIRED 9

// The server forgot a message before it could be delivered (rudp).
#define TIDEGATE_ENDED_FORGOTTEN 10

// Something that should not happen to a client; please report it.
#define TIDEGATE_ENDED_OTHER 99

// A connection to a server; opaque.
typedef struct tidegate_client tidegate_client;

// An IP address and a port.
typedef struct tidegate_address {
  // As on the wire, first byte first; IPv4 uses the first four.
  uint8_t ip[16];
  // In your machine's byte order.
  uint16_t port;
  // 0 or 1.
  uint8_t is_ipv6;
} tidegate_address;

// A datagram to be sent. `bytes` is good until the next call with the same handle.
typedef struct tidegate_datagram {
  // The UDP payload.
  const uint8_t *bytes;
  // Its bytes.
  size_t length;
  // Where to.
  struct tidegate_address to;
} tidegate_datagram;

// A message from the server. `payload` is good until the next tidegate_client_poll_message() or
// tidegate_client_free() of the same handle.
typedef struct tidegate_message {
  // What the server sent; not null, but nothing to read when `length` is 0.
  const uint8_t *payload;
  // Its bytes.
  size_t length;
  // The channel it came on: 0 is reliable, 1 is not, unless the layout says otherwise.
  uint8_t channel;
  // 1 when that channel is reliable and ordered, else 0.
  uint8_t reliable;
} tidegate_message;

// How a session is doing. Times are nanoseconds, 0 before there is something to say. Later headers may have more at the
// end.
typedef struct tidegate_stats {
  // Latest round trip.
  uint64_t rtt_latest;
  // Smoothed round trip.
  uint64_t rtt;
  // Smallest round trip of the recent past.
  uint64_t rtt_min;
  // Mean deviation of the time until an acknowledgement comes, what the server holds back included.
  uint64_t rtt_variation;
  // Estimated share of own packets that get lost, 0 to 1.
  double loss;
  // 1 while sending at the bad mode's rate.
  uint32_t in_bad_mode;
  // Reliable messages queued or not confirmed; rudp never confirms.
  uint32_t outbox_messages;
  // Packets sent.
  uint64_t packets_sent;
  // Packets taken.
  uint64_t packets_received;
  // Own packets given up.
  uint64_t packets_lost;
  // Messages put into packets, each counted once.
  uint64_t messages_sent;
  // Reliable messages, and fragments of long ones, put into a packet again after a loss.
  uint64_t messages_resent;
  // Messages taken from the server.
  uint64_t messages_received;
} tidegate_stats;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// The TIDEGATE_ABI that this library was built with. Compare it with your header's before you call anything else: a
// library with another one writes beyond your structures, or takes your arguments for others.
int32_t tidegate_abi(void);

// The library's version, for your log and for reports: "0.1.0". Static, never null.
const char *tidegate_version(void);

// A sentence for a TIDEGATE_ERROR_*; static, never null.
const char *tidegate_error_text(int32_t error);

// Nanoseconds on a clock that does not step back, since its first use in this process: for `now`.
uint64_t tidegate_now(void);

// Begins to connect with a connect token: 2048 bytes, or its base64 text. A token carries one
// session; ask your matchmaker for another one each time. `io` is TIDEGATE_SOCKET or
// TIDEGATE_NO_SOCKET. On success `*client` is a handle to be freed, else null.
int32_t tidegate_client_yojimbo(const uint8_t *token,
                                size_t token_length,
                                int32_t io,
                                uint64_t now,
                                struct tidegate_client **client);

// Begins to connect without authentication: `server` is `10.0.0.7:40001` or `[fd00::7]:40001`,
// `protocol_id` the server's, or 0 for tidegate's default. Closed networks only.
int32_t tidegate_client_gaffer(const char *server,
                               uint32_t protocol_id,
                               int32_t io,
                               uint64_t now,
                               struct tidegate_client **client);

// Begins to connect to a cloudwu/rudp server. Closed networks only.
int32_t tidegate_client_rudp(const char *server,
                             int32_t io,
                             uint64_t now,
                             struct tidegate_client **client);

// With a socket: takes what arrived, does what is due, sends what is ready, and returns the state,
// a TIDEGATE_CONNECTING to TIDEGATE_CLOSED. Call it once a frame, at least ten times a second.
int32_t tidegate_client_update(struct tidegate_client *client, uint64_t now);

// With a socket: sends what is ready. For the end of a frame that queued messages after its update.
int32_t tidegate_client_flush(struct tidegate_client *client, uint64_t now);

// With a socket: its descriptor (on Windows its SOCKET), to wait on until something can be read; do
// not read, write or close it. It may change in an update when a token's servers have addresses of
// both kinds. Negative is an error.
int64_t tidegate_client_socket(const struct tidegate_client *client);

// Without a socket: a datagram arrived. TIDEGATE_ERROR_REFUSED is normal on a network and needs no
// action. Afterwards poll tidegate_client_poll_transmit() until it is dry.
int32_t tidegate_client_handle_datagram(struct tidegate_client *client,
                                        uint64_t now,
                                        const struct tidegate_address *from,
                                        const uint8_t *datagram,
                                        size_t length);

// Without a socket: does what time decides. Harmless when called early or often; see
// tidegate_client_next_update(). Afterwards poll tidegate_client_poll_transmit() until it is dry.
int32_t tidegate_client_handle_timeout(struct tidegate_client *client, uint64_t now);

// Without a socket: the next datagram to be sent. 1 when there is one, 0 when there is none; negative
// is an error.
int32_t tidegate_client_poll_transmit(struct tidegate_client *client,
                                      uint64_t now,
                                      struct tidegate_datagram *datagram);

// Queues a reliable message: it arrives once and in order, or the session ends. It leaves with the
// next update, flush or poll_transmit.
int32_t tidegate_client_send(struct tidegate_client *client,
                             uint64_t now,
                             const uint8_t *payload,
                             size_t length);

// Queues an unreliable message: it arrives soon, or never.
int32_t tidegate_client_send_unreliable(struct tidegate_client *client,
                                        uint64_t now,
                                        const uint8_t *payload,
                                        size_t length);

// Whether tidegate_client_send() takes another message of any legal size: 1 or 0; negative is an
// error.
int32_t tidegate_client_has_room(const struct tidegate_client *client);

// The next message from the server: 1 when there is one, 0 when there is none; negative is an error.
// Messages that are not polled fill a bounded queue, and then hold the server back.
int32_t tidegate_client_poll_message(struct tidegate_client *client,
                                     struct tidegate_message *message);

// TIDEGATE_CONNECTING to TIDEGATE_CLOSED; negative is an error.
int32_t tidegate_client_state(const struct tidegate_client *client);

// Nanoseconds until tidegate_client_update() or tidegate_client_handle_timeout() has something to do
// although nothing arrives: the longest useful wait. INT64_MAX when it is over; negative is an error.
int64_t tidegate_client_next_update(const struct tidegate_client *client,
                                    uint64_t now);

// How it ended, a TIDEGATE_ENDED_*; negative is an error.
int32_t tidegate_client_ended(const struct tidegate_client *client);

// Reliable messages that the server has not confirmed: it may have them or not. Negative is an
// error. rudp never confirms; there it is those that have not left.
int64_t tidegate_client_unconfirmed(const struct tidegate_client *client);

// The server that is dialled, or talked to.
int32_t tidegate_client_server(const struct tidegate_client *client,
                               struct tidegate_address *address);

// How the session is doing. `size` is your header's `sizeof(tidegate_stats)`: no more is written, and what the library
// does not know is 0.
int32_t tidegate_client_stats(const struct tidegate_client *client,
                              struct tidegate_stats *stats,
                              size_t size);

// Delivers what was sent, then says goodbye; gives up after `linger` nanoseconds without any
// progress. Go on calling update (or your three functions) until the state is TIDEGATE_CLOSED.
int32_t tidegate_client_finish(struct tidegate_client *client, uint64_t now, uint64_t linger);

// Says goodbye at once.
int32_t tidegate_client_close(struct tidegate_client *client, uint64_t now);

// Says goodbye, if it is not over, and frees the handle. Null is fine. Without a socket, the goodbye
// is yours to send: tidegate_client_close() and tidegate_client_poll_transmit() before this.
void tidegate_client_free(struct tidegate_client *client);

// A sentence for a TIDEGATE_ENDED_*; static, never null.
const char *tidegate_ended_text(int32_t ended);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* TIDEGATE_H */
