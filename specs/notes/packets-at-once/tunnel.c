// An end of a tunnel with MPT's format and its reorder rule, for two paths of equal weight:
//
//     tunnel DEVICE WINDOW SENT_BEFORE LOCAL_1 REMOTE_1 LOCAL_2 REMOTE_2
//
// One thread reads the TUN device and sends, one for each path receives, puts in order and writes
// to the device. Window 0: no order, no numbers.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PATHS = 2, PORT = 23456, MOST_WINDOW = 8192, MAX_DELAY_NS = 300000000, FIRST_NUMBERS = 50 };

struct packet {
    int len, held;
    uint32_t seq;
    uint64_t since;
    unsigned char bytes[1600];
};

static int device, sockets[PATHS];
static uint32_t window, expected, furthest;
static unsigned held;
static struct packet *ring[PATHS], *table[2 * MOST_WINDOW + 2];
static uint32_t next_buffer[PATHS];
static pthread_mutex_t order = PTHREAD_MUTEX_INITIALIZER;

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000ull + t.tv_nsec;
}

static struct packet **place(uint32_t seq) { return &table[seq % (2 * (window + 1))]; }

static void deliver(struct packet *p)
{
    if (write(device, p->bytes, p->len) < 0)
        perror("write to the device");
    p->held = 0;
}

/* The packet that is expected, if it is here. */
static int deliver_expected(void)
{
    struct packet **p = place(expected);
    if (!*p || (*p)->seq != expected)
        return 0;
    deliver(*p);
    *p = NULL;
    held--;
    expected++;
    return 1;
}

/* Everything held up to a number over the gaps, and the run behind it. */
static void deliver_through(uint32_t seq)
{
    while (held && (int32_t)(seq - expected) >= 0)
        if (!deliver_expected())
            expected++;
    while (deliver_expected())
        ;
}

static void handle(int path, uint32_t seq, const unsigned char *bytes, int len)
{
    struct packet *p = &ring[path][next_buffer[path]];
    next_buffer[path] = (next_buffer[path] + 1) % window;
    if (p->held)
        deliver_through(furthest);
    p->len = len;
    p->seq = seq;
    p->since = now_ns();
    memcpy(p->bytes, bytes, len);
    if ((int32_t)(seq - expected) < 0) {
        if (seq > FIRST_NUMBERS)
            return;
        deliver_through(furthest);
        expected = seq;
    } else if (seq - expected >= window) {
        deliver_through(furthest);
        expected = seq;
    }
    if (!held || (int32_t)(seq - furthest) > 0)
        furthest = seq;
    p->held = 1;
    *place(seq) = p;
    held++;
    while (deliver_expected())
        ;
}

static void *receive(void *of)
{
    int path = (long)of;
    unsigned char datagram[2048];
    for (;;) {
        int len = recv(sockets[path], datagram, sizeof datagram, 0);
        if (len < 8)
            continue;
        if (!(datagram[0] & 0x10)) {
            /* Without a number: a keepalive, or no order is kept. */
            if (datagram[4] < 0xa0 && write(device, datagram + 4, len - 4) < 0)
                perror("write to the device");
            continue;
        }
        uint32_t seq;
        memcpy(&seq, datagram + 4, 4);
        pthread_mutex_lock(&order);
        handle(path, ntohl(seq), datagram + 8, len - 8);
        pthread_mutex_unlock(&order);
    }
    return NULL;
}

static void *give_up(void *unused)
{
    for (;; usleep(1000)) {
        pthread_mutex_lock(&order);
        uint64_t now = now_ns();
        uint32_t last = 0;
        int found = 0;
        for (uint32_t seq = expected; held && (int32_t)(furthest - seq) >= 0; seq++) {
            struct packet *p = *place(seq);
            if (p && p->seq == seq && now - p->since > MAX_DELAY_NS) {
                last = seq;
                found = 1;
            }
        }
        if (found)
            deliver_through(last);
        pthread_mutex_unlock(&order);
    }
    return unused;
}

static int open_device(const char *name)
{
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    strncpy(request.ifr_name, name, IFNAMSIZ - 1);
    int file = open("/dev/net/tun", O_RDWR);
    return file < 0 || ioctl(file, TUNSETIFF, &request) ? -1 : file;
}

static int open_path(const char *local, const char *remote)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int size = 8 << 20, file = socket(AF_INET, SOCK_DGRAM, 0);
    setsockopt(file, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    inet_pton(AF_INET, local, &at.sin_addr);
    if (bind(file, (struct sockaddr *)&at, sizeof at))
        return -1;
    inet_pton(AF_INET, remote, &at.sin_addr);
    return connect(file, (struct sockaddr *)&at, sizeof at) ? -1 : file;
}

int main(int count, char **arguments)
{
    pthread_t thread;
    if (count != 8 || (device = open_device(arguments[1])) < 0)
        return perror("device"), 1;
    window = atoi(arguments[2]);
    uint32_t seq = expected = atoi(arguments[3]);
    for (long path = 0; path < PATHS; path++) {
        sockets[path] = open_path(arguments[4 + 2 * path], arguments[5 + 2 * path]);
        if (sockets[path] < 0)
            return perror("path"), 1;
        ring[path] = calloc(window + 1, sizeof(struct packet));
    }
    for (long path = 0; path < PATHS; path++)
        pthread_create(&thread, NULL, receive, (void *)path);
    if (window)
        pthread_create(&thread, NULL, give_up, NULL);
    unsigned char datagram[2048];
    for (int header = window ? 8 : 4;;) {
        int len = read(device, datagram + header, 1700);
        if (len <= 0) {
            usleep(1000); /* The device is not up yet. */
            continue;
        }
        uint32_t number = htonl(seq);
        memset(datagram, 0, header);
        datagram[2] = 8;
        if (window) {
            datagram[0] = 0x10;
            memcpy(datagram + 4, &number, 4);
        }
        if (send(sockets[seq++ % PATHS], datagram, len + header, 0) < 0)
            perror("send");
    }
}
