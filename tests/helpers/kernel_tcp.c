// Requests and responses over this machine's own TCP, on a wire made of memory.
//
// One process makes two network namespaces of its own, each with a TUN device, an address and
// nothing else. It opens connections from one to the other, and it is the wire between them: what
// one TUN device gives it, it writes to the other when it is due, or not at all. Every connection
// has a wire to itself, so that many can be measured at once. When the process ends, the namespaces
// are gone with it; they have no names.
//
//     kernel_tcp ALGORITHM ONE_WAY_MS MBIT_PER_S UP DOWN LOSS CLEAN SAMPLES SLOTS SEED
//     kernel_tcp check
//
// A sample is a connection with two exchanges, one right after the other. A line for each:
// milliseconds of the first (connecting included) and of the second, and by how much a packet of it
// was late at most. With CLEAN 1 packets get lost only once the first exchange is over.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 7000, FIRST_PORT = 10000, LAST_PORT = 65000, MOST = 2048, QUEUE = 20000 };

static const char *const ADDRESS[2] = {"10.77.0.1", "10.77.0.2"};
static const int64_t SPIN = 150000;           // ns before something is due: no sleep any more
static const int64_t LONGEST = 300000000000;  // ns: a sample that takes longer is given up

static void die(const char *what) {
    fprintf(stderr, "%s: %s\n", what, strerror(errno));
    exit(1);
}

static int64_t clock_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000000000LL + t.tv_nsec;
}

static uint64_t next_random(uint64_t *state) {  // SplitMix64
    uint64_t x = *state += 0x9E3779B97F4A7C15u;
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
    return x ^ (x >> 31);
}

static double next_uniform(uint64_t *state) { return (next_random(state) >> 11) * 0x1p-53; }

// ---------------------------------------------------------------------- namespaces

static void write_setting(const char *path, const char *value) {
    int fd = open(path, O_WRONLY);
    if (fd < 0 || write(fd, value, strlen(value)) < 0) die(path);
    close(fd);
}

// Enters a new namespace and sets it up; its TUN device.
static int make_namespace(int side) {
    if (unshare(CLONE_NEWNET)) die("a network namespace");
    int tun = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (tun < 0) die("/dev/net/tun");
    struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
    strcpy(request.ifr_name, "wire");
    if (ioctl(tun, TUNSETIFF, &request)) die("a TUN device");
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0) die("socket");
    request.ifr_qlen = QUEUE;  // never what drops a packet
    if (ioctl(fd, SIOCSIFTXQLEN, &request)) die("the queue's length");
    struct sockaddr_in *address = (struct sockaddr_in *)&request.ifr_addr;
    memset(address, 0, sizeof *address);
    address->sin_family = AF_INET;
    inet_pton(AF_INET, ADDRESS[side], &address->sin_addr);
    if (ioctl(fd, SIOCSIFADDR, &request)) die("the address");
    inet_pton(AF_INET, "255.255.255.0", &address->sin_addr);
    if (ioctl(fd, SIOCSIFNETMASK, &request)) die("the network's mask");
    request.ifr_flags = IFF_UP | IFF_RUNNING | IFF_POINTOPOINT | IFF_NOARP;
    if (ioctl(fd, SIOCSIFFLAGS, &request)) die("bringing the device up");
    close(fd);
    // Connections learn nothing from earlier ones, and buffers never limit.
    write_setting("/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
    write_setting("/proc/sys/net/ipv4/tcp_rmem", "4096 8388608 16777216");
    write_setting("/proc/sys/net/ipv4/tcp_wmem", "4096 8388608 16777216");
    return tun;
}

static int own_namespace(void) {
    int fd = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (fd < 0) die("/proc/self/ns/net");
    return fd;
}

static unsigned long namespace_number(int fd) {
    struct stat status;
    fstat(fd, &status);
    return (unsigned long)status.st_ino;
}

// Packets that the devices of the current namespace had no room for.
static long dropped_by_device(void) {
    FILE *file = fopen("/proc/thread-self/net/dev", "r");
    char line[512];
    long drops = 0;
    while (file && fgets(line, sizeof line, file)) {
        long in, out;
        if (sscanf(line, " wire: %*s %*s %*s %ld %*s %*s %*s %*s %*s %*s %*s %ld", &in, &out) == 2)
            drops += in + out;
    }
    if (file) fclose(file);
    return drops;
}

// ---------------------------------------------------------------------- the wire

