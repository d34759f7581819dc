/* Load generator: sends encoded requests over N connections.
 *
 *   load HOST PORT CONNECTIONS SECONDS FRAMES ERROR_POSITION IN_FLIGHT RATE
 *
 * FRAMES is a file of requests, each with its 4-byte size. Connection i sends requests i, i + CONNECTIONS and so on,
 * modulo their number. ERROR_POSITION is the position of the response's int16 error code, size field included; any
 * code but 0 ends the run. With RATE 0 every connection keeps IN_FLIGHT requests in flight; else RATE requests a second
 * are sent over all connections at even intervals, whatever the broker does, and latency counts from when a request was
 * due, else from when it was sent. Prints responses, seconds, bytes received, and the latencies at 50, 99 and 99.9
 * percent in microseconds, of the first million responses.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECTIONS_MAX = 1024, KINDS_MAX = 4096, KEPT = 256, IN_FLIGHT_MAX = 4096, RECEIVE = 1 << 18, LATENCIES = 1 << 20 };

struct request { const unsigned char *bytes; size_t size; };
struct connection {
    int socket;
    size_t next;                    /* the request to send */
    size_t sent;                    /* bytes of it that are sent; the rest follows when the socket takes it */
    size_t waiting;                 /* requests that may be sent and are not yet */
    unsigned char answer[KEPT];     /* the beginning of the answer that is arriving */
    size_t have;                    /* bytes of it so far */
    double due[IN_FLIGHT_MAX];      /* when requests in flight were due, a ring */
    size_t first, count;
    int wants_write;
};

static struct connection connections[CONNECTIONS_MAX];
static struct request requests[KINDS_MAX];
static size_t kinds, step, error_position;
static unsigned char received[RECEIVE];
static int poll_descriptor;
static long answers;
static double bytes_received;
static double *latencies;
static long latencies_max;

static void fail(const char *what) { perror(what); exit(1); }

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec / 1e9;
}

static unsigned char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) fail(path);
    fseek(file, 0, SEEK_END);
    *size = (size_t)ftell(file);
    rewind(file);
    unsigned char *bytes = malloc(*size);
    if (!bytes || fread(bytes, 1, *size, file) != *size) fail(path);
    fclose(file);
    return bytes;
}

static size_t field(const unsigned char *bytes) {
    return (size_t)bytes[0] << 24 | (size_t)bytes[1] << 16 | (size_t)bytes[2] << 8 | bytes[3];
}

static void watch(struct connection *connection, int wants_write) {
    if (connection->wants_write == wants_write) return;
    connection->wants_write = wants_write;
    struct epoll_event event = {.events = EPOLLIN | (wants_write ? EPOLLOUT : 0), .data.ptr = connection};
    if (epoll_ctl(poll_descriptor, EPOLL_CTL_MOD, connection->socket, &event)) fail("epoll_ctl");
}

static void flush_requests(struct connection *connection) {
    while (connection->waiting) {
        struct request *request = &requests[connection->next];
        ssize_t sent = send(connection->socket, request->bytes + connection->sent, request->size - connection->sent,
                            MSG_NOSIGNAL | MSG_DONTWAIT);
        if (sent < 0 && errno == EAGAIN) { watch(connection, 1); return; }
        if (sent < 0) fail("send");
        connection->sent += (size_t)sent;
        if (connection->sent < request->size) continue;
        connection->sent = 0;
        connection->waiting--;
        connection->next = (connection->next + step) % kinds;
    }
    watch(connection, 0);
}

static void ask(struct connection *connection, double due) {
    if (connection->count == IN_FLIGHT_MAX) { fprintf(stderr, "the broker is too slow for the rate\n"); exit(1); }
    connection->due[(connection->first + connection->count++) % IN_FLIGHT_MAX] = due;
    connection->waiting++;
}

static void answered(struct connection *connection) {
    if (connection->answer[error_position] || connection->answer[error_position + 1]) {
        fprintf(stderr, "error code %d\n", connection->answer[error_position] << 8 | connection->answer[error_position + 1]);
        exit(1);
    }
    if (answers < latencies_max) latencies[answers] = now() - connection->due[connection->first];
    connection->first = (connection->first + 1) % IN_FLIGHT_MAX;
    connection->count--;
    connection->have = 0;
    answers++;
}

