/* A load of small requests: N connections, one request in flight on each, for a number of seconds.
 *
 *   load HOST PORT CONNECTIONS SECONDS FRAMES ERROR_POSITION
 *
 * FRAMES is a file of requests, each with its own 4-byte size; connection i sends request i modulo their number, over and
 * over. ERROR_POSITION is where the response's int16 error code stands, its size field included; any code but 0 ends the run.
 * Prints the number of answers and the seconds they took.
 */
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

enum { CONNECTIONS_MAX = 1024, ANSWER_MAX = 4096 };

struct request { const unsigned char *bytes; size_t size; };
struct connection { int socket; struct request request; unsigned char answer[ANSWER_MAX]; size_t have; };

static struct connection connections[CONNECTIONS_MAX];

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

static void send_request(struct connection *connection) {
    ssize_t sent = send(connection->socket, connection->request.bytes, connection->request.size, MSG_NOSIGNAL);
    if (sent != (ssize_t)connection->request.size) fail("send");
    connection->have = 0;
}

/* 1 when the answer is whole. */
static int receive(struct connection *connection, size_t error_position) {
    ssize_t count = recv(connection->socket, connection->answer + connection->have, ANSWER_MAX - connection->have, 0);
    if (count <= 0) { fprintf(stderr, "the broker closed a connection\n"); exit(1); }
    connection->have += (size_t)count;
    if (connection->have < 4 || connection->have < 4 + field(connection->answer)) return 0;
    if (connection->answer[error_position] || connection->answer[error_position + 1]) {
        fprintf(stderr, "error code %d\n", connection->answer[error_position] << 8 | connection->answer[error_position + 1]);
        exit(1);
    }
    return 1;
}

static int connect_to(const char *host, const char *port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port))};
    if (inet_pton(AF_INET, host, &address.sin_addr) != 1) fail("host");
    int one = 1, descriptor = socket(AF_INET, SOCK_STREAM, 0);
    if (descriptor < 0 || connect(descriptor, (struct sockaddr *)&address, sizeof address)) fail("connect");
    setsockopt(descriptor, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    return descriptor;
}

int main(int count, char **arguments) {
    if (count != 7) { fprintf(stderr, "usage: load HOST PORT CONNECTIONS SECONDS FRAMES ERROR_POSITION\n"); return 2; }
    int wanted = atoi(arguments[3]);
    double seconds = atof(arguments[4]);
    size_t size, error_position = (size_t)atoi(arguments[6]), kinds = 0;
    unsigned char *bytes = read_file(arguments[5], &size);
    struct request requests[CONNECTIONS_MAX];
    for (size_t position = 0; position < size && kinds < CONNECTIONS_MAX; kinds++) {
        requests[kinds] = (struct request){bytes + position, 4 + field(bytes + position)};
        position += requests[kinds].size;
    }
    if (wanted < 1 || wanted > CONNECTIONS_MAX || !kinds) { fprintf(stderr, "nothing to send\n"); return 2; }
    int poll = epoll_create1(0);
    for (int index = 0; index < wanted; index++) {
        struct connection *connection = &connections[index];
        connection->socket = connect_to(arguments[1], arguments[2]);
        connection->request = requests[(size_t)index % kinds];
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, connection->socket, &event)) fail("epoll_ctl");
    }
    long answers = 0;
    double start = now(), end = start + seconds;
    for (int index = 0; index < wanted; index++) send_request(&connections[index]);
    while (now() < end) {
        struct epoll_event events[CONNECTIONS_MAX];
        int ready = epoll_wait(poll, events, CONNECTIONS_MAX, 1000);
        if (ready < 0 && errno != EINTR) fail("epoll_wait");
        for (int index = 0; index < ready; index++) {
            struct connection *connection = events[index].data.ptr;
            if (!receive(connection, error_position)) continue;
            answers++;
            send_request(connection);
        }
    }
    printf("%ld %.6f\n", answers, now() - start);
    return 0;
}