typedef struct {
    int64_t due;
    uint64_t order;  // packets that are due at once keep their order
    int size, target;
    uint32_t port, life;
    unsigned char *bytes;
} Packet;

typedef struct {  // of a connection, by its client's port
    uint32_t life;  // counts the connections that had this port
    int open, lossy;
    double free[2];
    int64_t last[2];
    uint64_t random[2];
    int64_t latest;
    int server;
    long got;
} Wire;

static Wire wires[65536];
static Packet *heap;
static size_t waiting, room;
static uint64_t order;
static int tuns[2], epoll;
static double delay_ns, ns_per_byte, loss;
static long seen, lost, delivered, stale;

static int before(const Packet *a, const Packet *b) {
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void push(Packet packet) {
    if (waiting == room) {
        room = room ? 2 * room : 4096;
        heap = realloc(heap, room * sizeof *heap);
        if (!heap) die("memory");
    }
    size_t i = waiting++;
    for (; i && before(&packet, &heap[(i - 1) / 2]); i = (i - 1) / 2) heap[i] = heap[(i - 1) / 2];
    heap[i] = packet;
}

static Packet pop(void) {
    Packet top = heap[0], last = heap[--waiting];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= waiting) break;
        if (child + 1 < waiting && before(&heap[child + 1], &heap[child])) child++;
        if (!before(&heap[child], &last)) break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = last;
    return top;
}

// Takes what a TUN device has; whether there was anything.
static int collect(int side) {
    unsigned char bytes[MOST];
    int any = 0;
    for (;;) {
        ssize_t size = read(tuns[side], bytes, sizeof bytes);
        if (size <= 0) return any;
        any = 1;
        if (size < 40 || bytes[0] >> 4 != 4 || bytes[9] != IPPROTO_TCP) continue;
        const unsigned char *header = bytes + 4 * (bytes[0] & 15);
        uint32_t port = side == 0 ? header[0] << 8 | header[1] : header[2] << 8 | header[3];
        Wire *wire = &wires[port];
        if (!wire->open) continue;
        seen++;
        double now = clock_ns();
        double start = wire->free[side] > now ? wire->free[side] : now;
        wire->free[side] = start + size * ns_per_byte;
        if (wire->lossy && next_uniform(&wire->random[side]) < loss) {
            lost++;
            continue;
        }
        int64_t due = (int64_t)(wire->free[side] + delay_ns);
        if (due < wire->last[side]) due = wire->last[side];
        wire->last[side] = due;
        Packet packet = {due, order++, (int)size, 1 - side, port, wire->life, malloc(size)};
        if (!packet.bytes) die("memory");
        memcpy(packet.bytes, bytes, size);
        push(packet);
    }
}

// Writes what is due, a few packets at most, so that answers are collected in between.
static int deliver(void) {
    int some = 0;
    while (waiting && some < 4) {
        int64_t late = clock_ns() - heap[0].due;
        if (late < 0) break;
        Packet packet = pop();
        Wire *wire = &wires[packet.port];
        if (wire->open && wire->life == packet.life) {
            if (late > wire->latest) wire->latest = late;
            if (write(tuns[packet.target], packet.bytes, packet.size) != packet.size) die("write");
            delivered++;
        } else {
            stale++;
        }
        free(packet.bytes);
        some++;
    }
    return some;
}

// ---------------------------------------------------------------------- the ends

typedef struct {
    int fd, connected, exchange;
    uint32_t port;
    int64_t begun, times[2], start_at;
    long got;
} Slot;

static long up, down;
static int clean;
static const char *algorithm;
static char zeros[1 << 20];

static void watch(int fd, uint32_t events, uint64_t what, int how) {
    struct epoll_event event = {.events = events, .data.u64 = what};
    if (epoll_ctl(epoll, how, fd, &event)) die("epoll_ctl");
}

static void prepare(int fd) {
    int one = 1;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one)) die("TCP_NODELAY");
    if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, algorithm, strlen(algorithm))) die(algorithm);
}

static struct sockaddr_in at(int side, int port) {
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, ADDRESS[side], &address.sin_addr);
    return address;
}

static void speak(int fd, long size) {
    if (send(fd, zeros, size, MSG_NOSIGNAL) != size) die("send");
}