/* Receive bytes; return the number of responses that are complete now. */
static int receive(struct connection *connection) {
    ssize_t count = recv(connection->socket, received, RECEIVE, MSG_DONTWAIT);
    if (count < 0 && errno == EAGAIN) return 0;
    if (count <= 0) { fprintf(stderr, "the broker closed a connection\n"); exit(1); }
    bytes_received += (double)count;
    int whole = 0;
    size_t position = 0, end = (size_t)count;
    while (position < end) {
        while (position < end && connection->have < 4) connection->answer[connection->have++] = received[position++];
        if (connection->have < 4) break;
        size_t size = 4 + field(connection->answer), part = size - connection->have;
        if (part > end - position) part = end - position;
        if (connection->have < KEPT) {
            size_t kept = KEPT - connection->have < part ? KEPT - connection->have : part;
            memcpy(connection->answer + connection->have, received + position, kept);
        }
        connection->have += part;
        position += part;
        if (connection->have < size) break;
        answered(connection);
        whole++;
    }
    return whole;
}

static int connect_to(const char *host, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail("host");
    int one = 1, descriptor = socket(AF_INET, SOCK_STREAM, 0);
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return descriptor;
}

static int compare(const void *left, const void *right) {
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double percentile(double share) {
    long count = answers < latencies_max ? answers : latencies_max;
    return count ? latencies[(long)(share * (double)(count - 1))] * 1e6 : 0;
}

int main(int count, char **arguments) {
    if (count != 9) {
        fprintf(stderr, "usage: load HOST PORT CONNECTIONS SECONDS FRAMES ERROR_POSITION IN_FLIGHT RATE\n");
        return 2;
    }
    size_t wanted = (size_t)atoi(arguments[3]), in_flight = (size_t)atoi(arguments[7]), size;
    double seconds = atof(arguments[4]), rate = atof(arguments[8]);
    error_position = (size_t)atoi(arguments[6]);
    unsigned char *bytes = read_file(arguments[5], &size);
    for (size_t position = 0; position < size && kinds < KINDS_MAX; kinds++) {
        requests[kinds] = (struct request){bytes + position, 4 + field(bytes + position)};
        position += requests[kinds].size;
    }
    if (wanted < 1 || wanted > CONNECTIONS_MAX || !kinds || error_position + 2 > KEPT) return 2;
    step = wanted;
    latencies_max = rate > 0 ? (long)(rate * seconds) + 1 : LATENCIES;
    latencies = malloc((size_t)latencies_max * sizeof *latencies);
    if (!latencies) fail("malloc");
    poll_descriptor = epoll_create1(0);
    for (size_t index = 0; index < wanted; index++) {
        struct connection *connection = &connections[index];
        connection->socket = connect_to(arguments[1], arguments[2]);
        connection->next = index % kinds;
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        if (epoll_ctl(poll_descriptor, EPOLL_CTL_ADD, connection->socket, &event)) fail("epoll_ctl");
    }
    double start = now(), end = start + seconds;
    long asked = 0;
    for (size_t index = 0; rate == 0 && index < wanted; index++) {
        for (size_t number = 0; number < in_flight; number++) ask(&connections[index], start);
        flush_requests(&connections[index]);
    }
    for (double time = now(); time < end; time = now()) {
        struct timespec patience = {1, 0};
        if (rate > 0) {
            for (; start + (double)asked / rate <= time; asked++) {
                struct connection *connection = &connections[(size_t)asked % wanted];
                ask(connection, start + (double)asked / rate);
                flush_requests(connection);
            }
            double rest = start + (double)asked / rate - now();
            patience = (struct timespec){0, rest > 0 ? (long)(rest * 1e9) : 0};
        }
        struct epoll_event events[CONNECTIONS_MAX];
        int ready = epoll_pwait2(poll_descriptor, events, CONNECTIONS_MAX, &patience, NULL);
        if (ready < 0 && errno != EINTR) fail("epoll_pwait2");
        for (int index = 0; index < ready; index++) {
            struct connection *connection = events[index].data.ptr;
            int whole = events[index].events & ~(uint32_t)EPOLLOUT ? receive(connection) : 0;
            for (; rate == 0 && whole > 0; whole--) ask(connection, now());
            flush_requests(connection);
        }
    }
    printf("%ld %.6f %.0f", answers, now() - start, bytes_received);
    qsort(latencies, (size_t)(answers < latencies_max ? answers : latencies_max), sizeof *latencies, compare);
    printf(" %.1f %.1f %.1f\n", percentile(0.5), percentile(0.99), percentile(0.999));
    return 0;
}