static long listen_to(int fd) {  // -1: the connection is broken
    static char bytes[1 << 18];
    long all = 0;
    for (;;) {
        ssize_t got = recv(fd, bytes, sizeof bytes, 0);
        if (got < 0 && errno == EAGAIN) return all;
        if (got <= 0) return -1;
        all += got;
    }
}

static void vanish(int fd) {  // without a word: the other end does the same
    struct linger now = {1, 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

// Server sockets are told from slots by this bit, the listener by all bits.
static const uint64_t SERVER = 1ull << 40, LISTENER = ~0ull, TUN = 1ull << 41;

static void accept_all(int listener) {
    for (;;) {
        struct sockaddr_in peer;
        socklen_t length = sizeof peer;
        int fd = accept4(listener, (struct sockaddr *)&peer, &length, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (fd < 0) return;
        uint32_t port = ntohs(peer.sin_port);
        wires[port].server = fd;
        wires[port].got = 0;
        watch(fd, EPOLLIN, SERVER | port, EPOLL_CTL_ADD);
    }
}

static void serve(uint32_t port) {
    Wire *wire = &wires[port];
    if (wire->server < 0) return;
    long got = listen_to(wire->server);
    if (got < 0) {
        vanish(wire->server);
        wire->server = -1;
        return;
    }
    for (wire->got += got; wire->got >= up; wire->got -= up) speak(wire->server, down);
}

static void open_slot(Slot *slot, uint64_t number, uint32_t port, uint64_t seed) {
    Wire *wire = &wires[port];
    wire->life++;
    wire->open = 1;
    wire->lossy = !clean;
    wire->latest = 0;
    wire->server = -1;
    for (int side = 0; side < 2; side++) {
        wire->free[side] = 0;
        wire->last[side] = 0;
        wire->random[side] = seed + (uint64_t)side * 0xD1B54A32D192ED03u;
        next_random(&wire->random[side]);
    }
    slot->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (slot->fd < 0) die("socket");
    prepare(slot->fd);
    struct sockaddr_in own = at(0, port), other = at(1, PORT);
    if (bind(slot->fd, (struct sockaddr *)&own, sizeof own)) die("bind");
    slot->port = port;
    slot->connected = 0;
    slot->exchange = 0;
    slot->got = 0;
    slot->begun = clock_ns();
    if (connect(slot->fd, (struct sockaddr *)&other, sizeof other) && errno != EINPROGRESS)
        die("connect");
    watch(slot->fd, EPOLLOUT, number, EPOLL_CTL_ADD);
}

// Something of a slot can be read or written; 1: it is over, -1: it broke.
static int proceed(Slot *slot, uint64_t number) {
    if (!slot->connected) {
        int error = 0;
        socklen_t length = sizeof error;
        getsockopt(slot->fd, SOL_SOCKET, SO_ERROR, &error, &length);
        if (error) return -1;
        slot->connected = 1;
        watch(slot->fd, EPOLLIN, number, EPOLL_CTL_MOD);
        speak(slot->fd, up);
        return 0;
    }
    long got = listen_to(slot->fd);
    if (got < 0) return -1;
    slot->got += got;
    if (slot->got < down) return 0;
    int64_t now = clock_ns();
    slot->got -= down;
    slot->times[slot->exchange++] = now - slot->begun;
    if (slot->exchange == 2) return 1;
    wires[slot->port].lossy = 1;
    slot->begun = now;
    speak(slot->fd, up);
    return 0;
}

static void close_slot(Slot *slot) {
    Wire *wire = &wires[slot->port];
    wire->open = 0;
    vanish(slot->fd);
    slot->fd = -1;
    if (wire->server >= 0) vanish(wire->server);
    wire->server = -1;
}

static void sleep_until(int64_t until) {
    struct timespec wait = {0, 0};
    int64_t left = until - clock_ns() - SPIN;
    if (left > 0) wait = (struct timespec){left / 1000000000, left % 1000000000};
    struct epoll_event event;
    if (left > 0) epoll_pwait2(epoll, &event, 1, &wait, NULL);
}

int main(int argc, char **argv) {
    if (geteuid() && unshare(CLONE_NEWUSER)) die("a user namespace");
    struct rlimit files;
    getrlimit(RLIMIT_NOFILE, &files);
    files.rlim_cur = files.rlim_max;
    setrlimit(RLIMIT_NOFILE, &files);
    prctl(PR_SET_TIMERSLACK, 1);
    tuns[1] = make_namespace(1);
    int server_namespace = own_namespace();
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (listener < 0) die("socket");
    tuns[0] = make_namespace(0);
    int client_namespace = own_namespace();
    if (argc == 2 && !strcmp(argv[1], "check")) return 0;
    if (argc != 11) {
        fprintf(stderr, "see the beginning of the source\n");
        return 2;
    }
    algorithm = argv[1];
    delay_ns = atof(argv[2]) * 1e6;
    ns_per_byte = 8e3 / atof(argv[3]);
    up = atol(argv[4]);
    down = atol(argv[5]);
    loss = atof(argv[6]);
    clean = atoi(argv[7]);
    long samples = atol(argv[8]), count = atol(argv[9]);
    uint64_t seed = strtoull(argv[10], NULL, 10);
    if (up > (long)sizeof zeros || down > (long)sizeof zeros) return 2;

    prepare(listener);
    struct sockaddr_in own = at(1, PORT);
    if (bind(listener, (struct sockaddr *)&own, sizeof own)) die("bind");
    if (listen(listener, 4096)) die("listen");
    epoll = epoll_create1(EPOLL_CLOEXEC);
    watch(listener, EPOLLIN, LISTENER, EPOLL_CTL_ADD);
    watch(tuns[0], EPOLLIN, TUN, EPOLL_CTL_ADD);
    watch(tuns[1], EPOLLIN, TUN, EPOLL_CTL_ADD);

    uint64_t pauses = seed;
    Slot *slots = calloc(count, sizeof *slots);
    int64_t now = clock_ns();
    for (long i = 0; i < count; i++) {
        slots[i].fd = -1;
        slots[i].start_at = now + (int64_t)(next_uniform(&pauses) * (8 * delay_ns + 20e6));
    }
    long started = 0, over = 0, given_up = 0;
    uint32_t port = FIRST_PORT;
    int64_t look = 0, soonest = 0;
    while (over < samples) {
        int busy = deliver();
        busy |= collect(0) | collect(1);
        struct epoll_event events[64];
        int ready = epoll_wait(epoll, events, 64, 0);
        for (int k = 0; k < ready; k++) {
            uint64_t what = events[k].data.u64;
            if (what == TUN) continue;
            busy = 1;
            if (what == LISTENER) {
                accept_all(listener);
            } else if (what & SERVER) {
                serve((uint32_t)what & 0xFFFF);
            } else {
                Slot *slot = &slots[what];
                int end = slot->fd < 0 ? 0 : proceed(slot, what);
                if (!end) continue;
                if (end > 0)
                    printf("%.6f %.6f %.6f\n", slot->times[0] / 1e6, slot->times[1] / 1e6,
                           wires[slot->port].latest / 1e6);
                given_up += end < 0;
                over++;
                close_slot(slot);
                // Some time between: it hits the kernel's ticks anywhere.
                slot->start_at = clock_ns() + (int64_t)(next_uniform(&pauses) * 8e6);
                if (slot->start_at < soonest) soonest = slot->start_at;
            }
        }
        now = clock_ns();
        if (now >= soonest || now >= look) {
            look = now + 1000000000;
            soonest = INT64_MAX;
            for (long i = 0; i < count; i++) {
                Slot *slot = &slots[i];
                if (slot->fd < 0 && started < samples) {
                    if (slot->start_at > now) {
                        if (slot->start_at < soonest) soonest = slot->start_at;
                        continue;
                    }
                    uint64_t own_seed = seed ^ (uint64_t)++started << 20;
                    open_slot(slot, (uint64_t)i, port, next_random(&own_seed));
                    if (++port == LAST_PORT) port = FIRST_PORT;
                } else if (slot->fd >= 0 && now - slot->begun > LONGEST) {
                    given_up++;
                    over++;
                    close_slot(slot);
                }
            }
        }
        if (!busy) {
            int64_t until = soonest < look ? soonest : look;
            if (waiting && heap[0].due < until) until = heap[0].due;
            sleep_until(until);
        }
    }
    long drops = dropped_by_device();
    unsigned long names[2] = {namespace_number(client_namespace),
                              namespace_number(server_namespace)};
    if (setns(server_namespace, CLONE_NEWNET)) die("setns");
    drops += dropped_by_device();
    stale += (long)waiting;
    printf("# seen=%ld lost=%ld delivered=%ld stale=%ld drops=%ld given_up=%ld namespaces=%lu,%lu\n",
           seen, lost, delivered, stale, drops, given_up, names[0], names[1]);
    return 0;
}
